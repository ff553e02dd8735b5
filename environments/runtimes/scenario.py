"""The ``scenario`` runtime: an object that loads its whole state from a document and saves it.

EnvFactory's form: a class with ``load_scenario(dict)`` and ``save_scenario() -> dict``, one global
instance of it, and functions under ``@mcp.tool()`` that act on that. Before a call the document of
the branch is loaded; after it, what was saved goes back as changes of rows.
"""

from __future__ import annotations

import copy
import random
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import apsw
from pydantic_core import to_jsonable_python

from environments.documents import (
    Binding,
    BoundTool,
    Rows,
    decode,
    encode,
    read_binding,
    read_rows,
    to_text,
    write_rows,
)
from environments.documents.layout import DOCUMENT
from environments.errors import EnvhubError, EnvironmentFault, PackInvalid
from environments.runtimes import fastmcp
from environments.runtimes.foreign import ForeignTool
from environments.runtimes.kept import (
    WHOLE,
    Kept,
    Surroundings,
    digest_of,
    names,
    random_text,
    read_kept,
    set_random,
    write_kept,
)
from environments.runtimes.likeness import alike, shared
from environments.runtimes.program import Specs
from environments.runtimes.refusals import refusal
from environments.runtimes.source import SOURCE, place_in, run_source
from environments.spec import ToolSpec

_ATTRIBUTE: Final = "attribute "
_RANDOM: Final = "random"
_REMEMBERED: Final = 16


class ScenarioProgram:
    """The functions of one module over its one instance."""

    def __init__(self, pack: Path, binding: Binding, module: ModuleType) -> None:
        self._pack = pack
        self._layout = binding.layout
        self._instance = module.__dict__[binding.instance]
        self._fresh = copy.deepcopy(vars(self._instance))
        servers = {k: v for k, v in vars(module).items() if isinstance(v, fastmcp.FastMCP)}
        functions = {k: f for server in servers.values() for k, f in server.functions.items()}
        self._tools = {bound.name: _tool(bound, functions) for bound in binding.tools}
        self.tools: Mapping[str, ToolSpec] = Specs(self._tools)
        self._loaded: dict[str, dict[str, Any]] = {}
        self._around = Surroundings(module, {binding.instance, *servers})

    def call(self, tool: str, connection: apsw.Connection, arguments: Mapping[str, Any]) -> Any:
        """Run a tool; see ``Program.call``. What it did to the state is written even if it
        raises: whether that is kept is for the pack to say."""
        before, kept = read_rows(connection, self._layout), read_kept(connection)
        seeded = self._load(before, kept)
        try:
            return self._tools[tool](None, arguments)
        except (EnvhubError, MemoryError):
            raise
        except Exception as error:
            raise refusal(error, self._pack) from error
        finally:
            self._save(connection, before, seeded)

    def place(self, error: BaseException) -> str:
        """The innermost line of the pack that ``error`` passed through."""
        return place_in(self._pack, error)

    # --- before a call ----------------------------------------------------------------------------

    def _load(self, rows: Rows, kept: Kept) -> str:
        """Bring the instance into the branch's state; returns how ``random`` then stands if
        loading seeds it, else ""."""
        self._around.reset(kept)
        attributes = vars(self._instance)
        attributes.clear()
        attributes.update(copy.deepcopy(self._fresh))
        if not rows[DOCUMENT]:  # nothing was ever loaded
            return ""
        document = decode(self._layout, rows)
        whole = kept.get(WHOLE)
        if whole is not None and whole["of"] == digest_of(document):
            attributes.clear()
            attributes.update(whole["attributes"])
            seeded: str = whole["seeded"]
        else:
            seeded = self._load_into(self._instance, document)
            for name, value in names(kept, _ATTRIBUTE):
                attributes[name] = value
        if seeded:
            set_random(kept.get(_RANDOM, seeded))
        return seeded

    def _load_into(self, instance: Any, document: Any) -> str:
        """Returns how ``random`` then stands if loading moved it, else leaves it as it was."""
        drawn = random.getstate()
        random.seed(f"loading {random.getrandbits(64)}")  # which is no number that code would take
        before = random.getstate()
        try:
            instance.load_scenario(document)
        except Exception as error:
            raise EnvironmentFault(
                f"the state does not load: {type(error).__name__}: {error}",
                hint="the document in the tables is not one that load_scenario takes",
            ) from error
        if random.getstate() != before:
            return random_text()
        random.setstate(drawn)
        return ""

    # --- after it ---------------------------------------------------------------------------------

    def _save(self, connection: apsw.Connection, before: Rows, seeded: str) -> None:
        document = self._saved()
        after = encode(self._layout, document, before)
        write_rows(connection, self._layout, before, after)
        kept = self._around.changed()
        if seeded and (now := random_text()) != seeded:
            kept[_RANDOM] = now
        kept |= self._beside(document, seeded)
        write_kept(connection, kept)

    def _saved(self) -> Any:
        try:
            return to_jsonable_python(self._instance.save_scenario(), inf_nan_mode="constants")
        except Exception as error:
            raise EnvironmentFault(
                f"the state cannot be saved: {type(error).__name__}: {error}",
                hint="save_scenario must give JSON",
            ) from error

    def _beside(self, document: Any, seeded: str) -> Kept:
        """What of the instance would be lost if only its document were loaded again."""
        digest = digest_of(document)
        attributes = vars(self._instance)
        whole = {WHOLE: {"of": digest, "attributes": dict(attributes), "seeded": seeded}}
        try:
            loaded = self._as_loaded(document, digest)
        except EnvironmentFault:
            return whole
        if shared(attributes) != shared(loaded):
            return whole
        found: Kept = {}
        for name, value in attributes.items():
            if not alike(value, loaded.get(name)):
                try:
                    to_text(value)
                except ValueError:
                    return whole
                found[_ATTRIBUTE + name] = value
        return found

    def _as_loaded(self, document: Any, digest: str) -> Mapping[str, Any]:
        """What attributes an instance has that just loaded the document. Nobody changes them, so
        those of a few documents are remembered: calls that only look come to the same again."""
        known = self._loaded.get(digest)
        if known is None:
            other = object.__new__(type(self._instance))
            vars(other).update(copy.deepcopy(self._fresh))
            state = random.getstate()
            try:
                self._load_into(other, document)
            finally:
                random.setstate(state)
            if len(self._loaded) >= _REMEMBERED:
                self._loaded.clear()
            known = self._loaded[digest] = vars(other)
        return known


def _tool(bound: BoundTool, functions: Mapping[str, Any]) -> ForeignTool:
    function = functions.get(bound.function)
    if function is None:
        raise PackInvalid(f"{SOURCE} has no tool {bound.function!r}")
    return ForeignTool(bound, function)


def load(pack: Path) -> ScenarioProgram:
    """Run the pack's ``tools.py`` in this process and bind it as ``document.json`` says.

    Raises ``PackInvalid`` naming file and line.
    """
    binding = read_binding(pack)
    fastmcp.install()
    tempfile.tempdir = "/tmp"
    module = run_source(pack)
    if not hasattr(getattr(module, binding.instance, None), "load_scenario"):
        raise PackInvalid(f"{SOURCE} has no {binding.instance or 'instance'} that loads a scenario")
    return ScenarioProgram(pack, binding, module)
