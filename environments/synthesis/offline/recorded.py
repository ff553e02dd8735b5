"""What a run from blueprints made, as the record and the diversity that reports are made of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from environments.synthesis.journal import (
    DIVERSITY,
    Alike,
    Diversity,
    EnvironmentRecord,
    Rejection,
    StageOutcome,
    write_record,
)
from environments.synthesis.offline.diversity import ALIKE, fingerprint, similarity
from environments.synthesis.offline.making import Made


def write_made(folder: Path, made: Sequence[Made]) -> None:
    """Write the record of a run and its diversity into ``folder``."""
    write_record(folder, map(record_of, made))
    passed = [each for each in made if each.passed]
    content = msgspec.json.format(msgspec.json.encode(diversity_of(passed)))
    part = folder / f".{DIVERSITY}.part"
    part.write_bytes(content + b"\n")
    part.replace(folder / DIVERSITY)


def record_of(made: Made) -> EnvironmentRecord:
    """What became of one environment."""
    tasks = len(made.shapes)
    lost = tuple(Rejection(what=made.name, reason=problem) for problem in made.problems)
    check = StageOutcome(
        stage="check",
        passed=made.passed,
        into=tasks + made.dropped,
        out_of=tasks if made.passed else 0,
        seconds=made.seconds,
        rejected=lost,
    )
    return EnvironmentRecord(
        name=made.name,
        domain=made.domain,
        outcome="passed" if made.passed else "rejected",
        reason="; ".join(made.problems),
        digest=made.digest,
        stages=(StageOutcome(stage="compose", into=1, out_of=1), check),
        tables=made.tables,
        tools=made.tools,
        rows=made.rows,
        tasks=tasks if made.passed else 0,
        difficulties=made.difficulties,
    )


def diversity_of(made: Sequence[Made]) -> Diversity:
    """How different environments are: their schemas and tools with all names erased."""
    parts = [frozenset((*each.schema, *each.signatures)) for each in made]
    nearest = [0.0] * len(parts)
    alike = []
    for late, one in enumerate(parts):
        closest = 0.0
        first = -1
        for early in range(late):
            close = similarity(one, parts[early])
            nearest[early] = max(nearest[early], close)
            if close > closest:
                closest, first = close, early
        nearest[late] = closest
        if closest >= ALIKE:
            alike.append(Alike(one=made[first].name, other=made[late].name, similarity=closest))
    tasks = sum(len(each.shapes) for each in made)
    same = sum(len(each.shapes) - len({*each.shapes}) for each in made)
    return Diversity(
        schemas=len({fingerprint(each.schema) for each in made}),
        nearest=tuple(round(one, 4) for one in nearest) if len(parts) > 1 else (),
        duplicates=tuple(alike),
        same_tasks=round(same / tasks, 4) if tasks else 0.0,
    )
