"""The judge: a language model decides whether a task was done.

It sees what the agent saw, the changes that were measured, and, if given, the signals of the code
verifier as evidence that may be wrong. A verdict is kept by the content it was reached on, so the
same run is judged once; a judge that cannot answer raises an infrastructure fault.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from string import Template
from typing import Annotated, Any, Final, Generic, Literal, TypeVar

import msgspec

from environments.llm import ChatMessage, Llm, Usage
from environments.trajectory import Component, Outcome, Record, Step
from environments.whole import write_whole

T = TypeVar("T", bound=msgspec.Struct)
VerdictWord = Literal["complete", "partial", "none", "environment_fault"]

_PROMPTS: Final = Path(__file__).parent / "prompts"
_RESULT_CHARACTERS: Final = 2_000
_CALLS_CHARACTERS: Final = 60_000
_CHANGES_CHARACTERS: Final = 30_000
_NOTHING_SPECIAL: Final = "Nothing beyond the instruction and the rules."


class Opinion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the model must answer; the reason first, so that the verdict follows from it."""

    reason: Annotated[str, msgspec.Meta(min_length=1)]
    verdict: VerdictWord
    confidence: Annotated[float, msgspec.Meta(ge=0, le=1)]


class Verdict(Record, frozen=True, kw_only=True):
    """A judge's opinion on one run, and where it came from."""

    verdict: VerdictWord
    confidence: float
    reason: str
    model: str
    key: str
    """sha256 of the model and every message it was asked with."""
    usage: Usage
    """What it cost when it was reached."""
    cached: bool = False
    """Whether it was reached before, so that it cost nothing now."""

    @property
    def outcome(self) -> Outcome:
        """``unset`` where the judge found the environment broken: that is no zero."""
        return "unset" if self.verdict == "environment_fault" else self.verdict

    def component(self, weight: float = 1.0) -> Component:
        """The verdict as a part of a reward; it passes if all that was asked for is done."""
        return Component(
            name="judge",
            passed=self.verdict == "complete",
            weight=weight,
            reason=f"{self.verdict} ({self.confidence:.2f}, {self.model}): {self.reason}",
        )


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What is put before the judge."""

    instruction: str
    policy: str = ""
    rubric: str = ""
    steps: tuple[Step, ...] = ()
    changes: Mapping[str, Any] = {}
    """Net changes of the agent, as ``Changeset.to_json`` has them."""
    others: Mapping[str, Any] = {}
    answer: str | None = None
    signals: tuple[Component, ...] | None = None
    """The code verifier's components; ``None`` to judge without them."""


class Given(msgspec.Struct, Generic[T], frozen=True):
    """An opinion of any kind, where it is kept, and what it cost when it was reached."""

    opinion: T
    key: str
    usage: Usage
    cached: bool = False


class Judge:
    """Asks ``llm`` for opinions; keeps them in ``folder``, if one is given, by the content they
    were reached on."""

    def __init__(self, llm: Llm, folder: Path | None = None) -> None:
        self.llm = llm
        self._folder = folder

    async def verdict(self, case: Case) -> Verdict:
        """What became of the task. Raises ``LlmUnavailable`` and ``LlmUnreadable``."""
        given = await self.opinion(prompt(case), Opinion)
        return Verdict(
            verdict=given.opinion.verdict,
            confidence=given.opinion.confidence,
            reason=given.opinion.reason,
            model=self.llm.endpoint.model,
            key=given.key,
            usage=given.usage,
            cached=given.cached,
        )

    async def opinion(self, messages: Sequence[ChatMessage], kind: type[T]) -> Given[T]:
        """An opinion on anything else. Raises ``LlmUnavailable`` and ``LlmUnreadable``."""
        endpoint = self.llm.endpoint
        content = (endpoint.model, endpoint.temperature, messages)
        key = hashlib.sha256(msgspec.json.encode(content)).hexdigest()
        if (known := self._known(key, kind)) is not None:
            return known
        opinion, usage = await self.llm.ask(messages, kind)
        given = Given(opinion, key, usage)
        if self._folder is not None:
            write_whole(self._folder / f"{key}.json", msgspec.json.encode(given))
        return given

    def _known(self, key: str, kind: type[T]) -> Given[T] | None:
        """A file that cannot be read counts as none."""
        file = None if self._folder is None else self._folder / f"{key}.json"
        if file is None or not file.is_file():
            return None
        try:
            found: Given[T] = msgspec.json.decode(file.read_bytes(), type=Given[kind])  # type: ignore[valid-type]
        except msgspec.DecodeError:
            return None
        return msgspec.structs.replace(found, cached=True)


def prompt(case: Case) -> list[ChatMessage]:
    """The messages a case is judged by. All that agents and tools wrote is JSON in them, so that
    it cannot pass for a part of the prompt."""
    signals = ""
    if case.signals is not None:
        signals = _template("judge.signals").substitute(
            signals=_json([msgspec.to_builtins(component) for component in case.signals])
        )
    text = _template("judge.case").substitute(
        instruction=case.instruction.strip(),
        policy=case.policy.strip() or "None.",
        rubric=case.rubric.strip() or _NOTHING_SPECIAL,
        calls=_calls(case.steps),
        changes=_cut(_json(case.changes), _CHANGES_CHARACTERS),
        others=_cut(_json(case.others), _CHANGES_CHARACTERS),
        answer=_json(case.answer),
        signals=signals,
    )
    return [ChatMessage("system", _read("judge.system")), ChatMessage("user", text)]


def _calls(steps: Sequence[Step]) -> str:
    """One line a call. Where all together are too long, the middle is left out and said so."""
    lines: list[str] = []
    for step in steps:
        came = {"error": step.error.code, "message": step.error.message} if step.error else {}
        line = {"call": step.index, "tool": step.tool, "arguments": step.arguments, **came}
        if step.error is None:
            line["result"] = _cut(_json(step.result), _RESULT_CHARACTERS)
        lines.append(_json(line))
    head, tail = _fitting(lines), _fitting(lines[::-1])
    if (left_out := len(lines) - head - tail) > 0:
        lines[head : len(lines) - tail] = [f"... {left_out} calls are left out ..."]
    return "\n".join(lines) or "None."


def _fitting(lines: Sequence[str]) -> int:
    """How many of the first lines fit in half the room there is."""
    return sum(total <= _CALLS_CHARACTERS // 2 for total in accumulate(map(len, lines)))


def _cut(text: str, characters: int) -> str:
    if len(text) <= characters:
        return text
    return f"{text[:characters]} ...[{len(text) - characters} more characters]"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _template(name: str) -> Template:
    return Template(_read(name))


def _read(name: str) -> str:
    return (_PROMPTS / f"{name}.txt").read_text(encoding="utf-8")
