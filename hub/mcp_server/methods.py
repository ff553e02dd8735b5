"""The methods of MCP over a surface: what each answers, before an era dresses it.

Used by the HTTP path, by SSE and by stdio, so that one request is answered alike on all three.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import msgspec
import orjson

from environments.chat import remaining_text
from environments.errors import UnknownTool
from hub.mcp_server.jsonrpc import Params, invalid_params, method_not_found
from hub.mcp_server.surface import (
    CallContext,
    Feature,
    RawResult,
    Surface,
    ToolAnswer,
    ToolList,
    Wire,
)

Result = dict[str, Any]
Method = Callable[[Surface, CallContext], Awaitable[Result]]

MAX_COMPLETIONS: Final = 100
"""The most values one completion may hold, by the protocol."""


def render(answer: ToolAnswer | RawResult, *, any_structured: bool) -> Result:
    """A tool's answer as ``tools/call`` has it: JSON as text and as structured content, a string
    as the text it is.

    ``any_structured``: whether arrays and scalars may be structured content too (2026-07-28).
    """
    if type(answer) is RawResult:
        return answer.result
    assert isinstance(answer, ToolAnswer)
    if answer.error is not None:
        value: Any = {"error": msgspec.to_builtins(answer.error)}
    else:
        value = answer.result
    text = value if type(value) is str else orjson.dumps(value).decode()
    result: Result = {
        "content": [{"type": "text", "text": text}],
        "isError": answer.error is not None,
    }
    if answer.remaining is not None:
        result["content"].append({"type": "text", "text": remaining_text(answer.remaining)})
    if type(value) is dict or (any_structured and type(value) is not str and value is not None):
        result["structuredContent"] = value
    return result


async def call_tool(surface: Surface, context: CallContext) -> ToolAnswer | RawResult:
    """Raises ``RpcError`` for parameters that are no tool call, and for an unknown tool."""
    params = context.params
    name = params.get("name")
    arguments = params.get("arguments")
    if arguments is None:
        arguments = {}
    if type(name) is not str or type(arguments) is not dict:
        raise invalid_params("tools/call takes a name and an object of arguments")
    try:
        return await surface.call_tool(name, arguments, context)
    except UnknownTool as error:
        raise invalid_params(
            f"Unknown tool: {name}", {"code": error.code, "hint": error.hint}
        ) from None


async def list_resources(surface: Surface, context: CallContext) -> Result:
    _refuse_cursor(context.params)
    return {"resources": _wire(await surface.list_resources())}


async def list_resource_templates(surface: Surface, context: CallContext) -> Result:
    _refuse_cursor(context.params)
    return {"resourceTemplates": _wire(await surface.list_resource_templates())}


async def read_resource(surface: Surface, context: CallContext) -> Result:
    uri = context.params["uri"]
    found = await surface.read_resource(uri, context)
    if isinstance(found, RawResult):
        return found.result
    if not found:
        raise invalid_params("Resource not found", {"uri": uri})
    return {"contents": _wire(found)}


async def list_prompts(surface: Surface, context: CallContext) -> Result:
    _refuse_cursor(context.params)
    return {"prompts": _wire(await surface.list_prompts())}


async def get_prompt(surface: Surface, context: CallContext) -> Result:
    name = context.params["name"]
    prompts = {prompt.name: prompt for prompt in await surface.list_prompts()}
    if name not in prompts:
        raise invalid_params(f"Unknown prompt: {name}", {"prompts": sorted(prompts)})
    arguments = context.params.get("arguments") or {}
    required = {item.name for item in prompts[name].arguments if item.required}
    if missing := sorted(required - arguments.keys()):
        raise invalid_params(f"prompt {name} misses {', '.join(missing)}", {"missing": missing})
    found = await surface.get_prompt(name, arguments, context)
    if isinstance(found, RawResult):
        return found.result
    if found is None:
        raise invalid_params(f"Unknown prompt: {name}")
    return {"description": prompts[name].description, "messages": _wire(found)}


async def complete(surface: Surface, context: CallContext) -> Result:
    params = context.params
    values = await surface.complete(
        params["ref"], params["argument"]["name"], params["argument"]["value"]
    )
    return {
        "completion": {
            "values": list(values[:MAX_COMPLETIONS]),
            "total": len(values),
            "hasMore": len(values) > MAX_COMPLETIONS,
        }
    }


async def ping(surface: Surface, context: CallContext) -> Result:
    return {}


OFFERED: Final[dict[str, tuple[Feature | None, Method]]] = {
    "ping": (None, ping),
    "resources/list": ("resources", list_resources),
    "resources/templates/list": ("resources", list_resource_templates),
    "resources/read": ("resources", read_resource),
    "prompts/list": ("prompts", list_prompts),
    "prompts/get": ("prompts", get_prompt),
    "completion/complete": ("completions", complete),
}
"""Methods that mean the same in both eras, and what a surface must offer to have them.
``tools/list`` and ``tools/call`` are not here: how they are encoded depends on the era."""


async def tool_list(surface: Surface, params: Params) -> ToolList:
    _refuse_cursor(params)
    if "tools" not in surface.offers:
        raise method_not_found("tools/list")
    return await surface.list_tools()


async def perform(surface: Surface, context: CallContext) -> Result:
    """The result of a method of ``OFFERED``. Raises ``RpcError`` if the surface has it not."""
    feature, method = OFFERED.get(context.method, (None, None))
    if method is None or (feature is not None and feature not in surface.offers):
        raise method_not_found(context.method)
    return await method(surface, context)


def capabilities(surface: Surface, *, subscribe: bool) -> Result:
    """What a surface can do; ``subscribe``: whether this era and transport can deliver changes."""
    changes = subscribe and surface.events is not None
    offered: dict[Feature, Result] = {
        "tools": {"listChanged": changes},
        "resources": {"listChanged": changes, "subscribe": changes},
        "prompts": {"listChanged": changes},
        "completions": {},
        "logging": {},
    }
    return {name: value for name, value in offered.items() if name in surface.offers}


def implementation(surface: Surface) -> Result:
    """How a surface names itself (``serverInfo``)."""
    info: Result = {"name": surface.name, "version": surface.version}
    if surface.title:
        info["title"] = surface.title
    return info


def _refuse_cursor(params: Params) -> None:
    if params.get("cursor") is not None:
        raise invalid_params("Invalid cursor: lists here have one page")


def _wire(items: Iterable[Wire]) -> list[Any]:
    return [msgspec.to_builtins(item) for item in items]
