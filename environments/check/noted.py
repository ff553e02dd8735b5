"""What is worth knowing of a pack's tasks and fails none: gaps of coverage, and near duplicates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final

from environments.assertions.values import norm
from environments.check.report import Finding, finding
from environments.check.runs import Run, tables_changed, tools_called
from environments.environment import WAIT, Environment
from environments.spec import Task

ALIKE: Final = 0.95
"""How similar two instructions may be (1 is equal) before they are reported."""
_LOOKED_BACK: Final = 200


def coverage(environment: Environment, runs: Sequence[Run]) -> Finding:
    """Which tools no oracle calls and which tables none of them changes."""
    called, changed = tools_called(runs), tables_changed(runs)
    tools = [name for name in environment.tools if name not in called and name != WAIT]
    tables = [name for name in environment.tables if name not in changed]
    problems = [f"tools no oracle calls: {', '.join(tools)}"] if tools else []
    note = f"all {len(called)} tools; {len(changed)} of {len(environment.tables)} tables change"
    if tools and tables:
        problems.append(f"tables no oracle changes: {', '.join(tables)}")
    return finding("oracles cover the tools", problems, note=note, hard=False)


def alike(tasks: Sequence[Task]) -> Finding:
    """Tasks that say nearly the same, or ask for the same in other words."""
    problems = ["there are no tasks"] if not tasks else [*_alike(tasks), *_same(tasks)]
    return finding("tasks differ", problems, note=f"{len(tasks)} tasks", hard=False)


def _alike(tasks: Sequence[Task]) -> Iterator[str]:
    texts = [norm(task.instruction) for task in tasks]
    for index, text in enumerate(texts):
        matcher = SequenceMatcher(b=text, autojunk=False)
        for earlier in range(max(0, index - _LOOKED_BACK), index):
            matcher.set_seq1(texts[earlier])
            if matcher.real_quick_ratio() < ALIKE or matcher.quick_ratio() < ALIKE:
                continue
            if matcher.ratio() >= ALIKE:
                yield f"tasks {tasks[earlier].id} and {tasks[index].id} read alike"


def _same(tasks: Sequence[Task]) -> Iterator[str]:
    """Same oracle, same verifier, same start: one task told twice."""
    first: dict[str, str] = {}
    for task in tasks:
        other = first.setdefault(repr((task.oracle, task.verifier, task.initial)), task.id)
        if other != task.id:
            yield f"tasks {other} and {task.id} ask for the same"
