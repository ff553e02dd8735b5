"""``trace``: which calls the agent made, in what order, and what each did on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import environments.assertions.words as words
from environments.assertions.evidence import OK, TraceStep
from environments.assertions.matchers import Bindings, Matcher, parse_count
from environments.assertions.paths import WHOLE, Paths, describe, misfits, parse_paths
from environments.assertions.verdicts import GATE_WEIGHT, component, listed
from environments.assertions.words import Scope, Word, unknown
from environments.errors import PackInvalid
from environments.spec import ToolSpec
from environments.trajectory import Component

ERROR: Final = "error"
_CALLED = words.Kind({"anyOf": [{"type": "boolean"}, {"$ref": "#/$defs/matcher"}]})
_WROTE = words.of_type(
    {"type": ["boolean", "string"]},
    lambda value: isinstance(value, bool) or words.is_text(value),
    "must be true, false or a table",
)
ENDED: Final = Word(words.NAME, "how the call ended: ok, error (any), or the code of an error")
WEIGHT: Final = Word(
    words.NUMBER_NOT_NEGATIVE, "its share in a fractional reward; 1 if left out, 0 makes it a gate"
)
WORDS: Final[Mapping[str, Word]] = {
    "tool": Word(words.NAME, "calls of this tool; of any if left out"),
    "arguments": Word(words.PATHS, "calls with such arguments, by paths into them"),
    "ended": ENDED,
    "wrote": Word(
        _WROTE,
        "calls that changed rows (true), none (false) or those of a table, put back later or not",
    ),
    "called": Word(
        _CALLED, "how often: true (the default) at least once, false never, or a matcher"
    ),
    "before": Word(words.NAME, "the first such call comes before any call of this tool"),
    "weight": WEIGHT,
}


@dataclass(frozen=True, slots=True)
class Calls:
    """One entry of ``trace``: calls of a kind, and how many there must be."""

    name: str
    tool: str | None
    arguments: Paths
    ended: str | None
    wrote: bool | str | None
    count: Matcher
    before: str | None
    weight: float

    def judge(self, trace: Sequence[TraceStep], bindings: Bindings) -> Component:
        """What holds for no calls at all is a gate: not calling earns nothing."""
        weight = GATE_WEIGHT if self.count.fits(0) else self.weight
        fitting = [step for step in trace if not any(self._misfits(step, bindings))]
        if not self.count.fits(len(fitting)):
            return component(self.name, self._why_not(fitting, trace, bindings), weight)
        return component(self.name, self._out_of_order(fitting, trace, bindings), weight)

    def describe(self, bindings: Bindings) -> str:
        """``cancel_order with order_id 'o_17' that ended ok``."""
        text = self.tool or "a call"
        text += f" with {describe(self.arguments, bindings)}" if self.arguments else ""
        conditions = [f"ended {ending(self.ended)}"] if self.ended else []
        if self.wrote is not None:
            conditions.append(f"wrote {_WHAT.get(self.wrote, self.wrote)}")
        return text + (f" that {' and '.join(conditions)}" if conditions else "")

    def _misfits(self, step: TraceStep, bindings: Bindings) -> Iterator[str]:
        if self.tool is not None and step.tool != self.tool:
            yield f"was {step.tool}"
        for misfit in misfits(self.arguments, step.arguments, bindings):
            yield f"had {misfit}"
        if self.ended is not None and not ended_so(step.ended, self.ended):
            yield f"ended {ending(step.ended)}"
        if isinstance(self.wrote, str) and self.wrote not in step.wrote:
            yield f"did not write {self.wrote}"
        if isinstance(self.wrote, bool) and self.wrote != bool(step.wrote):
            yield f"wrote {', '.join(step.wrote) or 'nothing'}"

    def _why_not(
        self, fitting: Sequence[TraceStep], trace: Sequence[TraceStep], bindings: Bindings
    ) -> str:
        what = self.describe(bindings)
        if fitting:
            times = "once" if len(fitting) == 1 else f"{len(fitting)} times"
            wanted = "never" if self.count.literal == 0 else self.count.describe(bindings)
            return f"{what}: {times} ({_places(fitting)}), expected {wanted}"
        alike = [step for step in trace if step.tool == self.tool]
        if not alike:
            return f"{what}: never called"
        nearest = min(
            (list(self._misfits(step, bindings)), step.index, step.tool) for step in alike
        )
        return f"{what}: never; {nearest[2]} (step {nearest[1]}) {' and '.join(nearest[0])}"

    def _out_of_order(
        self, fitting: Sequence[TraceStep], trace: Sequence[TraceStep], bindings: Bindings
    ) -> str:
        if self.before is None:
            return ""
        later = [step for step in trace if step.tool == self.before]
        if not later or (fitting and fitting[0].index < later[0].index):
            return ""
        came = f"came at step {fitting[0].index}" if fitting else "never came"
        return f"{self.describe(bindings)}: {came}, {self.before} at step {later[0].index}"


_WHAT: Final[Mapping[bool | str, str]] = {True: "something", False: "nothing"}


def ended_so(ended: str, expected: str) -> bool:
    """Whether a call that ended thus ended as expected."""
    return ended != OK if expected == ERROR else ended == expected


def ending(ended: str) -> str:
    """How a call ended, to follow that word."""
    return {OK: "ok", ERROR: "with an error"}.get(ended, f"with {ended}")


def _places(steps: Sequence[TraceStep]) -> str:
    return f"step{'s' if len(steps) > 1 else ''} {listed([str(s.index) for s in steps], ', ')}"


def parse_calls(entry: Mapping[str, Any], place: str, scope: Scope) -> Calls:
    """Compile one entry that ``words.read`` has read. Raises ``PackInvalid``."""
    tool, before, wrote = entry.get("tool"), entry.get("before"), entry.get("wrote")
    arguments = entry.get("arguments", {})
    if tool is None and wrote is None and "ended" not in entry:
        raise PackInvalid(f"{place}: names no calls", hint='add "tool", "wrote" or "ended"')
    if tool is not None:
        spec = known_tool(tool, f"{place}.tool", scope)
        first = {path.partition(".")[0] for path in arguments} - {WHOLE, "*"}
        check_arguments(first, spec, f"{place}.arguments")
    if before is not None:
        known_tool(before, f"{place}.before", scope)
    if isinstance(wrote, str) and wrote not in scope.tables:
        raise unknown(wrote, f"{place}.wrote", scope.tables, "table")
    called = entry.get("called", True)
    if isinstance(called, bool):
        called = {"ge": 1} if called else 0
    return Calls(
        f"{place} {tool or 'any tool'}",
        tool,
        parse_paths(arguments, f"{place}.arguments", scope),
        entry.get("ended"),
        wrote,
        parse_count(called, f"{place}.called", scope),
        before,
        float(entry.get("weight", 1.0)),
    )


def known_tool(tool: str, place: str, scope: Scope) -> ToolSpec | None:
    """The tool of that name; ``None`` where the tools are not known. Raises ``PackInvalid``."""
    if scope.tools is None:
        return None
    if tool not in scope.tools:
        raise unknown(tool, place, list(scope.tools), "tool")
    return scope.tools[tool]


def check_arguments(names: set[str], spec: ToolSpec | None, place: str) -> None:
    """Refuse an argument the tool does not take. Raises ``PackInvalid``."""
    if spec is None or spec.input_schema.get("additionalProperties"):
        return
    properties = spec.input_schema.get("properties", {})
    for name in sorted(names):
        if name not in properties:
            raise unknown(name, place, list(properties), f"argument of {spec.name}:")
