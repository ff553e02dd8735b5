"""The operations of an OpenAPI description as tools: names, one flat schema each, and the way back
from a tool's arguments to a request."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlencode

from environments.names import tool_name

Place = Literal["path", "query", "header", "body", "whole"]
"""Where an argument goes; ``whole`` is the body that is no object with fields of its own."""

_PLACES: Final[Mapping[str, Place]] = {"path": "path", "query": "query", "header": "header"}
_METHODS: Final = ("get", "put", "post", "delete", "patch")
_REFERENCE: Final = "#/components/schemas/"


class Argument(NamedTuple):
    """Where one argument of a tool goes, under which name there."""

    place: Place
    name: str


class Asked(NamedTuple):
    """A request for a call."""

    path: str
    query: str
    headers: list[tuple[bytes, bytes]]
    body: bytes


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation, ready to be offered and asked."""

    tool: str
    operation_id: str
    method: str
    path: str
    title: str
    description: str
    schema: dict[str, Any]
    arguments: Mapping[str, Argument]

    def ask(self, given: Mapping[str, Any]) -> Asked:
        """The request that these arguments make. A ``None`` beside the body is left out; what the
        operation does not know goes into its body, if it has one with fields."""
        path, query, fields = self.path, [], {}
        headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
        body: Any = None
        for name, value in given.items():
            place, there = self.arguments.get(name, Argument("body", name))
            if place == "body":
                fields[there] = value
            elif place == "whole":
                body = value
            elif value is None:
                continue
            elif place == "path":
                path = path.replace(f"{{{there}}}", _text(value))
            elif place == "query":
                values = value if isinstance(value, list) else [value]
                query += [(there, _text(item)) for item in values]
            else:
                headers.append((there.lower().encode(), _text(value).encode()))
        if body is None and (fields or self._needs_body):
            body = fields
        encoded = b"" if body is None else json.dumps(body).encode()
        headers.append((b"content-length", str(len(encoded)).encode()))
        return Asked(path, urlencode(query), headers, encoded)

    @property
    def _needs_body(self) -> bool:
        return any(argument.place == "body" for argument in self.arguments.values())


def operations(document: Mapping[str, Any]) -> Iterator[Operation]:
    """The operations of an OpenAPI description, in its order, each with a tool name of its own."""
    schemas: Mapping[str, Any] = document.get("components", {}).get("schemas", {})
    taken: dict[str, int] = {}
    for path, item in document.get("paths", {}).items():
        for method in _METHODS:
            if method not in item:
                continue
            operation = item[method]
            operation_id = operation.get("operationId") or f"{method}_{path}"
            count = taken[operation_id] = taken.get(operation_id, 0) + 1
            name = operation_id if count == 1 else f"{operation_id}_{count}"
            schema, arguments = _merged(operation, schemas)
            title = operation.get("summary", "")
            about = (title, operation.get("description", ""))
            yield Operation(
                tool=tool_name(name),
                operation_id=operation_id,
                method=method.upper(),
                path=path,
                title=title or name.replace("_", " ").capitalize(),
                description="\n\n".join(filter(None, about)) or f"{method.upper()} {path}",
                schema=schema,
                arguments=arguments,
            )


def _merged(
    operation: Mapping[str, Any], schemas: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Argument]]:
    """Path, query, headers and the fields of the body, as one object."""
    properties: dict[str, Any] = {}
    arguments: dict[str, Argument] = {}
    required: list[str] = []
    closed = False
    for parameter in operation.get("parameters", ()):
        place, name = _PLACES.get(parameter["in"]), parameter["name"]
        if place is None:
            continue
        about = {"description": parameter["description"]} if "description" in parameter else {}
        properties[name] = {**parameter.get("schema", {}), **about}
        arguments[name] = Argument(place, name)
        if parameter.get("required"):
            required.append(name)
    body = operation.get("requestBody")
    if body is not None:
        content: Mapping[str, Any] = next(iter(body.get("content", {}).values()), {})
        whole = content.get("schema", {})
        fields = _fields(whole, schemas)
        place = "whole" if fields is None else "body"
        if fields is None:
            fields = {"properties": {"body": whole}, "required": ["body"]}
        closed = fields.get("additionalProperties") is False
        for field, about in fields.get("properties", {}).items():
            name = f"body_{field}" if field in arguments else field
            properties[name] = about
            arguments[name] = Argument(place, field)
            if body.get("required") and field in fields.get("required", ()):
                required.append(name)
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if closed:
        schema["additionalProperties"] = False
    if required:
        schema["required"] = required
    schema = _with_own_names(schema)
    reached = dict(_reached(schema, schemas))
    if reached:
        schema["$defs"] = {name: _moved(reached[name]) for name in sorted(reached)}
    moved: dict[str, Any] = {**_moved(schema)}
    return moved, arguments


def _with_own_names(schema: dict[str, Any]) -> dict[str, Any]:
    """Without the titles that say again what a field is called."""
    for about in schema["properties"].values():
        if isinstance(about, dict):
            about.pop("title", None)
    return schema


def _fields(whole: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The object with fields that a body is, or may be."""
    options = [whole, *whole.get("anyOf", ())]
    for option in options:
        if option.get("$ref", "").startswith(_REFERENCE):
            option = schemas.get(option["$ref"].removeprefix(_REFERENCE), {})
        if option.get("type") == "object" and option.get("properties"):
            return option  # type: ignore[no-any-return]
    return None


def _reached(part: Any, schemas: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The named schemas that ``part`` refers to, and what those refer to."""
    waiting, seen = [part], set()
    while waiting:
        item = waiting.pop()
        if isinstance(item, Mapping):
            name = str(item.get("$ref", "")).removeprefix(_REFERENCE)
            if name in schemas and name not in seen:
                seen.add(name)
                waiting.append(schemas[name])
                yield name, schemas[name]
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)


def _moved(part: Any) -> Any:
    """References to named schemas as they are inside of one schema, and OpenAPI's named examples as
    JSON Schema has them."""
    if isinstance(part, list):
        return [_moved(item) for item in part]
    if not isinstance(part, Mapping):
        return part
    moved = {key: _moved(value) for key, value in part.items()}
    if isinstance(moved.get("$ref"), str):
        moved["$ref"] = moved["$ref"].replace(_REFERENCE, "#/$defs/")
    named = moved.get("examples")
    if isinstance(named, dict) and all(
        isinstance(e, dict) and "value" in e for e in named.values()
    ):
        moved["examples"] = [each["value"] for each in named.values()]
    return moved


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value)
