"""The language of verifiers as a JSON Schema, for editors, generators and other languages.

``schema.json`` beside this module is its output: ``python -m environments.assertions.schema``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import environments.assertions.matchers as matchers
import environments.assertions.parts as parts
from environments.assertions.words import Kind, Word

_SQL = {"$ref": "#/$defs/sql"}


def verifier_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a task's ``verifier``.

    It knows every word and what each takes; tables, columns and tools are known only to the pack,
    so a verifier that fits may still be refused when the pack loads.
    """
    tests = {key: test.word for key, test in matchers.TESTS.items()}
    beside = {key: word for key, word in matchers.BESIDE.items() if key != "sql"}
    several = {**_object({**tests, **beside}), "minProperties": 1}
    several["dependentRequired"] = {"within": ["approx"]}
    literal = {"type": ["string", "number", "boolean", "null"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "envhub verifier",
        **_object({**parts.WORDS, **parts.ELSEWHERE}),
        "minProperties": 1,
        "$defs": {
            "sql": {
                **_object({"sql": matchers.BESIDE["sql"]}),
                "required": ["sql"],
            },
            "matcher": {"anyOf": [literal, _SQL, several]},
            **{name: _object(words) for name, words in parts.ENTRY_WORDS.items()},
            "group": _object(parts.GROUP_WORDS),
        },
    }


def _object(words: Mapping[str, Word]) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: _value(word) for name, word in words.items()},
        "additionalProperties": False,
    }
    if required := [name for name, word in words.items() if word.required]:
        schema["required"] = required
    return schema


def _value(word: Word) -> dict[str, Any]:
    return {"description": word.meaning, **_with_sql(word.kind)}


def _with_sql(kind: Kind) -> dict[str, Any]:
    schema = dict(kind.schema)
    if not kind.sql or not schema:
        return schema
    if schema.get("type") == "array":
        items = schema.get("items")
        return {**schema, "items": {"anyOf": [items, _SQL]}} if items else schema
    return {"anyOf": [schema, _SQL]}


if __name__ == "__main__":
    print(json.dumps(verifier_schema(), indent=1))
