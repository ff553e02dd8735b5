"""Packs whose state is a document: what all importers of such write in the same way."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from environments.documents import (
    BINDING,
    HIDDEN,
    HIDDEN_SQL,
    Binding,
    derive,
    encode,
    schema_sql,
    statements,
)
from environments.documents.layout import AT
from environments.documents.mapping import columns
from environments.importers.manifest import write_manifest
from environments.importers.source import ImportRefused
from environments.runtimes.source import SOURCE
from environments.spec import ChangePolicy, EnvironmentSpec, Task


class Documented(msgspec.Struct, frozen=True, kw_only=True):
    """A pack to be written: its code as it is, and the document that it starts with."""

    spec: EnvironmentSpec
    source: str
    binding: Binding
    document: Any = None
    """None for one that was never given any."""
    policy: str = ""
    tasks: tuple[Task, ...] = ()

    def bound_to(self, documents: Sequence[Any]) -> Documented:
        """The same, starting with the first of ``documents``, in tables that suit all of them."""
        binding = msgspec.structs.replace(self.binding, layout=derive(documents))
        return msgspec.structs.replace(self, binding=binding, document=documents[0])

    def initial(self, document: Any) -> tuple[str, ...]:
        """The statements that make of the pack's own document another one, for a task."""
        layout = self.binding.layout
        before = encode(layout, self.document)
        return tuple(statements(layout, before, encode(layout, document, before)))

    def write(self, folder: Path) -> None:
        """Fill ``folder`` with the pack's files, replacing those that are there."""
        shutil.rmtree(folder / "data", ignore_errors=True)
        layout = self.binding.layout
        orders: dict[str, tuple[str, ...]] = {
            table: (AT,) for table, names in columns(layout).items() if AT in names
        }  # the order of entries is no matter of right or wrong
        changes = ChangePolicy(ignore_tables=(HIDDEN,), ignore_columns=orders)
        write_manifest(folder, msgspec.structs.replace(self.spec, changes=changes))
        (folder / "schema.sql").write_text(f"{schema_sql(layout)}\n{HIDDEN_SQL}", encoding="utf-8")
        (folder / SOURCE).write_text(self.source, encoding="utf-8")
        (folder / BINDING).write_text(self.binding.to_text(), encoding="utf-8")
        if self.policy:
            (folder / "policy.md").write_text(self.policy.strip() + "\n", encoding="utf-8")
        write_tasks(folder, self.tasks)
        self._write_rows(folder / "data")

    def _write_rows(self, folder: Path) -> None:
        if self.document is None:
            return
        folder.mkdir(exist_ok=True)
        layout = self.binding.layout
        encoded = encode(layout, self.document)
        for table, names in columns(layout).items():
            rows = encoded[table].values()
            if rows:
                lines = (json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
                (folder / f"{table}.jsonl").write_text("".join(lines), encoding="utf-8")


def write_tasks(folder: Path, tasks: Sequence[Task]) -> None:
    """Write the tasks of a pack, replacing those that are there."""
    lines = [json.dumps(msgspec.to_builtins(task)) + "\n" for task in tasks]
    (folder / "tasks.jsonl").unlink(missing_ok=True)
    if lines:
        (folder / "tasks.jsonl").write_text("".join(lines), encoding="utf-8")


def read_json(path: Path) -> Any:
    """Raises ``ImportRefused`` naming the file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ImportRefused(f"{path.name} cannot be read: {error}") from error
