"""The surface the public conformance suite asks for: particular tools, resources and prompts.

Its names and words are the suite's. It is served by the hub's own MCP layer, unchanged.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.subscriptions import PromptsListChanged, ToolsListChanged
from mcp_types import CLIENT_CAPABILITIES_META_KEY, MISSING_REQUIRED_CLIENT_CAPABILITY

from environments.errors import UnknownTool
from environments.spec import ToolSpec
from hub.mcp_server.jsonrpc import RpcError, invalid_params
from hub.mcp_server.surface import (
    CallContext,
    Contents,
    Feature,
    Prompt,
    PromptArgument,
    PromptMessage,
    RawResult,
    Resource,
    ResourceTemplate,
    Surface,
    ToolAnswer,
    ToolList,
)
from hub.wire import ErrorBody

Answer = ToolAnswer | RawResult
Handler = Callable[["FixtureSurface", dict[str, Any], CallContext], Awaitable[Answer]]

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIA"
    "X8jx0gAAAABJRU5ErkJggg=="
)
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
STATE_KEY = b"the fixture signs what it gives its clients to keep"
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}
HANDLERS: dict[str, tuple[ToolSpec, Handler]] = {}

SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


class FixtureSurface(Surface):
    """Everything a surface can offer, at once."""

    name, version, title = "conformance", "1.0.0", "Conformance fixture"
    offers: frozenset[Feature] = frozenset(
        ("tools", "resources", "prompts", "completions", "logging")
    )

    def __init__(self) -> None:
        self.events = InMemorySubscriptionBus()
        self._tools = ToolList(spec for spec, _ in HANDLERS.values())

    def instructions(self) -> str:
        return "Call the tools the suite names."

    async def list_tools(self) -> ToolList:
        return self._tools

    async def call_tool(self, name: str, arguments: dict[str, Any], context: CallContext) -> Answer:
        if name not in HANDLERS:
            raise UnknownTool(f"there is no tool {name!r}")
        return await HANDLERS[name][1](self, arguments, context)

    async def list_resources(self) -> Sequence[Resource]:
        return [
            Resource(uri=uri, name=name, description=name, mime_type=mime_type)
            for uri, name, mime_type in (
                ("test://static-text", "Static text", "text/plain"),
                ("test://static-binary", "Static binary", "image/png"),
                ("test://watched-resource", "Watched resource", "text/plain"),
            )
        ]

    async def list_resource_templates(self) -> Sequence[ResourceTemplate]:
        return [
            ResourceTemplate(
                uri_template="test://template/{id}/data",
                name="Template",
                description="Data by id",
                mime_type="application/json",
            )
        ]

    async def read_resource(self, uri: str, context: CallContext) -> Sequence[Contents] | None:
        if uri == "test://static-text":
            text = "This is the content of the static text resource."
            return [Contents(uri=uri, mime_type="text/plain", text=text)]
        if uri == "test://static-binary":
            return [Contents(uri=uri, mime_type="image/png", blob=PNG)]
        if uri == "test://watched-resource":
            return [Contents(uri=uri, mime_type="text/plain", text="Watched resource content")]
        if uri.startswith("test://template/") and uri.endswith("/data"):
            key = uri.removeprefix("test://template/").removesuffix("/data")
            data = {"id": key, "templateTest": True, "data": f"Data for ID: {key}"}
            return [Contents(uri=uri, mime_type="application/json", text=json.dumps(data))]
        return None

    async def list_prompts(self) -> Sequence[Prompt]:
        def required(*names: str) -> tuple[PromptArgument, ...]:
            return tuple(PromptArgument(name=name, required=True) for name in names)

        return [
            Prompt(name="test_simple_prompt", description="Without arguments"),
            Prompt(
                name="test_prompt_with_arguments",
                description="With two arguments",
                arguments=required("arg1", "arg2"),
            ),
            Prompt(
                name="test_prompt_with_embedded_resource",
                description="With an embedded resource",
                arguments=required("resourceUri"),
            ),
            Prompt(name="test_prompt_with_image", description="With an image"),
            Prompt(name="test_input_required_result_prompt", description="Asks before it answers"),
        ]

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str], context: CallContext
    ) -> Sequence[PromptMessage] | RawResult | None:
        match name:
            case "test_simple_prompt":
                return [PromptMessage.of("This is a simple prompt for testing.")]
            case "test_prompt_with_arguments":
                said = f"arg1='{arguments['arg1']}', arg2='{arguments['arg2']}'"
                return [PromptMessage.of(f"Prompt with arguments: {said}")]
            case "test_prompt_with_embedded_resource":
                resource = embedded(
                    arguments["resourceUri"], "Embedded resource content for testing."
                )
                return [
                    PromptMessage(content=resource, role="user"),
                    PromptMessage.of("Please process the embedded resource above."),
                ]
            case "test_prompt_with_image":
                return [
                    PromptMessage(content=image(), role="user"),
                    PromptMessage.of("Please analyze the image above."),
                ]
            case "test_input_required_result_prompt":
                given = responses(context).get("user_context")
                if given is None:
                    return asks({"user_context": elicitation("What context?", "context")})
                return [PromptMessage.of(f"Use this context: {given['content']['context']}")]
        return None

    async def complete(self, ref: Mapping[str, Any], argument: str, value: str) -> Sequence[str]:
        return [word for word in ("paris", "park", "party") if word.startswith(value)]


def tool(schema: dict[str, Any] = NO_ARGUMENTS) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        name = handler.__name__
        spec = ToolSpec(
            name=name, description=f"The suite's {name}", input_schema=schema, read_only=True
        )
        HANDLERS[name] = (spec, handler)
        return handler

    return register


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def image() -> dict[str, Any]:
    return {"type": "image", "data": PNG, "mimeType": "image/png"}


def embedded(uri: str, words: str, mime_type: str = "text/plain") -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": words}}


def content(*blocks: dict[str, Any]) -> RawResult:
    return RawResult({"content": list(blocks), "isError": False})


# --- tools that answer ------------------------------------------------------------------------


@tool()
async def test_simple_text(surface: FixtureSurface, arguments: Any, context: CallContext) -> Answer:
    return ToolAnswer(result="This is a simple text response for testing.")


@tool()
async def test_image_content(
    surface: FixtureSurface, arguments: Any, context: CallContext
) -> Answer:
    return content(image())


@tool()
async def test_audio_content(
    surface: FixtureSurface, arguments: Any, context: CallContext
) -> Answer:
    return content({"type": "audio", "data": WAV, "mimeType": "audio/wav"})


@tool()
async def test_embedded_resource(
    surface: FixtureSurface, arguments: Any, context: CallContext
) -> Answer:
    return content(embedded("test://embedded-resource", "This is an embedded resource content."))


@tool()
async def test_multiple_content_types(
    surface: FixtureSurface, arguments: Any, context: CallContext
) -> Answer:
    data = json.dumps({"test": "data", "value": 123})
    resource = embedded("test://mixed-content-resource", data, "application/json")
    return content(text("Multiple content types test:"), image(), resource)


@tool()
async def test_error_handling(
    surface: FixtureSurface, arguments: Any, context: CallContext
) -> Answer:
    message = "This tool intentionally returns an error for testing"
    return ToolAnswer(error=ErrorBody(kind="agent", code="INTENTIONAL", message=message))


@tool(SCHEMA_2020_12)
async def json_schema_2020_12_tool(
    surface: FixtureSurface, arguments: Any, context: CallContext
) -> Answer:
    return ToolAnswer(result=arguments)


@tool({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}})
async def test_x_mcp_header(
    surface: FixtureSurface, arguments: Any, context: CallContext
) -> Answer:
    return ToolAnswer(result={"region": arguments.get("region")})


# --- tools that say something meanwhile -------------------------------------------------------


@tool()
async def test_tool_with_logging(
    surface: FixtureSurface, arguments: Any, context: CallContext
) -> Answer:
    for what in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.log("info", what)
        await asyncio.sleep(0.02)
    return ToolAnswer(result="Tool with logging executed successfully")


@tool()
async def test_logging_tool(
    surface: FixtureSurface, arguments: Any, context: CallContext
) -> Answer:
    await context.log("info", "A tool was called")
    return ToolAnswer(result="Logged to whoever asked for it")


@tool()
async def test_tool_with_progress(
    surface: FixtureSurface, arguments: Any, context: CallContext
) -> Answer:
    for done in (0, 50, 100):
        await context.progress(done, 100, f"Completed step {done} of 100")
        await asyncio.sleep(0.02)
    return ToolAnswer(result="Done")


@tool()
async def test_streaming_elicitation(
    surface: FixtureSurface, arguments: Any, context: CallContext
) -> Answer:
    await context.progress(1, 2)
    return asks({"user_name": elicitation("What is your name?", "name")})


@tool()
async def test_trigger_tool_change(
    surface: FixtureSurface, arguments: Any, context: CallContext
) -> Answer:
    await surface.events.publish(ToolsListChanged())
    return ToolAnswer(result="tool list changed")


@tool()
async def test_trigger_prompt_change(
    surface: FixtureSurface, arguments: Any, context: CallContext
) -> Answer:
    await surface.events.publish(PromptsListChanged())
    return ToolAnswer(result="prompt list changed")


# --- tools that ask before they answer (2026-07-28) -------------------------------------------


def elicitation(message: str, field: str, kind: str = "string") -> dict[str, Any]:
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return {
        "method": "elicitation/create",
        "params": {"mode": "form", "message": message, "requestedSchema": schema},
    }


def sampling(words: str, tokens: int = 100) -> dict[str, Any]:
    messages = [{"role": "user", "content": text(words)}]
    return {
        "method": "sampling/createMessage",
        "params": {"messages": messages, "maxTokens": tokens},
    }


ROOTS: dict[str, Any] = {"method": "roots/list"}


def asks(requests: dict[str, dict[str, Any]], state: Any = None) -> RawResult:
    result: dict[str, Any] = {"resultType": "input_required", "inputRequests": requests}
    if state is not None:
        said = json.dumps(state)
        result["requestState"] = f"{said}.{hmac.digest(STATE_KEY, said.encode(), 'sha256').hex()}"
    return RawResult(result)


def responses(context: CallContext) -> dict[str, Any]:
    given: dict[str, Any] = context.params.get("inputResponses") or {}
    return given


def state_of(context: CallContext) -> Any:
    """What an earlier round gave the client to keep; refused if it is not what was given."""
    kept = context.params.get("requestState")
    if kept is None:
        return None
    said, _, mac = kept.rpartition(".")
    if not hmac.compare_digest(mac, hmac.digest(STATE_KEY, said.encode(), "sha256").hex()):
        raise invalid_params("requestState is not what this server gave out")
    return json.loads(said)


def can(context: CallContext, capability: str) -> bool:
    return capability in context.meta.get(CLIENT_CAPABILITIES_META_KEY, {})


@tool()
async def test_missing_capability(
    surface: FixtureSurface, arguments: Any, context: CallContext
) -> Answer:
    if not can(context, "sampling"):
        raise RpcError(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            "This tool requires the client's sampling capability",
            {"requiredCapabilities": {"sampling": {}}},
        )
    return ToolAnswer(result="The client declared sampling")


@tool()
async def test_input_required_result_elicitation(
    surface: FixtureSurface, arguments: Any, context: CallContext
) -> Answer:
    given = responses(context).get("user_name")
    if not isinstance(given, dict) or "name" not in given.get("content", {}):
        return asks({"user_name": elicitation("What is your name?", "name")})
    return ToolAnswer(result=f"Hello, {given['content']['name']}!")


@tool()
async def test_input_required_result_sampling(
    surface: FixtureSurface, arguments: Any, context: CallContext
) -> Answer:
    given = responses(context).get("capital_question")
    if given is None:
        return asks({"capital_question": sampling("What is the capital of France?")})
    return ToolAnswer(result=f"Model said: {given['content']['text']}")


@tool()
async def test_input_required_result_list_roots(
    surface: FixtureSurface, arguments: Any, context: CallContext
) -> Answer:
    given = responses(context).get("client_roots")
    if given is None:
        return asks({"client_roots": ROOTS})
    return ToolAnswer(result=f"Client exposed {len(given['roots'])} root(s).")


@tool()
async def test_input_required_result_request_state(
    surface: FixtureSurface, arguments: Any, context: CallContext
) -> Answer:
    if state_of(context) == "confirming" and "confirm" in responses(context):
        return ToolAnswer(result="state-ok: confirmation received")
    return asks({"confirm": elicitation("Please confirm", "ok", "boolean")}, "confirming")


@tool()
async def test_input_required_result_tampered_state(
    surface: FixtureSurface, arguments: Any, context: CallContext
) -> Answer:
    kept = state_of(context)
    if kept is None:
        return asks({"confirm": elicitation("Please confirm", "ok", "boolean")}, "round 1")
    return ToolAnswer(result=f"state-ok: {kept}")


@tool()
async def test_input_required_result_multiple_inputs(
    surface: FixtureSurface, arguments: Any, context: CallContext
) -> Answer:
    if responses(context).keys() >= {"user_name", "greeting", "client_roots"}:
        return ToolAnswer(result="All inputs received.")
    wanted = {
        "user_name": elicitation("What is your name?", "name"),
        "greeting": sampling("Generate a greeting", 50),
        "client_roots": ROOTS,
    }
    return asks(wanted, "waiting for all three")


@tool()
async def test_input_required_result_multi_round(
    surface: FixtureSurface, arguments: Any, context: CallContext
) -> Answer:
    kept = state_of(context) or {"round": 0}
    given = responses(context)
    if kept["round"] == 1 and "step1" in given:
        name = given["step1"]["content"]["name"]
        question = elicitation("Step 2: What is your favorite color?", "color")
        return asks({"step2": question}, {"round": 2, "name": name})
    if kept["round"] == 2 and "step2" in given:
        return ToolAnswer(result=f"{kept['name']} likes {given['step2']['content']['color']}.")
    return asks({"step1": elicitation("Step 1: What is your name?", "name")}, {"round": 1})


@tool()
async def test_input_required_result_capabilities(
    surface: FixtureSurface, arguments: Any, context: CallContext
) -> Answer:
    wanted = {}
    if can(context, "sampling"):
        wanted["sample"] = sampling("Say hello", 50)
    if can(context, "elicitation"):
        wanted["ask"] = elicitation("What is your name?", "name")
    return asks(wanted, "gated")
