"""What a model said of a tool library, recorded by stage, task and attempt. The first attempts at
the schema, the data, the code, one oracle and one verifier are wrong; one task cannot be done."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec

HERE = Path(__file__).parent
WRAPPED = {".sql": "sql", ".py": "code"}
"""Files that are one field of an answer."""


def recorded(question: str, environment: str = "tool-library") -> str:
    """The answer to a question of the pipeline; the last attempt stands for all further ones."""
    stage = found(r"^Stage: (\S+)$", question)
    task = found(r"[Tt]ask `([a-z0-9-]+)`", question)
    attempt = int(found(r"^# Attempt (\d+)$", question) or 1)
    name = f"{stage}.{task}" if task else stage
    for number in range(attempt, 0, -1):
        for file in (HERE / environment).glob(f"{name}.{number}.*"):
            text = file.read_text()
            word = WRAPPED.get(file.suffix)
            return text if word is None else json.dumps({word: text})
    raise LookupError(f"nothing is recorded of {name}")


def asked(body: bytes) -> str:
    """The question in the body of a chat completion."""
    messages = msgspec.json.decode(body)["messages"]
    return str(next(one["content"] for one in messages if one["role"] == "user"))


def found(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    return match[1] if match else ""
