"""The report of a run, as Markdown and as one HTML file without any other resource.

It is made of the run's record and of what its answers cost.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from environments.llm import Usage
from environments.synthesis.diversity import Diversity, diversity
from environments.synthesis.journal import (
    ON_TASKS,
    EnvironmentRecord,
    Funnel,
    Repair,
    funnel,
    read_record,
)
from environments.synthesis.spending import SPENDING, Spent
from environments.whole import write_whole

MARKDOWN: Final = "report.md"
HTML: Final = "report.html"
_LONGEST_REASON: Final = 300
_LONGEST_KIND: Final = 80
_MOST_ALIKE: Final = 20
_NAMED: Final = re.compile(r"\{.*|'[^']*'|\"[^\"]*\"|\d[\w.-]*")
_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1d2733; max-width: 72rem; margin: 2rem auto;
       padding: 0 1.5rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.4rem; }
table { border-collapse: collapse; font-size: .9rem; margin: .6rem 0; }
th, td { padding: .25rem .8rem .25rem 0; text-align: left; vertical-align: top;
         border-bottom: 1px solid #e3e8ee; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
pre { background: #f6f8fa; padding: .7rem; overflow-x: auto; font-size: .8rem; }
figure { display: inline-block; margin: .5rem 1.5rem .5rem 0; }
svg { max-width: 100%; height: auto; }
summary { cursor: pointer; }
"""


class Table(NamedTuple):
    """Rows under a heading; numbers are set to the right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


class Section(NamedTuple):
    """A part of the report."""

    title: str
    text: str = ""
    table: Table | None = None
    repairs: Sequence[tuple[str, Repair]] = ()
    """Each with where it was."""


def write_report(folder: Path, name: str = "") -> Path:
    """Write ``report.md`` and ``report.html`` into the folder of a run; the latter's path.

    ``name`` stands in the title, by default that of the folder. Raises ``RecordInvalid`` where
    there is no record, and ``PlotsUnavailable`` without matplotlib.
    """
    from environments.synthesis.plots import plots

    records = list(read_record(folder))
    passed = [record for record in records if record.outcome == "passed"]
    found = diversity([(record.name, record.makeup) for record in passed])
    sections = list(_sections(records, _spent(folder), found))
    figures = plots(records, funnel(records), found)
    name = name or folder.name
    write_whole(folder / MARKDOWN, _markdown(name, sections).encode())
    path = folder / HTML
    write_whole(path, _html(name, sections, figures).encode())
    return path


# --- what is in it ---------------------------------------------------------------------------


def _sections(
    records: Sequence[EnvironmentRecord], spent: Sequence[Spent], found: Diversity
) -> Iterator[Section]:
    yield Section("In short", table=Table(("", ""), list(_short(records, spent))))
    yield Section("Stages", table=Table(_FUNNEL, list(map(_stage, funnel(records)))))
    passed = [record for record in records if record.outcome == "passed"]
    yield Section("Environments", table=Table(_ENVIRONMENT, [_row(one) for one in passed]))
    if found.environments > 1:
        yield _diverse(found)
    if gates := _gates(passed):
        yield Section("Gates", table=Table(("gate", "passed", "noted or failed"), gates))
    lost = [
        (one, stage, what) for one in records for stage in one.stages for what in stage.rejected
    ]
    rows = [(one.name, stage.stage, what.what, _brief(what.reason)) for one, stage, what in lost]
    rows += [
        (one.name, one.outcome, "", _brief(one.reason or "it was stopped"))
        for one in records
        if one.outcome != "passed" and all(stage.passed for stage in one.stages)
    ]
    reasons = Counter((stage, _kind(why)) for _, stage, _, why in rows)
    counted = [(stage, why, count) for (stage, why), count in reasons.most_common()]
    yield Section("Reasons", table=Table(("stage", "reason", "times"), counted))
    yield Section("Given up", table=Table(("environment", "stage", "what", "why"), rows))
    repairs = [
        (f"{one.name}, {stage.stage}{f', {repair.of}' if repair.of else ''}", repair)
        for one in records
        for stage in one.stages
        for repair in stage.repairs
    ]
    yield Section("Repairs", "" if repairs else "Nothing had to be repaired.", repairs=repairs)


_FUNNEL: Final = (
    "stage", "environments in", "passed", "tasks in", "passed", "repairs", "seconds",
)  # fmt: skip
_ENVIRONMENT: Final = (
    "environment", "domain", "tables", "tools", "rows", "tasks", "difficulties", "tools called",
    "tables changed", "repairs",
)  # fmt: skip


def _stage(one: Funnel) -> Sequence[object]:
    tasks = (one.tasks_into, one.tasks_passed) if one.stage in ON_TASKS else ("", "")
    return (one.stage, one.into, one.passed, *tasks, one.repairs, one.seconds)


def _short(
    records: Sequence[EnvironmentRecord], spent: Sequence[Spent]
) -> Iterator[tuple[str, object]]:
    outcomes = Counter(record.outcome for record in records)
    yield "environments that pass", outcomes["passed"]
    yield "given up", outcomes["rejected"]
    yield "not finished", outcomes["unfinished"]
    yield "tasks", sum(one.makeup.tasks for one in records if one.outcome == "passed")
    yield "repairs", sum(len(stage.repairs) for one in records for stage in one.stages)
    if spent:
        usage = sum((one.usage for one in spent), Usage())
        known = [one.usd for one in spent if one.usd is not None]
        yield "requests", len(spent)
        yield "tokens in and out", f"{usage.prompt_tokens} and {usage.completion_tokens}"
        yield "US dollars", f"{sum(known):.4f}" if len(known) == len(spent) else "price unknown"


def _row(one: EnvironmentRecord) -> Sequence[object]:
    makeup = one.makeup
    difficulties = ", ".join(f"{count} {name}" for name, count in makeup.difficulties.items())
    return (
        one.name,
        one.domain,
        makeup.tables,
        makeup.tools,
        makeup.rows,
        makeup.tasks,
        difficulties,
        f"{makeup.tools_called} of {makeup.tools}",
        f"{makeup.tables_changed} of {makeup.tables}",
        sum(len(stage.repairs) for stage in one.stages),
    )


def _gates(records: Sequence[EnvironmentRecord]) -> list[Sequence[object]]:
    every = [gate for one in records for gate in one.makeup.gates]
    passed = Counter(gate.name for gate in every if gate.passed)
    found = Counter(gate.name for gate in every)
    return [(name, passed[name], found[name] - passed[name]) for name in found]


def _diverse(found: Diversity) -> Section:
    rows: list[Sequence[object]] = [
        ("distinct schemas, names erased", found.schemas),
        ("environments much like an earlier one", len(found.duplicates)),
        ("tasks with the oracle shape of another", f"{found.same_shape} of {found.tasks}"),
        ("distinct instructions", found.instructions),
        ("first words of instructions", found.openings),
    ]
    shown = found.duplicates[:_MOST_ALIKE]
    rows += [(f"{one.one} and {one.other}", f"{one.similarity:.2f}") for one in shown]
    return Section("Diversity", table=Table(("", ""), rows))


def _kind(reason: str) -> str:
    """What a reason has in common with others of its kind: its words, without what they name."""
    return _NAMED.sub("...", reason.split("\n")[0])[:_LONGEST_KIND]


def _brief(reason: str) -> str:
    return reason if len(reason) <= _LONGEST_REASON else f"{reason[:_LONGEST_REASON]} ..."


# --- how it is written -----------------------------------------------------------------------


def _markdown(name: str, sections: Iterable[Section]) -> str:
    parts = [f"# Synthesis {name}"]
    for section in sections:
        parts.append(f"## {section.title}")
        if section.text:
            parts.append(section.text)
        if section.table is not None:
            parts.append(_markdown_table(section.table))
        for place, repair in section.repairs:
            parts.append(f"### {place}")
            parts.append("\n".join(f"- {problem}" for problem in repair.problems))
            parts.append(f"````diff\n{repair.changed}\n````")
    return "\n\n".join(parts) + "\n"


def _markdown_table(table: Table) -> str:
    if not table.rows:
        return "None."
    rule = ["---:" if _is_number(table, column) else "---" for column in range(len(table.columns))]
    lines = [table.columns, rule, *table.rows]
    return "\n".join(
        f"| {' | '.join(str(cell).replace('|', '/').replace(chr(10), ' ') for cell in line)} |"
        for line in lines
    )


def _html(name: str, sections: Iterable[Section], figures: Sequence[str]) -> str:
    parts = [f"<h1>Synthesis {escape(name)}</h1>"]
    for number, section in enumerate(sections):
        parts.append(f"<h2>{escape(section.title)}</h2>")
        if section.text:
            parts.append(f"<p>{escape(section.text)}</p>")
        if section.table is not None:
            parts.append(_html_table(section.table))
        if number == 0:
            parts += [f"<figure>{figure}</figure>" for figure in figures]
        parts += [_html_repair(place, repair) for place, repair in section.repairs]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>Synthesis {escape(name)}</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def _html_repair(place: str, repair: Repair) -> str:
    problems = "".join(f"<li>{escape(problem)}</li>" for problem in repair.problems)
    return (
        f"<details><summary>{escape(place)}</summary><ul>{problems}</ul>"
        f"<pre>{escape(repair.changed)}</pre></details>"
    )


def _html_table(table: Table) -> str:
    if not table.rows:
        return "<p>None.</p>"
    kinds = [' class="number"' if _is_number(table, c) else "" for c in range(len(table.columns))]
    head = "".join(
        f"<th{kind}>{escape(name)}</th>" for kind, name in zip(kinds, table.columns, strict=True)
    )
    rows = "\n".join(
        "<tr>"
        + "".join(
            f"<td{kind}>{escape(str(cell))}</td>" for kind, cell in zip(kinds, row, strict=True)
        )
        + "</tr>"
        for row in table.rows
    )
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table>"


def _is_number(table: Table, column: int) -> bool:
    return all(isinstance(row[column], int | float) or row[column] == "" for row in table.rows)


# --- what it is made of ----------------------------------------------------------------------


def _spent(folder: Path) -> list[Spent]:
    path = folder / SPENDING
    lines = path.read_bytes().splitlines() if path.is_file() else []
    return [msgspec.json.decode(line, type=Spent) for line in lines]
