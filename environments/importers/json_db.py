"""A database that is one file of JSON, with Python functions over it and tasks with gold actions.

``DB.json`` alone becomes a pack with tools that look things up. A folder with ``db.json`` may have
beside it ``tools.py`` (functions under ``@tool`` that take a ``State``), ``policy.md``, and tasks:
``tasks.jsonl`` as packs have them, or ``tasks.json`` with instructions and gold actions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from environments.documents import Binding
from environments.importers.documented import Documented, read_json
from environments.importers.gold import UNJUDGED, Gold, ends, tried_out
from environments.importers.manifest import licence_of
from environments.importers.naming import pack_name
from environments.importers.source import ImportRefused, Written
from environments.importers.trial import opens, try_out
from environments.runtimes.source import SOURCE
from environments.spec import EnvironmentSpec, Limits, OracleCall, Task

_FILE: Final = "db.json"
_BESIDE: Final = (SOURCE, "policy.md", "tasks.jsonl", "tasks.json")
_LOOKING: Final = '''"""Looking things up in a document. Write tools of your own here."""

from typing import Any

from environments.authoring import State, ToolError, tool


@tool(read_only=True)
def list_collections(state: State) -> dict[str, int]:
    """The collections there are, and how many entries each has."""
    return {name: len(held) for name, held in state.items() if isinstance(held, (dict, list))}


@tool(read_only=True)
def get_entry(state: State, collection: str, key: str) -> Any:
    """One entry of a collection, by its key, or by its place if the collection is a list."""
    held = state.get(collection)
    if isinstance(held, dict) and key in held:
        return held[key]
    if isinstance(held, list) and key.isdecimal() and int(key) < len(held):
        return held[int(key)]
    raise ToolError("NOT_FOUND", f"{collection} has no entry {key}")
'''


class JsonDatabase(msgspec.Struct, frozen=True):
    """One file of JSON, and what lies beside it if it has a folder of its own."""

    file: Path
    folder: bool

    @property
    def name(self) -> str:
        return pack_name(self.file.parent.resolve().name if self.folder else self.file.stem)

    @property
    def digest(self) -> str:
        total = hashlib.sha256()
        for path in (self.file, *self._beside().values()):
            total.update(path.read_bytes() + b"\0")
        return total.hexdigest()

    def write(self, folder: Path) -> Written:
        """See ``Source.write``."""
        document, repairs, weaknesses = read_json(self.file), [], []
        if not isinstance(document, dict):
            document = {"entries": document}
            repairs.append("the document is no object: it is the entry 'entries' of one")
        beside = {name: path.read_text(encoding="utf-8") for name, path in self._beside().items()}
        if SOURCE not in beside:
            weaknesses.append(
                "it has no tools but those that look things up: see docs/importing.md, `json-db`"
            )
        spec = EnvironmentSpec(
            name=self.name,
            version="1.0.0",
            title=self.name.replace("-", " ").capitalize(),
            summary=f"What {self.file.name} holds, with tools over it.",
            tags=("json-db",),
            licence=licence_of(self.file.parent),
            provenance=self.file.name,
            runtime="state",
            limits=Limits(max_steps=50),
        )
        pack = Documented(
            spec=spec,
            source=beside.get(SOURCE, _LOOKING),
            binding=Binding(),
            policy=beside.get("policy.md", ""),
        ).bound_to([document])
        left_out: list[str] = []
        if "tasks.json" in beside and "tasks.jsonl" not in beside:
            tasks = read_json(self.file.parent / "tasks.json")
            golds = list(_golds(tasks, {self.name: document}))
            pack, left_out = _tried_out(pack, folder, golds)
        pack.write(folder)
        if "tasks.jsonl" in beside:
            (folder / "tasks.jsonl").write_text(beside["tasks.jsonl"], encoding="utf-8")
        try_out(folder, opens)
        return Written(tuple(repairs), (*weaknesses, *left_out))

    def _beside(self) -> dict[str, Path]:
        places = {name: self.file.parent / name for name in _BESIDE} if self.folder else {}
        return {name: path for name, path in places.items() if path.is_file()}


def sources(path: Path) -> Iterator[JsonDatabase]:
    """A file, a folder with a ``db.json``, or a folder of such folders."""
    if path.is_file():
        yield JsonDatabase(path, folder=False)
        return
    found = sorted({*path.glob(_FILE), *path.glob(f"*/{_FILE}")})
    if not found:
        raise ImportRefused(f"{path} is no file, and has no {_FILE}")
    for file in found:
        yield JsonDatabase(file, folder=True)


def _golds(tasks: Any, documents: Mapping[str, Any]) -> Iterator[Gold]:
    """The tasks of ``tasks.json``: an id, an instruction, actions and texts to be told."""
    for number, task in enumerate(tasks if isinstance(tasks, list) else ()):
        if not isinstance(task, Mapping) or not isinstance(task.get("instruction"), str):
            raise ImportRefused(f"tasks.json: entry {number} has no instruction")
        calls = tuple(
            OracleCall(
                tool=str(action.get("name")),
                arguments=dict(action.get("arguments") or action.get("kwargs") or {}),
            )
            for action in task.get("actions") or ()
        )
        told = [str(text) for text in task.get("outputs") or ()]
        verifier: dict[str, Any] = {"answer": {"contains_all": told}} if told else {}
        yield Gold(
            task=Task(
                id=str(task.get("id") or f"task-{number}"),
                instruction=task["instruction"],
                verifier=verifier or UNJUDGED,
                oracle=calls,
                answer=", ".join(told) or None,
            ),
            documents=documents,
        )


def _tried_out(pack: Documented, folder: Path, golds: list[Gold]) -> tuple[Documented, list[str]]:
    """The pack with those tasks whose actions can be made, what these change expected, in tables
    that suit what they end with too; and why others are left out."""
    unjudged = tuple(gold.task for gold in golds)
    pack = msgspec.structs.replace(pack, tasks=unjudged)
    pack.write(folder)
    ended = try_out(folder, lambda trial: ends(trial, golds))
    pack = pack.bound_to([pack.document, *ended])
    pack.write(folder)
    found, left_out = tried_out(folder, golds)
    wanted = {task.id: task.verifier.get("answer") for task in unjudged}
    tasks = tuple(_answered(task, wanted[task.id]) for task in found)
    return msgspec.structs.replace(pack, tasks=tasks), left_out


def _answered(task: Task, answer: Any) -> Task:
    """The task, which wants that answer, if any, instead of its calls."""
    if answer is None:
        return task
    verifier = {name: value for name, value in task.verifier.items() if name != "trace"}
    return msgspec.structs.replace(task, verifier={**verifier, "answer": answer})
