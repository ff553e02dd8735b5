"""One environment of Agent World Model, and the pack that is made of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from environments.importers.awm.code import Application, application_of
from environments.importers.awm.database import scripts_of
from environments.importers.awm.index import FILES, Row, find_folder, read_index, read_row
from environments.importers.awm.models import definitions
from environments.importers.awm.verifiers import Verifier, choose
from environments.importers.manifest import licence_of, pack_name, summary_of, write_manifest
from environments.importers.source import ImportRefused, Written
from environments.spec import Clock, EnvironmentSpec, Task

_CLOCK: Final = Clock()


@dataclass(frozen=True, slots=True)
class AwmSource:
    """Where the lines of one environment lie."""

    folder: Path
    name: str
    title: str
    digest: str
    rows: Mapping[str, tuple[Row, ...]]

    def write(self, folder: Path) -> Written:
        """Fill ``folder`` with the pack; see ``Source.write``. Raises ``ImportRefused``."""
        application = application_of(self._text("envs", "full_code"))
        tables = self._list("db", "db_schema")
        samples = self._list("sample", "sample_data") if "sample" in self.rows else []
        scripts = scripts_of(tables, samples, _CLOCK.start_ms)
        (folder / "schema.sql").write_text(scripts.schema, encoding="utf-8")
        (folder / "data.sql").write_text(scripts.data, encoding="utf-8")
        (folder / "tools.py").write_text(application.source, encoding="utf-8")
        problems = self._write_tasks(folder)
        self._write_about(folder, application)
        renamed = [f"{old} is called {new}" for old, new in application.renamed]
        made = _complete(folder, application.tables - scripts.tables)
        weaknesses = [*([] if samples else ["it has no sample data"]), *problems]
        return Written((*scripts.repairs, *made, *renamed), tuple(weaknesses))

    # --- what lies in the files ---------------------------------------------------------------

    def _first(self, kind: str) -> dict[str, Any]:
        if kind not in self.rows:
            raise ImportRefused(f"{FILES[kind]} does not have it")
        return read_row(self.folder, kind, self.rows[kind][0])

    def _text(self, kind: str, field: str) -> str:
        text = self._first(kind).get(field)
        if not isinstance(text, str) or not text.strip():
            raise ImportRefused(f"{FILES[kind]}: {field} is no text")
        return text

    def _list(self, kind: str, field: str) -> list[dict[str, Any]]:
        held = self._first(kind).get(field)
        tables = held.get("tables") if isinstance(held, dict) else None
        if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
            raise ImportRefused(f"{FILES[kind]}: {field} has no list of tables")
        return tables

    def _verifiers(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for kind in ("pure_code", "verifier"):
            for row in self.rows.get(kind, ()):
                yield kind, read_row(self.folder, kind, row)

    # --- the pack's files -------------------------------------------------------------------------

    def _write_tasks(self, folder: Path) -> list[str]:
        """Write tasks and verifiers; returns what is wrong with them."""
        if "tasks" not in self.rows:
            return [f"{FILES['tasks']} does not have it: it has no tasks"]
        texts = [str(text) for text in self._first("tasks").get("tasks") or ()]
        numbers = {text: number for number, text in reversed(list(enumerate(texts)))}
        chosen, problems = choose(numbers, self._verifiers())
        lines = []
        for number, text in enumerate(texts):
            verifier = chosen.get(number)
            if verifier is None:
                problems.append(f"task {number} has no verifier: only a judge can score it")
            else:
                (folder / verifier.file(number)).write_text(verifier.source, encoding="utf-8")
            task = Task(id=f"task-{number}", instruction=text, verifier=_plan(number, verifier))
            lines.append(msgspec.json.encode(task) + b"\n")
        (folder / "tasks.jsonl").write_bytes(b"".join(lines))
        return problems

    def _write_about(self, folder: Path, application: Application) -> None:
        told = self._first("scenario") if "scenario" in self.rows else {}
        about = str(told.get("description") or "").strip()
        licence = licence_of(self.folder)
        write_manifest(
            folder,
            EnvironmentSpec(
                name=self.name,
                version="1",
                title=self.title,
                summary=summary_of(about) or self.title,
                tags=("awm",),
                licence=licence,
                provenance=f"Agent World Model, scenario {self.title!r}, lines with the SHA-256 "
                f"{self.digest[:16]}",
                runtime="fastapi",
                on_error="keep",
                foreign_keys=application.foreign_keys,
            ),
        )
        if about:
            whose = "Everything is done for the user with the id 1."
            text = f"# {self.title}\n\n{about}\n\n{whose}\n"
            (folder / "policy.md").write_text(text, encoding="utf-8")


def _complete(folder: Path, missing: frozenset[str]) -> list[str]:
    """Add the tables that the application makes by itself when it starts; returns what was added.

    The original's first state does not have them, which only a verifier could notice.
    """
    if not missing:
        return []
    added = definitions(folder, missing)
    with (folder / "schema.sql").open("a", encoding="utf-8") as schema:
        schema.writelines(f"{each.strip()};\n" for made in added.values() for each in made)
    return [f"table {name}: made as the application's model has it, without rows" for name in added]


def _plan(number: int, verifier: Verifier | None) -> dict[str, Any]:
    """The verifier of a task: code that decides, or a judge with what evidence there is."""
    plan: dict[str, Any] = {"reward": "awm"}
    if verifier is not None:
        plan["code"] = {"kind": verifier.kind, "file": verifier.file(number)}
    if verifier is None or verifier.kind == "awm_sql":
        plan["judge"] = {}
    return plan


def sources(path: Path) -> Iterator[AwmSource]:
    """The environments in the folder of AWM's files at ``path``.

    Raises ``ImportRefused`` if there are none.
    """
    folder = find_folder(path)
    for name, entry in read_index(folder).items():
        rows = {kind: tuple(rows) for kind, rows in entry.rows.items()}
        yield AwmSource(folder, pack_name(name), entry.title, entry.digest.hexdigest(), rows)
