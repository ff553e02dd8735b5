"""What one MCP URL (or pipe) serves, told apart from how it is served."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
import orjson
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.inbound import x_mcp_header_map

from environments.spec import ToolSpec
from environments.trajectory import Step
from hub.errors import InvalidRequest
from hub.mcp_server.jsonrpc import Params, method_not_found
from hub.wire import MAX_KEY, ErrorBody

CALL_KEY: Final = "envhub/call_key"
"""``_meta`` key of a call's idempotency key: a retry with it answers the recorded step."""

LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
LOG_LEVELS: Final[tuple[LogLevel, ...]] = (
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
)
Feature = Literal["tools", "resources", "prompts", "completions", "logging"]
Notify = Callable[[str, Params], Awaitable[None]]


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of what a surface lists; encoded as it stands."""


class Resource(Wire, frozen=True, kw_only=True):
    uri: str
    name: str
    title: str = ""
    description: str = ""
    mime_type: str


class ResourceTemplate(Wire, frozen=True, kw_only=True):
    uri_template: str
    name: str
    title: str = ""
    description: str = ""
    mime_type: str


class Contents(Wire, frozen=True, kw_only=True):
    """What a resource holds: ``text``, or ``blob`` in base64."""

    uri: str
    mime_type: str
    text: str | None = None
    blob: str | None = None


class PromptArgument(Wire, frozen=True, kw_only=True):
    name: str
    description: str = ""
    required: bool = False


class Prompt(Wire, frozen=True, kw_only=True):
    name: str
    title: str = ""
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


class PromptMessage(Wire, frozen=True, kw_only=True):
    content: dict[str, Any]
    role: Literal["user", "assistant"]

    @classmethod
    def of(cls, text: str) -> PromptMessage:
        return cls(content={"type": "text", "text": text}, role="user")


class RawResult(msgspec.Struct, frozen=True):
    """A whole result, made elsewhere (content other than text, a request for input)."""

    result: dict[str, Any]


class ToolAnswer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What came of a tool call: ``result`` (any JSON value), or the error it ended in.

    ``step`` is for whoever records and measures: nothing of it but result and error goes out.
    """

    result: Any = None
    error: ErrorBody | None = None
    step: Step | None = None
    remaining: int | None = None
    """Steps left before the horizon, where the task wants that told."""


class CallContext:
    """What a surface may know of a request, and tell its client while it runs."""

    __slots__ = ("_log_from", "_notify", "method", "params", "session_id")

    def __init__(
        self,
        method: str,
        params: Params,
        *,
        session_id: str | None = None,
        log_from: LogLevel | None = "debug",
        notify: Notify | None = None,
    ) -> None:
        self.method = method
        self.params = params
        self.session_id = session_id
        self._log_from = log_from
        self._notify = notify

    @property
    def meta(self) -> Mapping[str, Any]:
        return self.params.get("_meta") or {}

    @property
    def call_key(self) -> str | None:
        """Raises ``InvalidRequest`` for one that is longer than any may be."""
        key = self.meta.get(CALL_KEY)
        if not isinstance(key, str):
            return None
        if len(key) > MAX_KEY:
            raise InvalidRequest(f"_meta {CALL_KEY} has more than {MAX_KEY} characters")
        return key

    @property
    def wants_progress(self) -> bool:
        return self._notify is not None and "progressToken" in self.meta

    async def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Tell the client how far the call is; nothing if it did not ask."""
        if self._notify is None or "progressToken" not in self.meta:
            return
        params: Params = {"progressToken": self.meta["progressToken"], "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        await self._notify("notifications/progress", params)

    async def log(self, level: LogLevel, data: Any, logger: str = "") -> None:
        """Send a log entry to the client, if it takes entries of this level."""
        if self._notify is None or self._log_from is None:
            return
        if LOG_LEVELS.index(level) < LOG_LEVELS.index(self._log_from):
            return
        params: Params = {"level": level, "data": data}
        if logger:
            params["logger"] = logger
        await self._notify("notifications/message", params)


class ToolList:
    """Tools in the order they are listed, with what goes over the wire made once."""

    def __init__(self, tools: Iterable[ToolSpec]) -> None:
        self.tools = tuple(tools)
        self.modern = orjson.Fragment(orjson.dumps(self.wire(any_structured=True)))
        self.handshake = orjson.Fragment(orjson.dumps(self.wire(any_structured=False)))
        self.header_schemas = {
            tool.name: tool.input_schema
            for tool in self.tools
            if x_mcp_header_map(tool.input_schema)
        }
        """Schemas of the tools with arguments that clients must mirror into headers."""

    def wire(self, *, any_structured: bool) -> list[dict[str, Any]]:
        """The list as ``tools/list`` has it. Before 2026-07-28 a structured result is an object,
        so the schema of any other is left out (``any_structured`` false)."""
        listed = [_tool(tool) for tool in self.tools]
        for tool in listed:
            if not any_structured and tool.get("outputSchema", {}).get("type") != "object":
                tool.pop("outputSchema", None)
        return listed


def _tool(tool: ToolSpec) -> dict[str, Any]:
    wire: dict[str, Any] = {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": {"type": "object", **tool.input_schema},
        "annotations": {"readOnlyHint": tool.read_only},
    }
    if tool.title:
        wire["title"] = tool.title
    if tool.output_schema is not None:
        wire["outputSchema"] = tool.output_schema
    return wire


class Surface:
    """Base of all surfaces. Everything but the tools may be left as it is here.

    Errors of the ``EnvhubError`` tree may be raised by any method: the caller's mistakes are
    answered as invalid parameters, all others as internal errors that say whose they are.
    """

    name: str = "envhub"
    version: str = ""
    title: str = ""
    offers: frozenset[Feature] = frozenset({"tools"})
    events: InMemorySubscriptionBus | None = None
    """Where changes of lists and resources are announced; ``None`` where nothing ever changes."""
    sessionless: bool = True
    """Whether the era without sessions finds all it needs here. If not, ``server/discover`` names
    the handshake versions only, and a client that speaks both eras shakes hands."""
    fresh_ms: int = 0
    """How long a client may keep what it was told, in milliseconds."""
    shared: bool = False
    """Whether what it was told holds for every client (``cacheScope`` public)."""

    def instructions(self) -> str:
        """What a model should know before it uses the tools."""
        return ""

    async def list_tools(self) -> ToolList:
        raise NotImplementedError

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: CallContext
    ) -> ToolAnswer | RawResult:
        """Call a tool. Raises ``UnknownTool``; every other mistake of the agent is an answer."""
        raise NotImplementedError

    async def list_resources(self) -> Sequence[Resource]:
        return ()

    async def list_resource_templates(self) -> Sequence[ResourceTemplate]:
        return ()

    async def read_resource(
        self, uri: str, context: CallContext
    ) -> Sequence[Contents] | RawResult | None:
        """``None`` where no resource has this address."""
        return None

    async def list_prompts(self) -> Sequence[Prompt]:
        return ()

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str], context: CallContext
    ) -> Sequence[PromptMessage] | RawResult | None:
        """``None`` where no prompt has this name."""
        return None

    async def complete(self, ref: Mapping[str, Any], argument: str, value: str) -> Sequence[str]:
        """What an argument of a prompt or of a resource's address may go on to be."""
        raise method_not_found("completion/complete")

    async def end_session(self, session_id: str) -> None:
        """A client of the handshake era ended its session."""
