"""A world: several environments in one episode, on one clock, judged as one.

Tools and tables go by the names of their environments (``inventory__get_item``,
``inventory__stock``), in calls, tasks, verifiers and SQL alike. Each environment keeps its own
database, workers and confinement; only a verdict sees their rows together, in a database of the
world's own that holds nothing else.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from hashlib import blake2b
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

from environments.catalogue import Pack
from environments.errors import EnvhubError, PackInvalid
from environments.joint import (
    JointBranch,
    decode_joint,
    decode_joint_delta,
    encode_joint_delta,
    joined,
    joined_changes,
    joined_tool,
    joint_delta,
    member_changes,
)
from environments.opened import WAIT, Environment
from environments.sandbox.host import Case, Description, Moment, Transition, Trial
from environments.spec import Task, ToolSpec
from environments.trajectory import Change, Reward, Step
from environments.verifier import Attempt, RewardMode, unset
from snapshots import (
    Branch,
    Changeset,
    Mark,
    PageDelta,
    Recipe,
    Snapshot,
    TableRows,
    Workspace,
    build_database,
)
from snapshots.shapes import quoted, read_shapes

_VERSION: Final = 1
_NO_NAME: Final = r"'[^']*'|--[^\n]*|/\*.*?\*/"
"""Where SQL names no table, whatever stands there: texts and comments."""


class World(Environment):
    """The environments of a world's pack, opened together."""

    def __init__(self, pack: Pack, members: Mapping[str, Environment], snapshot: Snapshot) -> None:
        self.members = members
        first = next(iter(members.values()))
        names = "|".join(map(re.escape, members))
        self._owners = re.compile(rf"{_NO_NAME}|\b({names})__(?=\w)", re.DOTALL)
        self._begun: dict[str, Branch] = {}
        self._rows = Workspace(snapshot, verbatim=True)
        tables = {
            joined(name, table): info
            for name, member in members.items()
            for table, info in member.tables.items()
        }
        tools = list(_tools(members))
        self._owner_of = {tool.name: place for place, tool in tools}
        description = Description(tools=tuple(tool for _, tool in tools), tables=tables)
        super().__init__(pack, snapshot, description, first.sandbox, first.judge, first.user)

    def check_task(self, task: Task) -> None:
        super().check_task(task)
        if self.assertions(task).probes:
            raise PackInvalid(
                "a world's tools cannot be probed by a verifier",
                hint="say what rows there must be, with expect or state",
            )

    def isolated(self) -> Environment:
        other = super().isolated()
        assert isinstance(other, World)
        other.members = {name: member.isolated() for name, member in self.members.items()}
        return other

    # What moves a branch -------------------------------------------------------------------------

    async def perform(
        self, branch: Branch, moment: Moment, tool: str, arguments: dict[str, Any]
    ) -> Transition:
        """Run a tool of one environment; the others' clocks follow."""
        if tool == WAIT:
            return await self.pass_time(branch, moment, arguments["seconds"])
        name, inner = self._owner_of[tool]
        member, own = _at(branch, moment, name)
        told = await self.members[name].perform(member, own, inner, arguments)
        sum_ = _Sum(moment)
        sum_.add(name, told)
        passed = (told.moment.clock_ms - moment.clock_ms) / 1000
        others = [other for other in self.members if other != name]
        return await self._time(branch, moment, passed, others, sum_)

    async def pass_time(self, branch: Branch, moment: Moment, seconds: float) -> Transition:
        return await self._time(branch, moment, seconds, list(self.members), _Sum(moment))

    async def _time(
        self,
        branch: Branch,
        moment: Moment,
        seconds: float,
        names: Iterable[str],
        sum_: _Sum,
    ) -> Transition:
        for name in names if seconds else ():
            told = await self.members[name].pass_time(*_at(branch, moment, name), seconds)
            if told.error is not None:
                return Transition(moment=moment, error=told.error)
            sum_.add(name, told)
        return sum_.transition()

    async def act(self, branch: Branch, moment: Moment, statements: Sequence[str]) -> Transition:
        """Run SQL in the world's names; a statement speaks of the tables of one environment."""
        state, sum_ = branch.fork(), _Sum(moment)
        for name, parts in groupby(map(self._owned, statements), key=itemgetter(0)):
            own = [statement for _, statement in parts]
            told = await self.members[name].act(*_at(state, sum_.moment, name), own)
            if told.error is not None:
                return Transition(moment=moment, error=told.error)
            sum_.add(name, told)
            if told.delta is not None:
                state.commit(joint_delta({name: told.delta}), ())
        return sum_.transition()

    def _owned(self, statement: str) -> tuple[str, str]:
        """The environment a statement speaks of, and the statement in that one's names."""
        owners = {*filter(None, self._owners.findall(statement))}
        if len(owners) != 1:
            raise PackInvalid(
                f"a statement must speak of the tables of one environment: {statement[:200]}",
                hint=f"name tables like {joined(next(iter(self.members)), 'table')}",
            )
        own = self._owners.sub(lambda found: "" if found[1] else found[0], statement)
        return owners.pop(), own

    # How states are kept -------------------------------------------------------------------------

    def encode_delta(self, delta: PageDelta, branch: Branch) -> bytes:
        return encode_joint_delta(delta, branch)

    def decode_delta(self, data: bytes, branch: Branch) -> PageDelta:
        return decode_joint_delta(data, branch)

    def decode_branch(self, data: bytes) -> Branch:
        snapshots = {name: member.snapshot for name, member in self.members.items()}
        return decode_joint(data, self.snapshot, snapshots)

    def _fresh(self) -> Branch:
        branches = {name: Branch(member.snapshot) for name, member in self.members.items()}
        return JointBranch(self.snapshot, branches)

    async def _prepare(self, task: Task) -> tuple[Mark, Moment]:
        prepared = await super()._prepare(task)
        branch, moment = self._fresh(), Moment(self.pack.spec.clock.start_ms, 0, {})
        told = await self.act(branch, moment, task.initial)
        self._begun[task.id] = self._with(Branch(self.snapshot), told.commits)
        return prepared

    # What a run is worth -------------------------------------------------------------------------

    async def score(self, task: Task, attempt: Attempt, mode: RewardMode | None = None) -> Reward:
        """Judge a run by the rows of all environments, once each of them has been found to be what
        the record says."""
        try:
            for name, member in self.members.items():
                await self._require_true(name, member, attempt)
        except EnvhubError as error:
            return unset(error, mode or "binary")
        start = self._begun.get(task.id) or Branch(self.snapshot)
        end = self._with(start, [change for step in attempt.steps for change in step.changes])
        return await super().score(task, replace(attempt, start=start, end=end), mode)

    async def _require_true(self, name: str, member: Environment, attempt: Attempt) -> None:
        assert isinstance(attempt.start, JointBranch)
        assert isinstance(attempt.end, JointBranch)
        trial = Trial(
            f"looking into {self.name}'s {name}",
            attempt.start.member(name).fork(),
            attempt.end.member(name).fork(),
            attempt.moment.clock_ms,
        )
        steps = tuple(_step_of(name, step) for step in attempt.steps)
        await self.sandbox.score(member.pack, trial, None, Case(steps=steps))

    def _with(self, start: Branch, commits: Iterable[Change]) -> Branch:
        """The rows of ``start`` after what was changed."""
        net = Changeset()
        for change in commits:
            net = net.concat(Changeset.from_json(change.changes))
        branch = start.fork()
        if net:
            with self._rows.mount(branch, record=False) as mount:
                net.apply(mount.connection)
        return branch


class _Sum:
    """What happened in several environments, as one transition in the world's names. The first
    one answers."""

    def __init__(self, moment: Moment) -> None:
        self.moment = moment
        self._first: Transition | None = None
        self._deltas: dict[str, PageDelta] = {}
        self._commits: list[Change] = []

    def add(self, name: str, told: Transition) -> None:
        if told.delta is not None:
            before = self._deltas.get(name)
            self._deltas[name] = before.merge(told.delta) if before else told.delta
        self._commits += [
            msgspec.structs.replace(change, changes=joined_changes(name, change.changes))
            for change in told.commits
        ]
        counters = {f"{name}/{key}": count for key, count in told.moment.counters.items()}
        self.moment = Moment(
            told.moment.clock_ms, self.moment.seed, {**self.moment.counters, **counters}
        )
        self._first = self._first or told

    def transition(self) -> Transition:
        return msgspec.structs.replace(
            self._first or Transition(moment=self.moment),
            moment=self.moment,
            delta=joint_delta(self._deltas) if self._deltas else None,
            commits=tuple(self._commits),
        )


def _at(branch: Branch, moment: Moment, name: str) -> tuple[Branch, Moment]:
    """Where one environment of the world stands. Each has a seed of its own, or their ids would
    be alike."""
    assert isinstance(branch, JointBranch)
    digest = blake2b(f"{moment.seed}/{name}".encode(), digest_size=8).digest()
    counters = {
        key.partition("/")[2]: count
        for key, count in moment.counters.items()
        if key.partition("/")[0] == name
    }
    seed = int.from_bytes(digest, "big") >> 1
    return branch.member(name), Moment(moment.clock_ms, seed, counters)


def _tools(members: Mapping[str, Environment]) -> Iterable[tuple[tuple[str, str], ToolSpec]]:
    """The world's tools, each with its member and what it is called there."""
    for name, member in members.items():
        for tool in member.tools.values():
            if tool.name == WAIT and member.pack.events:
                continue  # the world has one of its own
            title = f"{member.pack.spec.title}: {tool.title}"
            whole = joined_tool(name, tool.name)
            yield (name, tool.name), msgspec.structs.replace(tool, name=whole, title=title)


def _step_of(name: str, step: Step) -> Step:
    """What a step changed in one environment."""
    changes = tuple(
        msgspec.structs.replace(change, changes=own)
        for change in step.changes
        if (own := member_changes(name, change.changes))
    )
    return msgspec.structs.replace(step, changes=changes, result=None, output="")


# --- the rows of all environments, for verdicts -------------------------------------------------


def rows_digest(members: Iterable[Snapshot]) -> str:
    """What the database with the rows of these snapshots is called."""
    total = hashlib.sha256(b"rows of a world %d\n" % _VERSION)
    for snapshot in members:
        total.update(snapshot.digest.encode())
    return total.hexdigest()


def build_rows(members: Mapping[str, Snapshot], path: Path) -> None:
    """Write a database with the tables of all members under the world's names: columns, keys and
    rows, and no constraint, trigger or view, since all of it has happened already."""
    scripts, rows = [], []
    for name, snapshot in members.items():
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        with closing(apsw.Connection(snapshot.uri, flags=flags)) as connection:
            for table, shape in read_shapes(connection).items():
                scripts.append(_create(connection, table, joined(name, table), shape.key))
                columns = ", ".join(map(quoted, shape.columns))
                found = connection.execute(f"SELECT {columns} FROM {quoted(table)}").fetchall()
                rows.append(TableRows(joined(name, table), shape.columns, tuple(found)))
    build_database(Recipe(scripts=tuple(scripts), rows=tuple(rows), foreign_keys=False), path)


def _create(connection: apsw.Connection, table: str, name: str, key: Sequence[str]) -> str:
    sql = f"SELECT name, type FROM pragma_table_xinfo({_text(table)}) WHERE hidden = 0"
    kinds = {str(column): str(kind) for column, kind in connection.execute(sql)}
    columns = []
    for column, kind in kinds.items():
        alias = tuple(key) == (column,) and kind.upper() == "INTEGER"  # of the row's number
        needed = " NOT NULL" if column in key and not alias else ""
        columns.append(f"{quoted(column)} {kind}{needed}")
    if kinds.keys() >= set(key):
        columns.append(f"PRIMARY KEY ({', '.join(map(quoted, key))})")
    return f"CREATE TABLE {quoted(name)} ({', '.join(columns)});"


def _text(value: str) -> str:
    escaped = value.replace("'", "''")
    return f"'{escaped}'"
