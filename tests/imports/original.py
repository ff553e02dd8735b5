"""One of EnvFactory's files as it is: its class lives in this process for the whole run.

Reads a line of JSON each: first ``{"file", "instance", "document"}``, then calls ``{"function",
"arguments", "seed", "clock_ms"}``; answers each with ``{"result" | "error", "document"}``.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import sys
import tempfile
import uuid
from pathlib import Path
from types import ModuleType
from typing import Any

import pydantic
from pydantic_core import to_jsonable_python

from environments.runtimes import fastmcp
from environments.sandbox.clock import StandingClock
from environments.sandbox.stage import seeded_uuid4


def main() -> None:
    opening = json.loads(sys.stdin.readline())
    clock = StandingClock(opening["clock_ms"])
    uuid.uuid4 = seeded_uuid4
    fastmcp.install()
    tempfile.tempdir = "/tmp"
    module = ModuleType("tools")
    sys.modules["tools"] = module
    random.seed(0)
    exec(compile(Path(opening["file"]).read_bytes(), "tools.py", "exec"), module.__dict__)
    instance = module.__dict__[opening["instance"]]
    before = random.getstate()
    instance.load_scenario(opening["document"])
    seeds_itself = random.getstate() != before
    tell({"document": saved(instance)})
    for line in sys.stdin:
        call = json.loads(line)
        clock.set(call["clock_ms"])
        if not seeds_itself:
            random.seed(call["seed"])
        function = module.__dict__[call["function"]]
        tell({**outcome(function, call["arguments"]), "document": saved(instance)})


def outcome(function: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """As FastMCP calls it: arguments validated, those it does not know passed over."""
    known = function.__code__.co_varnames[: function.__code__.co_argcount]
    try:
        checked = pydantic.validate_call(function)
        with contextlib.redirect_stdout(io.StringIO()):
            result = checked(**{k: v for k, v in arguments.items() if k in known})
        return {"result": to_jsonable_python(result, inf_nan_mode="constants")}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def saved(instance: Any) -> Any:
    return to_jsonable_python(instance.save_scenario(), inf_nan_mode="constants")


def tell(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
