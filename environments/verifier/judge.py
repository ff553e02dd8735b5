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
from typing import Annotated, Any, Final, Literal

import msgspec

from environments.llm import ChatMessage, Llm, Usage
from environments.trajectory import Component, Outcome, Record, Step

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


class Judge:
    """Asks ``llm`` for verdicts; keeps them in ``folder`` if one is given."""

    def __init__(self, llm: Llm, folder: Path | None = None) -> None:
        self.llm = llm
        self._kept = _Kept(folder)

    async def verdict(self, case: Case) -> Verdict:
        """What became of the task. Raises ``LlmUnavailable`` and ``LlmUnreadable``."""
        messages = prompt(case)
        endpoint = self.llm.endpoint
        content = (endpoint.model, endpoint.temperature, messages)
        key = hashlib.sha256(msgspec.json.encode(content)).hexdigest()
        if (known := self._kept.get(key)) is not None:
            return msgspec.structs.replace(known, cached=True)
        opinion, usage = await self.llm.ask(messages, Opinion)
        verdict = Verdict(
            verdict=opinion.verdict,
            confidence=opinion.confidence,
            reason=opinion.reason,
            model=endpoint.model,
            key=key,
            usage=usage,
        )
        self._kept.put(verdict)
        return verdict


class _Kept:
    """Verdicts by key, one small file each; a file that cannot be read counts as none."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def get(self, key: str) -> Verdict | None:
        if self.folder is None or not (self.folder / f"{key}.json").is_file():
            return None
        try:
            return msgspec.json.decode((self.folder / f"{key}.json").read_bytes(), type=Verdict)
        except msgspec.DecodeError:
            return None

    def put(self, verdict: Verdict) -> None:
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.folder / f"{verdict.key}.part"
        part.write_bytes(msgspec.json.encode(verdict))
        part.replace(self.folder / f"{verdict.key}.json")


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
    system = (_PROMPTS / "judge.system.txt").read_text(encoding="utf-8")
    return [ChatMessage("system", system), ChatMessage("user", text)]


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
    return Template((_PROMPTS / f"{name}.txt").read_text(encoding="utf-8"))
