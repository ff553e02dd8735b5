"""Verifiers within verifiers: one object parsed, and the ways there are to fulfil it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, TypeVar

import environments.assertions.answers as answers
import environments.assertions.expectations as expectations
import environments.assertions.patterns as patterns
import environments.assertions.probes as probes
import environments.assertions.states as states
import environments.assertions.traces as traces
import environments.assertions.words as words
from environments.assertions.words import Kind, Scope, Word, unknown
from environments.errors import PackInvalid

MAX_PLANS: Final = 64
"""How many ways ``any_of`` may open: each is judged whenever no earlier one holds."""

T = TypeVar("T")


def _entries(name: str) -> Kind:
    return words.of_type(
        {"type": "array", "items": {"$ref": f"#/$defs/{name}"}},
        lambda value: isinstance(value, list),
        "must be a list of entries",
    )


WORDS: Final[Mapping[str, Word]] = {
    "expect": Word(_entries("expect"), "changes that must have been made"),
    "allow": Word(_entries("allow"), "changes that may have been made"),
    "forbid": Word(_entries("forbid"), "changes that must not have been made, even if allowed"),
    "answer": Word(Kind({"$ref": "#/$defs/answer"}), "what the final answer must be"),
    "state": Word(_entries("state"), "rows there must be"),
    "probe": Word(_entries("probe"), "what read-only tools must answer in the end"),
    "trace": Word(_entries("trace"), "calls that must, or must not, have been made"),
    "all_of": Word(_entries("group"), "further verifiers, all of which must hold"),
    "any_of": Word(_entries("group"), "verifiers of which one must hold"),
}
ELSEWHERE: Final[Mapping[str, Word]] = {
    "code": Word(words.OBJECT, "a function of the pack that judges as well"),
    "judge": Word(words.OBJECT, "a language model that judges as well"),
    "reward": Word(
        Kind({"type": ["string", "object"]}),
        "what reward the components make up: a preset or a mixture",
    ),
}
"""Words of a whole verifier that are judged outside the assertions."""

GROUP_WORDS: Final[Mapping[str, Word]] = {
    **WORDS,
    "weight": Word(
        words.WEIGHT, "what the group is worth in all, shared among its parts by their weights"
    ),
}
ENTRY_WORDS: Final[Mapping[str, Mapping[str, Word]]] = {
    "expect": expectations.WORDS,
    "allow": patterns.WORDS,
    "forbid": patterns.WORDS,
    "answer": answers.WORDS,
    "state": states.WORDS,
    "probe": probes.WORDS,
    "trace": traces.WORDS,
}


@dataclass(frozen=True, slots=True)
class Part:
    """One verifier object, without the groups in it. ``weight`` is a group's, if it has one."""

    prefix: str
    weight: float | None
    expect: tuple[expectations.Expectation, ...]
    allow: tuple[patterns.Pattern, ...]
    forbid: tuple[tuple[str, patterns.Pattern], ...]
    states: tuple[states.Predicate, ...]
    probes: tuple[probes.Probe, ...]
    traces: tuple[traces.Calls, ...]
    answer: answers.Answer | None
    speaks_of_changes: bool

    @property
    def demands(self) -> bool:
        """Whether it asks for something that a run which does nothing has not done for sure."""
        return (
            self.answer is not None
            or any(not expectation.holds(0) for expectation in self.expect)
            or any(state.at == "final" for state in self.states)
            or any(not calls.count.fits(0) for calls in self.traces)
            or bool(self.probes)
        )


Plan = tuple[Part, ...]
"""One way to fulfil a verifier: the parts that must hold together."""


def parse_plans(source: Any, place: str, scope: Scope) -> list[Plan]:
    """The ways to fulfil a verifier object. ``place`` is empty for the whole one.

    Raises ``PackInvalid`` for what it cannot read, and for more ways than ``MAX_PLANS``.
    """
    known = GROUP_WORDS if place else {**WORDS, **ELSEWHERE}
    if place and isinstance(source, Mapping) and (outside := ELSEWHERE.keys() & source.keys()):
        raise PackInvalid(f"{place}: {min(outside)} stands only in the whole verifier")
    read = words.read(source, place or "verifier", known, scope, "section")
    prefix = f"{place}." if place else ""
    groups = [
        parse_plans(group, f"{prefix}all_of[{index}]", scope)
        for index, group in enumerate(read.get("all_of", ()))
    ]
    alternatives = [
        plan
        for index, group in enumerate(read.get("any_of", ()))
        for plan in parse_plans(group, f"{prefix}any_of[{index}]", scope)
    ]
    if "any_of" in read:
        if not alternatives:
            raise PackInvalid(f"{prefix}any_of: has no verifier to choose from")
        groups.append(alternatives)
    ways = 1
    for group in groups:
        ways *= len(group)
    if ways > MAX_PLANS:
        raise PackInvalid(f"{place or 'verifier'}: {ways} ways to hold, at most {MAX_PLANS}")
    part = _parse_part(read, prefix, scope)
    return [(part, *(inner for plan in chosen for inner in plan)) for chosen in product(*groups)]


def _parse_part(read: Mapping[str, Any], prefix: str, scope: Scope) -> Part:
    def entries(section: str, parse: Callable[[Mapping[str, Any], str, Scope], T]) -> Iterator[T]:
        for index, entry in enumerate(read.get(section, ())):
            place = f"{prefix}{section}[{index}]"
            yield parse(words.read(entry, place, ENTRY_WORDS[section], scope), place, scope)

    def allow(entry: Mapping[str, Any], place: str, scope: Scope) -> patterns.Pattern:
        return patterns.parse_pattern(entry, place, scope, "allow")

    def forbid(entry: Mapping[str, Any], place: str, scope: Scope) -> tuple[str, patterns.Pattern]:
        return place, patterns.parse_pattern(entry, place, scope, "forbid")

    answer = read.get("answer")
    return Part(
        prefix=prefix,
        weight=read.get("weight"),
        expect=tuple(entries("expect", expectations.parse_expectation)),
        allow=tuple(entries("allow", allow)),
        forbid=tuple(entries("forbid", forbid)),
        states=tuple(entries("state", states.parse_state)),
        probes=tuple(entries("probe", probes.parse_probe)),
        traces=tuple(entries("trace", traces.parse_calls)),
        answer=None if answer is None else answers.parse_answer(answer, f"{prefix}answer", scope),
        speaks_of_changes=bool({"expect", "allow", "forbid"} & read.keys()),
    )


def check_variables(plan: Plan) -> None:
    """Refuse a variable nobody has bound by then, and binding where nothing is expected.

    Raises ``PackInvalid``.
    """
    bound: set[str] = set()
    for part in plan:
        for expectation in part.expect:
            bound |= set(_binds(expectation.pattern))
            _refuse_unbound(_variables(expectation.pattern), bound, expectation.name)
    for part in plan:
        gates = [(f"{part.prefix}allow[{i}]", pattern) for i, pattern in enumerate(part.allow)]
        for place, pattern in [*gates, *part.forbid]:
            if any(_binds(pattern)):
                raise PackInvalid(
                    f"{place}: bind stands only in expect entries",
                    hint='use {"var": ...} here for a value an expect entry binds',
                )
            _refuse_unbound(_variables(pattern), bound, place)
        for entry, matchers in (
            *((state.name, state.where) for state in part.states),
            *((probe.name, probe.result) for probe in part.probes),
            *((calls.name, calls.arguments) for calls in part.traces),
        ):
            names = (name for matcher in matchers.values() for name in matcher.variables)
            _refuse_unbound(names, bound, entry)


def _binds(pattern: patterns.Pattern) -> Iterator[str]:
    for matcher in (*pattern.where.values(), *pattern.set.values()):
        if matcher.bind is not None:
            yield matcher.bind


def _variables(pattern: patterns.Pattern) -> Iterator[str]:
    for matcher in (*pattern.where.values(), *pattern.set.values()):
        yield from matcher.variables


def _refuse_unbound(names: Iterator[str], bound: set[str], place: str) -> None:
    for name in names:
        if name not in bound:
            error = unknown(name, place, bound, "variable")
            error.hint = error.hint if bound else "bind it in an earlier expect entry"
            raise error
