"""``probe``: what a read-only tool of the pack answers on the state that the agent left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import environments.assertions.words as words
from environments.assertions.evidence import OK, ProbeCall, ProbeResult
from environments.assertions.matchers import Bindings
from environments.assertions.paths import Paths, misfits, parse_paths
from environments.assertions.traces import (
    ENDED,
    WEIGHT,
    check_arguments,
    ended_so,
    ending,
    known_tool,
)
from environments.assertions.values import show
from environments.assertions.verdicts import component
from environments.assertions.words import Scope, Word
from environments.errors import InfrastructureFault, PackInvalid
from environments.trajectory import Component

WORDS: Final[Mapping[str, Word]] = {
    "tool": Word(words.NAME, "the read-only tool to call", required=True),
    "arguments": Word(words.OBJECT, "what to call it with, as it stands"),
    "ended": ENDED,
    "result": Word(words.PATHS, "what the result must hold, by paths into it"),
    "weight": WEIGHT,
}


@dataclass(frozen=True, slots=True)
class Probe:
    """One entry of ``probe``."""

    name: str
    call: ProbeCall
    ended: str
    result: Paths
    weight: float

    def judge(
        self, calls: Sequence[ProbeCall], results: Sequence[ProbeResult], bindings: Bindings
    ) -> Component:
        """``results`` answer ``calls``. Raises ``InfrastructureFault`` if this one was not made."""
        position = calls.index(self.call)
        if position >= len(results):
            raise InfrastructureFault(f"{self.name} was not called on the final state")
        found = results[position]
        if not ended_so(found.ended, self.ended):
            reason = f"ended {ending(found.ended)}, expected {self.ended}"
        else:
            reason = "; ".join(misfits(self.result, found.result, bindings))
        return component(self.name, reason and f"{self._shown}: {reason}", self.weight)

    @property
    def _shown(self) -> str:
        arguments = ", ".join(f"{name}={show(v)}" for name, v in self.call.arguments.items())
        return f"{self.call.tool}({arguments})"


def parse_probe(entry: Mapping[str, Any], place: str, scope: Scope) -> Probe:
    """Compile one entry that ``words.read`` has read. Raises ``PackInvalid``."""
    tool, arguments = entry["tool"], dict(entry.get("arguments", {}))
    spec = known_tool(tool, f"{place}.tool", scope)
    check_arguments(set(arguments), spec, f"{place}.arguments")
    if spec is not None:
        if not spec.read_only:
            raise PackInvalid(
                f"{place}.tool: {tool} writes", hint="a probe looks; choose a read-only tool"
            )
        missing = [name for name in spec.input_schema.get("required", ()) if name not in arguments]
        if missing:
            raise PackInvalid(f"{place}.arguments: {tool} needs {', '.join(missing)}")
    result = parse_paths(entry.get("result", {}), f"{place}.result", scope)
    ended = entry.get("ended", OK)
    if not result and ended == OK:
        raise PackInvalid(f"{place}: asks for nothing", hint='add "result" or "ended"')
    call = ProbeCall(tool, arguments)
    return Probe(f"{place} {tool}", call, ended, result, float(entry.get("weight", 1.0)))
