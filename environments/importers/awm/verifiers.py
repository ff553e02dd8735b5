"""AWM's verifiers of one environment, each as a file of its pack."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

_FIRST: Final = re.compile(r"^(?:async )?def (verify\w*)\s*\(", re.MULTILINE)

Kind = Literal["awm_code", "awm_sql"]


class Verifier(NamedTuple):
    """A function that judges, or that finds evidence for a judge."""

    kind: Kind
    source: str

    def file(self, index: int) -> str:
        """What its file is called beside ``tools.py``."""
        return f"verify_{index:02d}_{self.kind.removeprefix('awm_')}.py"


def choose(
    tasks: Mapping[str, int], rows: Iterable[tuple[str, Mapping[str, Any]]]
) -> tuple[dict[int, Verifier], list[str]]:
    """The verifier of each task by its number, and what is wrong with others.

    ``rows`` are lines of the two verifier files, each with its file's kind. A row belongs to the
    task whose text it repeats, else to the one it numbers; the first of several counts; code that
    decides is preferred to evidence.
    """
    found: dict[tuple[int, Kind], Verifier] = {}
    problems: list[str] = []
    for file, row in rows:
        index = tasks.get(str(row.get("task", "")), row.get("task_idx"))
        verification = row.get("verification")
        code = verification.get("code") if isinstance(verification, Mapping) else None
        if not isinstance(index, int) or not isinstance(code, str):
            problems.append("a verifier belongs to no task, or has no code")
            continue
        source = textwrap.dedent(code).strip() + "\n"
        named = _FIRST.search(source)
        name = named[1] if named else ""
        decides = file == "pure_code" or name == "verify_task_completion"
        kind: Kind = "awm_code" if decides else "awm_sql"
        if (index, kind) in found:
            continue
        problem = _problem(source) if name else "has no function verify..."
        if problem:
            problems.append(f"task {index}: a verifier {problem}")
        else:
            found[index, kind] = Verifier(kind, source)
    chosen: dict[int, Verifier] = {}
    for (index, _), verifier in sorted(found.items()):  # awm_code before awm_sql
        chosen.setdefault(index, verifier)
    return chosen, problems


def _problem(source: str) -> str:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError) as error:
        return f"is no Python: {error}"
    return ""
