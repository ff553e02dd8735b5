"""The API described for machines: OpenAPI 3.1, made from the same table that dispatches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hub.api.routing import Route, captures
from hub.wire import ErrorResponse

REFERENCE = "#/components/schemas/{name}"
ERRORS = {
    "400": "The body is not JSON, or the request makes no sense here",
    "401": "No token, or none that is good here",
    "403": "The token lacks the scope",
    "404": "No such environment, task, episode or mark; the hint names close matches",
    "409": "The episode's state does not allow it (HORIZON_REACHED, EPISODE_CLOSED)",
    "413": "The body is over the limit",
    "429": "The hub is full, or the token's limit is used up; Retry-After says when to come back",
    "422": "A field does not fit; details.field names it",
    "503": "The hub could not do it now; nothing happened, retry",
}


BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "Where the hub asks for tokens; `envhub token create` makes one",
}


def describe(routes: Sequence[Route], prefix: str, version: str) -> dict[str, Any]:
    """The description of ``routes`` as a JSON-able document."""
    bodies = [kind for route in routes for kind in (route.request, route.response) if kind]
    queries = [route.query for route in routes if route.query]
    kinds = list(dict.fromkeys([*bodies, *queries, ErrorResponse]))
    references, components = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
    reference = dict(zip(kinds, references, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operation = _operation(route, reference, components)
        paths.setdefault(prefix + route.path, {})[route.method.lower()] = operation
    for query in queries:
        components.pop(query.__name__, None)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "envhub",
            "version": version,
            "summary": "Environments for tool-using agents: episodes, calls, changes, rewards",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": BEARER}},
    }


def _operation(
    route: Route, reference: dict[Any, Any], components: dict[str, Any]
) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in captures(route.path)
    ]
    if route.query is not None:
        schema = components[route.query.__name__]
        parameters += [
            {"name": name, "in": "query", "required": name in schema["required"], "schema": field}
            for name, field in schema["properties"].items()
        ]
    operation: dict[str, Any] = {
        "operationId": getattr(route.handler, "__name__", route.path),
        "summary": route.summary,
        "security": [{"token": [route.scope]}],
        "parameters": parameters,
        "responses": {
            str(route.status): _content("Done", reference[route.response], route.content_type),
            **{status: _content(text, reference[ErrorResponse]) for status, text in ERRORS.items()},
        },
    }
    if route.request is not None:
        content: dict[str, Any] = {"schema": reference[route.request]}
        if route.example is not None:
            content["example"] = route.example
        operation["requestBody"] = {
            "required": bool(components[route.request.__name__].get("required")),
            "content": {"application/json": content},
        }
    return operation


def _content(
    description: str, schema: Any, content_type: str = "application/json"
) -> dict[str, Any]:
    return {"description": description, "content": {content_type: {"schema": schema}}}
