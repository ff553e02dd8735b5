"""What a verifier declares beside its assertions: code, a judge, and what reward they make."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, Literal

import msgspec

from environments.catalogue import Pack
from environments.errors import PackInvalid
from environments.spec import CodeVerifier, Spec, Task

Part = Literal[
    "outcome", "complete", "changes", "state", "probe", "trace", "answer", "code", "judge", "oracle"
]
Penalty = Literal["malformed", "failed_call", "extra_call"]
_FILE: Final = re.compile(r"[A-Za-z0-9_]+\.py")


class Mixture(Spec, frozen=True, kw_only=True):
    """A reward declared as a sum.

    ``parts`` are weights of values from 0 to 1; a part that the task says nothing of gives its
    weight to the others. ``penalties`` are taken off for every occurrence. The sum is held between
    ``least`` and ``most``. Where a gate is broken (collateral damage, say), parts earn nothing.
    """

    parts: dict[Part, float]
    penalties: dict[Penalty, float] = msgspec.field(default_factory=dict)
    least: float = -1.0
    most: float = 1.0


PRESETS: Final[Mapping[str, Mixture | None]] = {
    "binary": None,
    "fraction": None,
    "awm": None,
    "envfactory": Mixture(
        parts={"oracle": 0.5, "outcome": 0.5},
        penalties={"malformed": 0.1, "failed_call": 0.05, "extra_call": 0.02},
    ),
}
RewardMode = Literal["binary", "fraction", "awm", "envfactory"]


class JudgeSpec(Spec, frozen=True, kw_only=True):
    """``judge`` of a verifier: what a language model is told to look at."""

    rubric: str = ""
    weight: float = 1.0
    signals: bool = True
    """Whether it is shown what assertions and code found, as evidence that may be wrong."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The declarations of one task. ``reward`` is the name of a preset or a mixture."""

    code: CodeVerifier | None
    judge: JudgeSpec | None
    reward: RewardMode | Mixture


def read_plan(task: Task, pack: Pack | None = None) -> Plan:
    """The declarations of ``task``; with its ``pack`` the functions are looked for too.

    Raises ``PackInvalid`` naming the word at fault, with close matches.
    """
    verifier = task.verifier
    code = _read(verifier, "code", CodeVerifier)
    judge = _read(verifier, "judge", JudgeSpec)
    if code is not None:
        _check_code(code, pack)
        if code.kind == "awm_sql" and judge is None:
            raise PackInvalid(
                "code.kind: awm_sql is evidence for a judge and decides nothing",
                hint='add "judge": {}',
            )
    return Plan(code, judge, _read_reward(verifier))


def _read(verifier: Mapping[str, Any], word: str, kind: Any) -> Any:
    if word not in verifier:
        return None
    try:
        return msgspec.convert(verifier[word], kind)
    except msgspec.ValidationError as error:
        raise PackInvalid(f"{word}: {error}", hint=_near(str(error), kind)) from None


def _near(message: str, kind: Any) -> str:
    unknown = re.search(r"unknown field `([^`]*)`", message)
    fields = [field.encode_name for field in msgspec.structs.fields(kind)]
    near = get_close_matches(unknown[1], fields) if unknown else []
    return f"did you mean {' or '.join(near)}?" if near else f"fields: {', '.join(fields)}"


def _read_reward(verifier: Mapping[str, Any]) -> RewardMode | Mixture:
    declared = verifier.get("reward", "binary")
    if isinstance(declared, str):
        if declared not in PRESETS:
            near = get_close_matches(declared, PRESETS) or list(PRESETS)
            raise PackInvalid(
                f"reward: there is no preset {declared!r}", hint=f"presets: {', '.join(near)}"
            )
        return declared  # type: ignore[return-value]
    mixture: Mixture = _read(verifier, "reward", Mixture)
    if not mixture.parts or any(weight <= 0 for weight in mixture.parts.values()):
        raise PackInvalid("reward.parts: must have weights above 0", hint='e.g. {"outcome": 1}')
    if any(taken < 0 for taken in mixture.penalties.values()):
        raise PackInvalid("reward.penalties: are what is taken off, so not below 0")
    if not mixture.least <= 0 <= mixture.most:
        raise PackInvalid("reward: doing nothing earns 0, so least and most must hold it")
    return mixture


def _check_code(code: CodeVerifier, pack: Pack | None) -> None:
    if not _FILE.fullmatch(code.file) or code.file == "tools.py":
        raise PackInvalid(f"code.file: {code.file!r} is no verifier file beside tools.py")
    if code.weight <= 0 or any(check.weight < 0 for check in code.checks):
        raise PackInvalid("code.weight: must be a number above 0")
    if (code.kind == "envscaler") is not bool(code.checks):
        raise PackInvalid("code.checks: go with kind envscaler, which needs some")
    if pack is None:
        return
    wanted = [check.function for check in code.checks if not check.code]
    if code.kind != "envscaler":
        wanted = [code.function or r"verify\w*"]
    path = pack.path / code.file
    if wanted and not path.is_file():
        raise PackInvalid(f"code.file: the pack has no {code.file}")
    source = path.read_text(encoding="utf-8", errors="replace") if wanted else ""
    for name in wanted:
        if not re.search(rf"^(async )?def {name}\s*\(", source, re.MULTILINE):
            raise PackInvalid(f"code.function: {code.file} has no function {name}")
