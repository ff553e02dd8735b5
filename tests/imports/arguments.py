"""Arguments for a tool, made from its schema and from what stands in a document."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

Words = Mapping[str, list[Any]]


def words_of(document: Any) -> dict[str, list[Any]]:
    """The scalars of a document by the name of their field; keys of its objects under ``""``."""
    found: dict[str, list[Any]] = {"": []}

    def visit(value: Any, name: str) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                found[""].append(key)
                visit(item, key)
        elif isinstance(value, list):
            for item in value:
                visit(item, name)
        elif value is not None:
            found.setdefault(name, []).append(value)

    visit(document, "")
    return found


def arguments_for(schema: Mapping[str, Any], words: Words, dice: random.Random) -> dict[str, Any]:
    """Some arguments that the schema takes."""
    required = schema.get("required", ())
    return {
        name: _value(name, each, schema, words, dice)
        for name, each in schema.get("properties", {}).items()
        if name in required or dice.random() < 0.5
    }


def _value(
    name: str,
    schema: Mapping[str, Any],
    root: Mapping[str, Any],
    words: Words,
    dice: random.Random,
) -> Any:
    if "$ref" in schema:
        return _value(name, root["$defs"][schema["$ref"].rpartition("/")[2]], root, words, dice)
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return _value(name, dice.choice(schema[several]), root, words, dice)
    if "enum" in schema:
        return dice.choice(schema["enum"])
    kind = schema.get("type", "string")
    if kind == "object":
        return {
            key: _value(key, each, root, words, dice)
            for key, each in schema.get("properties", {}).items()
        }
    if kind == "array":
        return [_value(name, schema.get("items", {}), root, words, dice)]
    if kind == "boolean":
        return dice.random() < 0.5
    if kind == "null":
        return None
    fitting = {"string": (str,), "integer": (int,)}.get(kind, (int, float))
    known = [value for value in words.get(name, ()) if isinstance(value, fitting)]
    if known and dice.random() < 0.8:
        return dice.choice(known)
    if kind == "string":
        keys = [key for key in words[""] if isinstance(key, str)]
        return dice.choice(keys) if keys and dice.random() < 0.8 else "Some text"
    return dice.choice([0, 1, 2, 3, 10, 100])
