"""What a model said, by environment, stage, task and attempt.

``tool-library``: the first attempts at the schema, the data, the code, one oracle and one verifier
are wrong, so is each at wording a walk, and one task cannot be done. ``library-office`` is a world
of it and of ``bookkeeping``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
WRAPPED = {".sql": "sql", ".py": "code"}
"""Files that are one field of an answer."""


def recorded(question: str) -> str:
    """The answer to a question of the pipeline; the last attempt stands for all further ones."""
    environment = found(r"^Environment: (\S+)$", question)
    if not environment:
        environment = "library-office" if "its books" in question else "tool-library"
    stage = found(r"^Stage: (\S+)$", question)
    task = found(r"[Tt]ask `([a-z0-9-]+)`", question)
    attempt = int(found(r"^# Attempt (\d+)$", question) or 1)
    if stage == "walks":
        plain = found(r"^> (.*)$", question)
        wrong = attempt == 1 and environment == "tool-library"
        return json.dumps({"instruction": "See to it, please." if wrong else f"Hello! {plain}"})
    name = f"{stage}.{task}" if task else stage
    for number in range(attempt, 0, -1):
        for file in (HERE / environment).glob(f"{name}.{number}.*"):
            text = file.read_text()
            word = WRAPPED.get(file.suffix)
            return text if word is None else json.dumps({word: text})
    raise LookupError(f"nothing is recorded of {name} in {environment}")


def mind(body: dict[str, Any]) -> str:
    """The answer to a chat completion's body."""
    asked = next(one["content"] for one in body["messages"] if one["role"] == "user")
    return recorded(asked)


def found(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    return match[1] if match else ""
