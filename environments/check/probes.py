"""Wrong arguments for tools: some break the schema, some only make no sense."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

Schema = Mapping[str, Any]
Arguments = dict[str, Any]

NONSENSE: Final = "no-such-thing"
HUGE: Final = 1_000_000_007


def breaking(schema: Schema) -> Iterator[Arguments]:
    """Arguments the schema refuses, as far as it refuses any: nothing, a stranger, wrong types."""
    properties = schema.get("properties", {})
    if schema.get("required"):
        yield {}
    yield {**sample(schema), NONSENSE: 1}
    for name in properties:
        yield {**sample(schema), name: {NONSENSE: [None]}}


def plausible(schema: Schema) -> Iterator[Arguments]:
    """Arguments of the right shape about things that do not exist."""
    yield sample(schema)
    yield sample(schema, huge=True)
    if set(schema.get("properties", {})) - set(schema.get("required", ())):
        yield sample(schema, optional=True)
        yield sample(schema, huge=True, optional=True)


def mutated(arguments: Mapping[str, Any], schema: Schema) -> Iterator[tuple[str, Arguments]]:
    """Good arguments with one of them made senseless, each with the name of that one."""
    for name, part in schema.get("properties", {}).items():
        if name in arguments:
            for huge in (False, True):
                wrong = _value(part, schema, huge)
                if wrong != arguments[name]:
                    yield f"{name}{' huge' if huge else ''}", {**arguments, name: wrong}


def sample(schema: Schema, *, huge: bool = False, optional: bool = False) -> Arguments:
    """Arguments that fit the schema where a value can be made up; patterns are not attempted."""
    required = schema.get("required", ())
    return {
        name: _value(part, schema, huge)
        for name, part in schema.get("properties", {}).items()
        if optional or name in required
    }


def _value(part: Schema, root: Schema, huge: bool) -> Any:
    part = resolved(part, root)
    if "const" in part:
        return part["const"]
    if "enum" in part:
        return part["enum"][-1 if huge else 0]
    match part.get("type"):
        case "integer" | "number":
            return _number(part, huge)
        case "boolean":
            return huge
        case "array":
            count = max(part.get("minItems", 0), 1)
            return [_value(part.get("items", {}), root, huge)] * count
        case "object":
            inner = {**part, "$defs": root.get("$defs", {})}
            return sample(inner, huge=huge)
        case "null":
            return None
        case _:
            return _text(part, huge)


def resolved(part: Schema, root: Schema) -> Schema:
    """The part itself, where it refers to another or gives a choice: the first choice."""
    if "$ref" in part:
        return resolved(root.get("$defs", {}).get(str(part["$ref"]).rsplit("/", 1)[-1], {}), root)
    for key in ("anyOf", "oneOf", "allOf"):
        if part.get(key):
            return resolved(part[key][0], root)
    return part


def _number(part: Schema, huge: bool) -> int | float:
    low = part.get("minimum", part.get("exclusiveMinimum", 0) + 1)
    if not huge:
        return low if part.get("type") == "number" else int(low)
    high = part.get("maximum", part.get("exclusiveMaximum", HUGE + 1) - 1)
    return high if part.get("type") == "number" else int(high)


def _text(part: Schema, huge: bool) -> str:
    text = {
        "date": "1971-02-03",
        "date-time": "1971-02-03T04:05:06Z",
        "email": "nobody@example.invalid",
        "uri": "https://example.invalid/",
    }.get(part.get("format", ""), NONSENSE)
    longest = part.get("maxLength", 200)
    if huge and "format" not in part:
        text = (text + "'\"%_;-- \u00e9\u4e16 ") * 8
    return text.ljust(part.get("minLength", 0), "x")[:longest]
