"""Environments ready to play: a pack with its snapshot built and its tools known."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import jsonschema_rs
import msgspec

from environments.assertions import Assertions, TableInfo
from environments.catalogue import SHIPPED, Catalogue, Pack
from environments.errors import EnvironmentFault, InvalidArguments, PackInvalid, UnknownTool
from environments.faults import NONE, plan_named
from environments.sandbox.host import Description, Moment, Sandbox, SandboxLimits, Transition
from environments.spec import FaultPlan, Task, ToolSpec
from environments.verifier import read_plan
from environments.verifier.judge import Judge
from snapshots import Branch, Mark, Snapshot, SnapshotStore

WAIT = "wait"


class Environment:
    """One environment of the catalogue, opened. Holds no episode; every episode may share it."""

    def __init__(
        self,
        pack: Pack,
        snapshot: Snapshot,
        description: Description,
        sandbox: Sandbox,
        judge: Judge | None = None,
    ) -> None:
        self.pack = pack
        self.snapshot = snapshot
        self.sandbox = sandbox
        self.judge = judge
        """Judges the runs of those tasks that want one."""
        self.faults: FaultPlan = NONE
        self.tables: Mapping[str, TableInfo] = description.tables
        self.tools: dict[str, ToolSpec] = {tool.name: tool for tool in description.tools}
        if pack.events:
            if WAIT in self.tools:
                raise PackInvalid(
                    f"{pack.spec.name} has events and declares a tool of its own called {WAIT!r}",
                    hint="rename it: the name belongs to the tool that moves the virtual clock",
                )
            self.tools[WAIT] = _wait_tool(pack.spec.clock.max_wait_seconds)
        self._validators = {
            tool.name: jsonschema_rs.validator_for(tool.input_schema)
            for tool in self.tools.values()
        }
        self._assertions: dict[str, Assertions] = {}
        for task in pack.tasks.values():
            try:
                self.assertions(task)
                read_plan(task, pack)
            except PackInvalid as error:
                raise PackInvalid(f"task {task.id}: {error.message}", hint=error.hint) from error
        self._prepared: dict[str, tuple[Mark, Moment]] = {}
        self._preparing = anyio.Lock()

    @property
    def name(self) -> str:
        return self.pack.spec.name

    @property
    def digest(self) -> str:
        return self.pack.digest

    def validate(self, tool: str, arguments: Mapping[str, Any]) -> None:
        """Raise ``UnknownTool``, or ``InvalidArguments`` that names each field at fault."""
        validator = self._validators.get(tool)
        if validator is None:
            raise UnknownTool(
                f"{self.name} has no tool {tool!r}", hint=f"tools: {', '.join(sorted(self.tools))}"
            )
        if validator.is_valid(arguments):
            return
        problems = [
            f"{'.'.join(map(str, problem.instance_path)) or 'arguments'}: {problem.message}"
            for problem in validator.iter_errors(arguments)
        ]
        raise InvalidArguments(
            f"invalid arguments for {tool}: {'; '.join(problems)}", problems=problems
        )

    def assertions(self, task: Task) -> Assertions:
        """What ``task`` says of changes, states, calls and answers. Raises ``PackInvalid``."""
        known = self._assertions.get(task.id)
        if known is None or known.verifier is not task.verifier:
            known = Assertions.parse(task.verifier, self.tables, self.tools)
            self._assertions[task.id] = known
        return known

    def under(self, faults: str | FaultPlan | None) -> Environment:
        """This environment, failing as a plan says; by name the pack's own plan or a preset.

        Costs a copy of a reference. Raises ``UnknownFaultPlan``.
        """
        plan = plan_named(faults, self.pack.faults)
        if plan == self.faults:
            return self
        other = copy.copy(self)
        other.faults = plan
        return other

    # What moves a branch; nothing of a transition is in it until the caller commits it ----------

    async def perform(
        self, branch: Branch, moment: Moment, tool: str, arguments: dict[str, Any]
    ) -> Transition:
        """Run a tool with valid arguments. Raises what ``Sandbox.call`` raises."""
        if tool == WAIT and self.pack.events:
            return await self.pass_time(branch, moment, arguments["seconds"])
        return await self.sandbox.call(self.pack, branch, moment, tool, arguments)

    async def pass_time(self, branch: Branch, moment: Moment, seconds: float) -> Transition:
        """Move the clock, and with it what is scheduled. Raises what ``Sandbox.wait`` raises."""
        return await self.sandbox.wait(self.pack, branch, moment, seconds)

    async def act(self, branch: Branch, moment: Moment, statements: Sequence[str]) -> Transition:
        """Run SQL as the world does. Raises what ``Sandbox.prepare`` raises."""
        return await self.sandbox.prepare(self.pack, branch, moment, statements)

    async def start(self, task: Task | None, seed: int) -> tuple[Branch, Moment]:
        """A fresh branch and clock where ``task`` begins (its ``initial`` statements applied).

        The statements run once per task and not once per episode: a reset is a pointer copy.
        Raises ``PackInvalid`` if they fail.
        """
        branch = Branch(self.snapshot)
        moment = Moment(clock_ms=self.pack.spec.clock.start_ms, seed=seed, counters={})
        if task is None or not task.initial:
            return branch, moment
        if task.id not in self._prepared:
            async with self._preparing:
                if task.id not in self._prepared:
                    self._prepared[task.id] = await self._prepare(task)
        mark, prepared = self._prepared[task.id]
        branch.rewind(mark)
        return branch, msgspec.structs.replace(prepared, seed=seed)

    async def _prepare(self, task: Task) -> tuple[Mark, Moment]:
        branch = Branch(self.snapshot)
        moment = Moment(clock_ms=self.pack.spec.clock.start_ms, seed=0, counters={})
        transition = await self.act(branch, moment, task.initial)
        if transition.error is not None:
            raise PackInvalid(
                f"task {task.id} of {self.name}: its initial statements fail: "
                f"{transition.error.message}"
            )
        if transition.delta is not None:
            branch.commit(transition.delta, ())
        return branch.mark(), transition.moment


class Environments:
    """The opened environments of a catalogue, each built and described on first use."""

    def __init__(
        self,
        catalogue: Catalogue,
        store: SnapshotStore,
        sandbox: Sandbox,
        judge: Judge | None = None,
    ) -> None:
        self.catalogue = catalogue
        self.store = store
        self.sandbox = sandbox
        self.judge = judge
        self._open: dict[str, Environment | EnvironmentFault] = {}
        self._locks: dict[str, anyio.Lock] = {}

    async def get(self, name: str) -> Environment:
        """The environment called ``name``.

        Raises ``UnknownEnvironment``, or ``PackInvalid`` (again on every call: a broken pack stays
        broken until the catalogue is read anew).
        """
        found = self._open.get(name)
        if found is None:
            pack = self.catalogue.get(name)
            async with self._locks.setdefault(name, anyio.Lock()):
                found = self._open.get(name)
                if found is None:
                    try:
                        found = await self._load(pack)
                    except EnvironmentFault as error:
                        found = error
                    self._open[name] = found
        if isinstance(found, EnvironmentFault):
            raise found.with_traceback(None)
        return found

    async def _load(self, pack: Pack) -> Environment:
        snapshot = await self._snapshot(pack)
        known = self.store.root / "descriptions" / f"{pack.digest}.json"
        if known.exists():
            description = msgspec.json.decode(known.read_bytes(), type=Description)
        else:
            description = await self.sandbox.describe(pack, snapshot)
            known.parent.mkdir(parents=True, exist_ok=True)
            part = known.with_suffix(".part")
            part.write_bytes(msgspec.json.encode(description))
            part.replace(known)
        return Environment(pack, snapshot, description, self.sandbox, self.judge)

    async def _snapshot(self, pack: Pack) -> Snapshot:
        digest = pack.recipe.digest
        found = self.store.find(digest)
        if found is not None:
            return found
        with tempfile.TemporaryDirectory(dir=self.store.root, prefix="build-") as folder:
            path = Path(folder) / "snapshot.sqlite"
            await self.sandbox.build(pack, path)
            return await anyio.to_thread.run_sync(self.store.admit, digest, path)


@asynccontextmanager
async def open_environments(
    roots: Sequence[Path] = (SHIPPED,),
    *,
    data_dir: Path | None = None,
    limits: SandboxLimits | None = None,
    judge: Judge | None = None,
) -> AsyncIterator[Environments]:
    """Environments with workers of their own and no server, for notebooks, tests and the CLI.

    ``data_dir`` keeps built snapshots between uses; without it they live as long as the context.
    ``judge`` judges the runs of tasks that want one.
    """
    with tempfile.TemporaryDirectory(prefix="envhub-") as scratch:
        store = SnapshotStore((data_dir or Path(scratch)) / "snapshots")
        async with Sandbox(limits or SandboxLimits()) as sandbox:
            yield Environments(Catalogue(roots), store, sandbox, judge)


def _wait_tool(max_seconds: float) -> ToolSpec:
    return ToolSpec(
        name=WAIT,
        title="Wait",
        description=(
            "Let time pass. Things may change meanwhile: a delivery arrives, a price moves, a "
            "system that was down comes back. Answers the time afterwards."
        ),
        input_schema={
            "type": "object",
            "properties": {
                "seconds": {
                    "type": "number",
                    "exclusiveMinimum": 0,
                    "maximum": max_seconds,
                    "description": "How long to wait, in seconds (3600 is an hour).",
                }
            },
            "required": ["seconds"],
            "additionalProperties": False,
        },
        read_only=False,
    )
