"""One file of tools, with what lies beside it, as a pack."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from environments.importers.documented import Documented, read_json
from environments.importers.envfactory.code import Code, read_source
from environments.importers.envfactory.loaded import (
    CLOCK,
    Loaded,
    load_all,
    start,
    write_loadable,
)
from environments.importers.envfactory.rows import read_rows
from environments.importers.envfactory.tasks import (
    calls_of,
    functions_of,
    golds_of,
    without_writers,
)
from environments.importers.gold import tried_out
from environments.importers.naming import pack_name
from environments.importers.source import ImportRefused, Written
from environments.importers.stretches import Stretch
from environments.importers.trial import try_out
from environments.spec import EnvironmentSpec, Limits

LICENCE: Final = "none stated: LARK-AI-Lab/EnvFactory names no licence"


class EnvFactorySource(msgspec.Struct, frozen=True):
    """One file of ``envs/tools``."""

    tools: Path
    rows: tuple[Stretch, ...] = ()
    """Where the rows of RL data are that are played on it alone."""
    shared: tuple[Stretch, ...] = ()
    """Where those are that are played on it with others: its tables suit their documents too."""

    @property
    def class_name(self) -> str:
        return self.tools.stem

    @property
    def name(self) -> str:
        return pack_name(self.class_name)

    @property
    def digest(self) -> str:
        total = hashlib.sha256()
        for path in (self.tools, self._beside("metadata"), self._beside("intermediate")):
            total.update(path.read_bytes() if path.is_file() else b"")
            total.update(b"\0")
        for row in (*self.rows, *self.shared):
            total.update(row.read())
        return total.hexdigest()

    def write(self, folder: Path) -> Written:
        """See ``Source.write``."""
        source = read_source(self.tools)
        code = Code(source, self.tools.name)
        metadata, checkpoint = self._read("metadata"), self._read("intermediate")
        spec = self._spec(metadata)
        scenarios = list(_scenarios(checkpoint))
        rows, unread = read_rows(self.rows, [self.class_name])
        known = {**rows, **read_rows(self.shared, [self.class_name])[0]}
        documents = {name: row.documents[self.class_name] for name, row in known.items()}
        write_loadable(folder, spec, source, code)
        loaded = try_out(folder, lambda env: load_all(env, [s for _, s in scenarios], documents))
        if not loaded.documents:
            raise ImportRefused(
                f"no scenario of its own loads, nor an empty one: {loaded.problems[-1]}"
            )
        pack = Documented(spec=spec, source=source, binding=code.binding())
        pack = pack.bound_to(loaded.documents)
        calls = calls_of(known, self.class_name)
        pack = without_writers(pack, folder, [*tried_calls(checkpoint), *calls])
        names = {(self.class_name, f): n for f, n in functions_of(pack.binding).items()}
        golds, unmade = golds_of(
            rows, {self.name: loaded.rows}, names, lambda begun: pack.initial(begun[self.name])
        )
        pack.write(folder)
        tasks, elsewhere = tried_out(folder, golds)
        pack = msgspec.structs.replace(pack, tasks=tasks)
        pack.write(folder)
        return Written(
            tuple(_repairs(pack, loaded)),
            (*self._weaknesses(pack, loaded, scenarios), *unread, *unmade, *elsewhere),
        )

    def _weaknesses(
        self, pack: Documented, loaded: Loaded, scenarios: Sequence[tuple[str, Any]]
    ) -> Iterator[str]:
        for (title, _), problem in zip(scenarios, loaded.problems, strict=False):
            if problem:
                yield f"{title} does not load: {problem}"
        if loaded.empty:
            yield "it has no scenario that loads: it begins empty"
        if not pack.tasks:
            yield f"there are no tasks for it{' alone' if self.shared else ''}"

    def _beside(self, kind: str) -> Path:
        ending = {"metadata": "metadata", "intermediate": "checkpoint"}[kind]
        return self.tools.parent.parent / kind / f"{self.class_name}_{ending}.json"

    def _read(self, kind: str) -> Mapping[str, Any]:
        path = self._beside(kind)
        found = read_json(path) if path.is_file() else {}
        return found if isinstance(found, dict) else {}

    def _spec(self, metadata: Mapping[str, Any]) -> EnvironmentSpec:
        summary = str(metadata.get("description") or f"{self.class_name}, from EnvFactory.")
        return EnvironmentSpec(
            name=self.name,
            version="1.0.0",
            title=self.class_name,
            summary=summary,
            tags=("envfactory",),
            licence=LICENCE,
            provenance=f"LARK-AI-Lab/EnvFactory: envs/tools/{self.tools.name}",
            runtime="scenario",
            on_error="keep",
            limits=Limits(max_steps=50),
        )


def _repairs(pack: Documented, loaded: Loaded) -> Iterator[str]:
    for bound in pack.binding.tools:
        if bound.function != bound.name:
            yield f"tool {bound.function} is called {bound.name}"
    if loaded.repaired:
        yield f"its scenarios say no {CLOCK}, which it wants: they begin {start()}"


def _scenarios(checkpoint: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Title and document of the scenarios that were meant to load, the largest first: it is what
    the pack begins with."""
    found = [
        (str(each.get("scenario_id", number)), each["scenario_data"])
        for number, each in enumerate(checkpoint.get("scenarios") or ())
        if isinstance(each, dict)
        and each.get("expected_behavior", "pass") == "pass"
        and isinstance(each.get("scenario_data"), dict)
    ]
    yield from sorted(found, key=lambda pair: -len(str(pair[1])))


def tried_calls(checkpoint: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The calls that EnvFactory's own tests made: tool and arguments."""
    seen = set()
    for phase in (checkpoint.get("validation_results") or {}).values():
        for result in (phase or {}).get("scenario_results") or ():
            traces = result.get("tool_traces") or {}
            for execution in traces.get("tool_executions") or () if traces else ():
                for case in execution.get("test_cases") or ():
                    name, arguments = execution.get("tool_name"), case.get("input")
                    if isinstance(name, str) and isinstance(arguments, dict):
                        key = f"{name} {arguments!r}"
                        if key not in seen:
                            seen.add(key)
                            yield name, arguments
