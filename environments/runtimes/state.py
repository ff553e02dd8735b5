"""The ``state`` runtime: code over one document that it keeps in memory.

Either a class, as EnvScaler has it, whose attributes are the document and whose methods are the
tools; or functions under ``@tool`` that are handed the document as a ``State``. Before a call the
document is taken out of the branch's tables; after it, what it became goes back as changes of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import apsw

from environments.authoring import Database, State, Tool, declared_tools
from environments.documents import (
    Binding,
    BoundTool,
    NotADocument,
    Rows,
    decode,
    encode,
    read_binding,
    read_rows,
    write_rows,
)
from environments.errors import EnvhubError, EnvironmentFault, PackInvalid
from environments.runtimes.foreign import ForeignTool
from environments.runtimes.kept import (
    WHOLE,
    Surroundings,
    digest_of,
    read_kept,
    write_kept,
)
from environments.runtimes.likeness import shared
from environments.runtimes.program import Specs
from environments.runtimes.refusals import refusal
from environments.runtimes.source import SOURCE, place_in, run_source
from environments.spec import ToolSpec


class StateProgram:
    """Tools over the document of a branch."""

    def __init__(self, pack: Path, binding: Binding, module: ModuleType) -> None:
        self._pack = pack
        self._layout = binding.layout
        self._class = _class(module, binding)
        self._tools: Mapping[str, Tool | ForeignTool]
        if self._class is None:
            self._tools = _declared(module)
        else:
            self._tools = {bound.name: _method(self._class, bound) for bound in binding.tools}
        if not self._tools:
            raise PackInvalid(f"{SOURCE} declares no tool")
        self.tools: Mapping[str, ToolSpec] = Specs(self._tools)
        self._around = Surroundings(module)

    def call(self, tool: str, connection: apsw.Connection, arguments: Mapping[str, Any]) -> Any:
        """Run a tool; see ``Program.call``. What it did to the document is written even if it
        raises: whether that is kept is for the pack to say."""
        before = read_rows(connection, self._layout)
        kept = read_kept(connection)
        self._around.reset(kept)
        document = decode(self._layout, before)
        whole = kept.get(WHOLE)
        if whole is not None and whole["of"] == digest_of(document):
            document = whole["attributes"]
        state = State(document) if self._class is None else _instance(self._class, document)
        try:
            return self._tools[tool](state, arguments)
        except (EnvhubError, MemoryError):
            raise
        except Exception as error:
            raise refusal(error, self._pack) from error
        finally:
            self._save(connection, before, state, tool)

    def _save(self, connection: apsw.Connection, before: Rows, state: Any, tool: str) -> None:
        saved = dict(state) if self._class is None else _document(state)
        try:
            after = encode(self._layout, saved, before)
        except NotADocument as error:
            raise EnvironmentFault(f"{tool} left a state that cannot be kept: {error}") from error
        write_rows(connection, self._layout, before, after)
        kept = self._around.changed()
        if shared(saved):
            kept[WHOLE] = {"of": digest_of(saved), "attributes": saved}
        write_kept(connection, kept)

    def place(self, error: BaseException) -> str:
        """The innermost line of the pack that ``error`` passed through."""
        return place_in(self._pack, error)


def _declared(module: ModuleType) -> dict[str, Tool]:
    found = declared_tools(vars(module).values())
    for name, tool in found.items():
        if tool.wants is Database:
            raise PackInvalid(
                f"tool {name} takes a Database", hint='with runtime = "state" it takes a State'
            )
    return found


def _class(module: ModuleType, binding: Binding) -> type | None:
    if not binding.of_class:
        return None
    found = module.__dict__.get(binding.of_class)
    if not isinstance(found, type):
        raise PackInvalid(f"{SOURCE} has no class {binding.of_class}")
    return found


def _method(of_class: type, bound: BoundTool) -> ForeignTool:
    method = getattr(of_class, bound.function, None)
    if not callable(method):
        raise PackInvalid(f"{of_class.__name__} has no method {bound.function!r}")
    return ForeignTool(bound, method, method=True)


def _instance(of_class: type, document: dict[str, Any]) -> Any:
    """As the constructor and everything since has left it: its attributes are all its state."""
    instance: Any = object.__new__(of_class)
    vars(instance).update(document)
    return instance


def _document(instance: Any) -> dict[str, Any]:
    return {
        name: value
        for name, value in vars(instance).items()
        if not (name.startswith("__") and name.endswith("__"))
    }


def load(pack: Path) -> StateProgram:
    """Run the pack's ``tools.py`` in this process and bind it as ``document.json`` says.

    Raises ``PackInvalid`` naming file and line.
    """
    return StateProgram(pack, read_binding(pack), run_source(pack))
