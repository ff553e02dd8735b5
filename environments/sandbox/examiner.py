"""Running the verifiers that a pack wrote itself, in a worker that does nothing else.

It has the pack's verifier files and never its tools. Both states are read-only; they are rebuilt
from their rows beforehand. Whatever goes wrong in here is the pack's fault and no verdict.
"""

from __future__ import annotations

import inspect
import json
import os
import random
import re
import sqlite3
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import apsw
import msgspec
from pydantic_core import PydanticSerializationError, to_jsonable_python

from environments.authoring import Database
from environments.documents import read_binding
from environments.errors import EnvironmentFault, PackInvalid, VerifierFailed
from environments.sandbox import wire
from environments.sandbox.documents import state_document
from environments.sandbox.output import Output
from environments.sandbox.stage import Views, seeded_uuid4
from environments.spec import Check, CodeVerifier
from environments.trajectory import Component
from snapshots.errors import ReadOnlyViolated
from snapshots.pages import Snapshot
from snapshots.workspace import Workspace

_FIRST: Final = re.compile(r"^(?:async )?def (verify\w*)\s*\(", re.MULTILINE)
_EVIDENCE_CHARACTERS: Final = 20_000
_PATHS: Final = ("initial_db_path", "final_db_path", "final_answer")
_AWM_WORDS: Final = {"complete": True, "others": False}


class Examiner:
    """The job of a worker that runs a pack's verifiers."""

    def __init__(self, request: wire.LoadExaminer, output: Output) -> None:
        snapshot = Snapshot.open(Path(request.snapshot_path), request.snapshot_digest)
        self._initial, self._final = Workspace(snapshot), Workspace(snapshot)
        self._views = Views(snapshot)
        self._output = output
        output.limit_bytes = request.output_bytes
        uuid.uuid4 = seeded_uuid4
        folder = Path(request.pack_path)
        self._layout = read_binding(folder).layout if request.documented else None
        self._load = cache(lambda file: _load(folder / file))

    def answer(self, request: wire.AnyRequest) -> bytearray:
        if not isinstance(request, wire.Examine):
            raise PackInvalid("a worker that examines was asked for something else")
        code = request.code
        random.seed(0)
        try:
            components = tuple(self._examine(request))
        except (EnvironmentFault, SystemExit):
            raise
        except ReadOnlyViolated as error:
            raise VerifierFailed(
                f"{code.file}: the verifier wrote to a state", hint="a verifier only reads"
            ) from error
        except BaseException as error:
            place = _place(error, code.file)
            raise VerifierFailed(f"{place}: {type(error).__name__}: {_text(error)}") from error
        return wire.accepted(request.id, wire.Findings(components, self._output.take()))

    def _examine(self, request: wire.Examine) -> Sequence[Component]:
        code = request.code
        if code.kind in ("awm_sql", "awm_code"):
            assert request.paths is not None
            return [_awm(self._function(code), code, (*request.paths, request.answer))]
        with ExitStack() as stack:
            states = []
            for workspace, view in (
                (self._initial, request.initial),
                (self._final, request.final),
            ):
                mount = workspace.mount(
                    self._views.show(view), clock_ms=request.clock_ms, read_only=True
                )
                states.append(stack.enter_context(mount).connection)
            if code.kind == "envscaler":
                return self._checklist(code, *states)
            function = self._function(code)
            offered = {
                "initial": Database(states[0]),
                "final": Database(states[1]),
                "answer": request.answer,
                "trajectory": msgspec.json.decode(request.trajectory),
            }
            return _verdict(_call(function, offered), code, function.__name__)

    def _function(self, code: CodeVerifier) -> Callable[..., Any]:
        source, names = self._load(code.file)
        first = _FIRST.search(source)
        name = code.function or (first[1] if first else "")
        function = names.get(name)
        if not callable(function):
            raise VerifierFailed(
                f"{code.file}: there is no function {name or 'verify'}",
                hint='name it in "function", or begin its name with verify',
            )
        return function  # type: ignore[no-any-return]

    def _checklist(
        self, code: CodeVerifier, initial: apsw.Connection, final: apsw.Connection
    ) -> Sequence[Component]:
        """EnvScaler: each function is given the final document, and finds the initial one in a
        global of its own."""
        components = []
        for number, check in enumerate(code.checks):
            before = state_document(initial, code.document, self._layout)
            after = state_document(final, code.document, self._layout)
            name = f"code[{number}] {check.item or check.function}"
            reason = ""
            try:
                passed = self._check(check, code, before)(after)
            except Exception as error:
                if code.raising == "fault":
                    raise
                passed, reason = False, f"{type(error).__name__}: {_text(error)}"
            if not isinstance(passed, bool):
                raise VerifierFailed(f"{name}: answered {passed!r:.100}, not true or false")
            reason = reason or ("" if passed else "does not hold")
            components.append(
                Component(name=name, passed=passed, weight=check.weight, reason=reason)
            )
        return components

    def _check(
        self, check: Check, code: CodeVerifier, before: dict[str, Any]
    ) -> Callable[[Any], Any]:
        if check.code:
            names: dict[str, Any] = {"initial_state": before}
            exec(compile(check.code, check.item or "check", "exec"), names)
        else:
            names = self._load(code.file)[1]
            names["initial_state"] = before
        function = names.get(check.function)
        if not callable(function):
            raise VerifierFailed(f"there is no function {check.function}", check=check.item)
        return function  # type: ignore[no-any-return]


def _load(path: Path) -> tuple[str, dict[str, Any]]:
    """The source of a verifier file, and what it defines. Raises whatever it raises."""
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise VerifierFailed(f"{path.name} cannot be read: {error}") from error
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    module.__dict__.update(sqlite3=sqlite3, json=json, os=os, re=re)  # AWM's count on these
    sys.modules[path.stem] = module
    exec(compile(source, path.name, "exec"), module.__dict__)
    return source, module.__dict__


# --- calling, and what is made of the answer ------------------------------------------------------


def _call(function: Callable[..., Any], offered: Mapping[str, Any]) -> Any:
    """With those of the offered arguments that it takes by name."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return function(**offered)
    unknown = [
        parameter.name
        for parameter in parameters
        if parameter.name not in offered and parameter.default is parameter.empty
    ]
    if unknown:
        raise VerifierFailed(
            f"{function.__name__} takes {', '.join(unknown)}, which nobody gives it",
            hint=f"it may take {', '.join(offered)}",
        )
    return function(**{p.name: offered[p.name] for p in parameters if p.name in offered})


def _awm(
    function: Callable[..., Any], code: CodeVerifier, arguments: tuple[str, str, str | None]
) -> Component:
    """Two paths and, if it takes one, the final answer (empty where there is none); by name where
    it has AWM's own names."""
    arguments = (*arguments[:2], arguments[2] or "")
    parameters = inspect.signature(function).parameters
    if set(_PATHS[:2]) <= parameters.keys():
        named = dict(zip(_PATHS, arguments, strict=True))
        result = function(**{name: named[name] for name in parameters if name in named})
    else:
        result = function(*arguments[: len(parameters)])
    if not isinstance(result, dict):
        raise VerifierFailed(f"{function.__name__} answered {result!r:.100}, not a dictionary")
    if code.kind == "awm_sql":
        told = msgspec.json.encode(_plain(result)).decode()[:_EVIDENCE_CHARACTERS]
        return Component(name="code evidence", passed=True, weight=0.0, reason=told)
    word = result.get("result")
    passed = _AWM_WORDS.get(word.lower()) if isinstance(word, str) else None
    if passed is None:
        raise VerifierFailed(
            f"{function.__name__} answered result {word!r:.100}", hint="complete or others"
        )
    reason = "" if passed else f"answered {word}"
    return Component(
        name=f"code {function.__name__}", passed=passed, weight=code.weight, reason=reason
    )


def _verdict(result: Any, code: CodeVerifier, name: str) -> list[Component]:
    """The components of a native verifier's answer: true or false, a number from 0 to 1, or
    several of these by name."""
    if isinstance(result, Mapping):
        result = [{"name": name, "passed": value} for name, value in result.items()]
    if not isinstance(result, (list, tuple)):
        return [_component(f"code {name}", {"passed": result}, code.weight)]
    if not result:
        raise VerifierFailed(f"{name} answered no components")
    components = []
    for part in result:
        if not isinstance(part, Mapping) or not {"name", "passed"} <= part.keys():
            raise VerifierFailed(
                f"{name} answered a component {part!r:.100}",
                hint='a component has "name", "passed" and, if need be, "weight" and "reason"',
            )
        components.append(_component(f"code.{part['name']}", part, code.weight))
    return components


def _component(name: str, part: Mapping[str, Any], share: float) -> Component:
    value, weight = part["passed"], part.get("weight", 1.0)
    real = isinstance(value, (bool, int, float)) and 0 <= value <= 1
    if not real or isinstance(weight, bool) or not isinstance(weight, (int, float)) or weight < 0:
        raise VerifierFailed(
            f"{name}: answered {value!r:.100}, weight {weight!r:.100}",
            hint="true, false or a number from 0 to 1; weights are numbers not below 0",
        )
    reason = str(part.get("reason", ""))[:2000]
    return Component(
        name=name[:200],
        passed=value == 1,
        weight=float(weight) * share,
        reason=reason or ("" if value == 1 else "does not hold"),
        score=None if isinstance(value, bool) else float(value),
    )


def _plain(value: Any) -> Any:
    try:
        return to_jsonable_python(value, fallback=str, inf_nan_mode="strings")
    except (PydanticSerializationError, ValueError) as error:
        raise VerifierFailed(f"the evidence is no JSON: {error}") from error


def _place(error: BaseException, file: str) -> str:
    """The innermost line of the verifier's file that an exception passed through."""
    line, trace = 0, error.__traceback__
    if isinstance(error, SyntaxError):
        return f"{file}:{error.lineno}"
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"{file}:{line}" if line else file


def _text(error: BaseException) -> str:
    try:
        return str(error)[:2000]
    except Exception:  # noqa: BLE001 - its __str__ is the pack's
        return "(no text)"
