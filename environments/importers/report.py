"""What became of an import, for people: a page of Markdown, and the figures of its summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from environments.importers.importing import Imported


class Summary(msgspec.Struct, frozen=True):
    """The figures, each with what it counts."""

    outcomes: tuple[tuple[str, int], ...]
    gates: tuple[tuple[str, int], ...]
    """The gates that packs fail, by how many fail each."""


def summary_of(found: Sequence[Imported]) -> Summary:
    """How many environments were imported, passed their check, or failed which gate."""
    outcomes = Counter(each.outcome for each in found)
    checks = Counter(each.check for each in found)
    told = [
        ("environments", len(found)),
        ("imported", outcomes["imported"]),
        ("imported with repairs", outcomes["imported with repairs"]),
        ("refused", outcomes["refused"]),
        ("lost", outcomes["lost"]),
        ("unchanged since before", sum(each.unchanged for each in found)),
        ("with weaknesses", sum(bool(each.weaknesses) for each in found)),
    ]
    if checks["passes"] or checks["fails"]:
        told += [("pass the check", checks["passes"]), ("do not pass", checks["fails"])]
    gates = Counter(finding.name for each in found for finding in each.problems if finding.hard)
    return Summary(tuple(told), tuple(gates.most_common()))


def markdown(found: Sequence[Imported], kind: str, path: str) -> str:
    """The whole report: figures, then a line for each environment, then its particulars."""
    summary = summary_of(found)
    parts = [f"# Import of {kind}", f"From `{path}`.", _table(("", "count"), summary.outcomes)]
    if summary.gates:
        parts += ["## Gates of the check that fail", _table(("gate", "packs"), summary.gates)]
    parts += [
        "## Environments",
        _table(
            ("name", "outcome", "check", "repairs", "weaknesses", "licence", "provenance"),
            (
                (
                    each.name, each.outcome, each.check or "-", len(each.repairs),
                    len(each.weaknesses), each.licence or "-", each.provenance or "-",
                )
                for each in found
            ),
        ),
        "## Particulars",
        *(part for each in found for part in _particulars(each)),
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _particulars(each: Imported) -> Iterator[str]:
    lines = [f"- refused: {each.reason}{f' ({each.hint})' if each.hint else ''}"] * bool(
        each.reason
    )
    lines += [f"- repaired: {repair}" for repair in each.repairs]
    lines += [f"- weakness: {weakness}" for weakness in each.weaknesses]
    lines += [
        f"- check, {finding.name}{'' if finding.hard else ' (a note)'}: {finding.detail}"
        for finding in each.problems
    ]
    if lines:
        yield f"### {each.name}"
        yield "\n".join(line.replace("\n", "\n  ") for line in lines)


def _table(
    head: Sequence[str], rows: Iterator[Sequence[object]] | Sequence[Sequence[object]]
) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    return "\n".join(lines)


def _cell(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")
