"""The record of every episode: append-only, on disk before a call is answered.

A commit that fails fails every write in it; nothing is acknowledged that is not on disk.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import aiosqlite
import msgspec
import zstandard

from environments.journal import Closed, JournalRecord, Marked, Stepped
from hub.errors import LedgerDamaged, LedgerFailed
from hub.ledger.index import (
    Documents,
    Enrolling,
    Enrolments,
    EpisodeRow,
    Roll,
    RowQuery,
    Seat,
    awake,
    fold,
    listed,
    parked,
    standing,
)
from hub.ledger.schema import (
    APPEND,
    DOCUMENT,
    LIVE,
    PUT_ROW,
    SELECT,
    prepare,
    require_begun,
)
from hub.ledger.writer import GroupWriter

COMPRESS_FROM_BYTES = 512
PLAIN, COMPRESSED = b"\0", b"\1"
APPENDED_BYTES = 1 << 24
"""What one statement appends, about: SQLite takes no values of a gigabyte."""


class _Append(msgspec.Struct, frozen=True, gc=False):
    episode_id: str
    record: JournalRecord
    body: bytes


class _Change(msgspec.Struct, frozen=True):
    """A change of an index row that no record tells of."""

    episode_id: str
    change: Callable[[EpisodeRow], EpisodeRow]


class _Statement(msgspec.Struct, frozen=True):
    """A write beside the journal."""

    sql: str
    values: tuple[Any, ...]


_Write = _Append | _Change | _Statement


class Ledger:
    """Records on disk: ``async with Ledger.open(path)``. Closing writes what is queued.

    The rows of live episodes are in memory, where the writer's thread replaces them once they are
    on disk; who reads them here reads one at a time, or a copy.
    """

    keeps_pages = True

    def __init__(self, connection: sqlite3.Connection, reader: aiosqlite.Connection) -> None:
        self._connection = connection
        self._reader = reader
        self._rows: dict[str, EpisodeRow] = {}
        for found in connection.execute(LIVE):
            row = EpisodeRow(*found)
            status = standing(row.steps, row.horizon)
            self._rows[row.id] = msgspec.structs.replace(row, status=status)
        last = connection.execute("SELECT max(number), max(finished) FROM episodes").fetchone()
        self._numbers, self._finishes = last[0] or 0, last[1] or 0
        self._roll = Roll()
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(JournalRecord)
        self._compressor = zstandard.ZstdCompressor(level=1)
        self._writer: GroupWriter[_Write] = GroupWriter(self._commit)

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path, *, busy_seconds: float = 5.0) -> AsyncIterator[Ledger]:
        """Open or make the ledger at ``path``. Raises ``LedgerDamaged`` if it is none of ours."""
        require_begun(path)
        with closing(
            sqlite3.connect(
                path, timeout=busy_seconds, isolation_level=None, check_same_thread=False
            )
        ) as connection:
            async with AsyncExitStack() as stack:
                try:
                    prepare(connection, path)
                    # who reads waits for no commit: what was acknowledged is there to be read
                    reader = await stack.enter_async_context(
                        aiosqlite.connect(path, timeout=busy_seconds, isolation_level=None)
                    )
                    await reader.execute("PRAGMA query_only = ON")
                    ledger = cls(connection, reader)
                except sqlite3.DatabaseError as error:
                    raise LedgerDamaged(f"cannot open the ledger {path}: {error}") from error
                await stack.enter_async_context(ledger._writer.running())
                yield ledger

    # Episodes --------------------------------------------------------------------------------

    @property
    def live(self) -> int:
        """How many episodes are neither closed nor parked, resumed since the start or not."""
        return len(self._rows)

    @property
    def finishes(self) -> int:
        """How many episodes were closed so far."""
        return self._finishes

    def unclosed(self) -> Sequence[EpisodeRow]:
        """The rows of the live ones."""
        return list(self._rows.values())

    def enrolling(self, group: str | None, enrolments: Enrolments, tenant: str) -> Enrolling:
        """See ``Roll.enrolling``."""
        return self._roll.enrolling(group, enrolments, tenant)

    async def append(self, episode_id: str, record: JournalRecord) -> None:
        """Durable when it returns. Raises ``LedgerFailed``, and then nothing was recorded."""
        await self._writer.put(_Append(episode_id, record, self._encoder.encode(record)))

    async def records(self, episode_id: str) -> list[JournalRecord]:
        """All records of an episode, oldest first; empty if there are none."""
        found = await self._fetch(
            "SELECT body FROM records WHERE episode = (SELECT number FROM episodes WHERE id = ?) "
            "ORDER BY position",
            (episode_id,),
        )
        try:
            return [self._decoder.decode(_unpack(body)) for (body,) in found]
        except (msgspec.MsgspecError, zstandard.ZstdError) as error:
            raise LedgerDamaged(f"a record of episode {episode_id} is damaged: {error}") from error

    async def row(self, episode_id: str) -> EpisodeRow | None:
        """The index row of an episode, closed ones included."""
        live = self._rows.get(episode_id)
        if live is not None:
            return live
        found = await self._select("WHERE id = ?", (episode_id,))
        return found[0] if found else None

    async def rows(self, query: RowQuery = RowQuery()) -> list[EpisodeRow]:  # noqa: B008 - frozen
        """Index rows with a number above ``after``, in the order they were opened."""
        if query.status in ("live", "truncated"):
            return listed(self.unclosed(), query)
        found = await self._select(
            f"WHERE {_whose(query)} number > :after "
            "AND (:environment = '' OR environment = :environment) "
            "AND (:status = '' OR status = :status) AND (:group = '' OR grp = :group) "
            "ORDER BY number LIMIT :limit",
            msgspec.structs.asdict(query),
        )
        return [self._rows.get(row.id, row) for row in found]

    async def members(self, group: str) -> list[EpisodeRow]:
        """The rows of a group, in the order they were opened."""
        found = await self._select("WHERE grp = ? ORDER BY number", (group,))
        return [self._rows.get(row.id, row) for row in found]

    async def finished(self, query: RowQuery = RowQuery()) -> list[EpisodeRow]:  # noqa: B008
        """Rows of closed episodes that finished after ``after``, in the order of finishing."""
        return await self._select(
            f"WHERE {_whose(query)} finished > :after "
            "AND (:environment = '' OR environment = :environment) "
            "AND (:group = '' OR grp = :group) ORDER BY finished LIMIT :limit",
            msgspec.structs.asdict(query),
        )

    # Parking ---------------------------------------------------------------------------------

    async def park(self, episode_id: str) -> None:
        """Count an episode among the live no longer; its records wait. Raises ``LedgerFailed``."""
        await self._writer.put(_Change(episode_id, parked))

    async def wake(self, episode_id: str) -> None:
        """Count a parked episode among the live again. Raises ``LedgerFailed``."""
        row = await self.row(episode_id)
        if row is None or row.status != "parked":
            return
        await self._writer.put(_Change(episode_id, awake))

    async def parked_before(self, updated_ms: int) -> list[str]:
        """Ids of episodes parked before that time, the longest first, some at a time."""
        found = await self._fetch(
            "SELECT id FROM episodes WHERE status = 'parked' AND updated_ms < ? "
            "ORDER BY updated_ms LIMIT 1000",
            (updated_ms,),
        )
        return [row[0] for row in found]

    # Seats and documents ---------------------------------------------------------------------

    async def seat(self, seat: Seat) -> str | None:
        """The id of the episode that sits there."""
        sql = "SELECT episode FROM seats WHERE tenant = ? AND environment = ? AND key = ?"
        found = await self._fetch(sql, seat)
        return found[0][0] if found else None

    async def keep_seat(self, seat: Seat, episode_id: str) -> None:
        """Give the seat to an episode, durably. Raises ``LedgerFailed``."""
        sql = "INSERT OR REPLACE INTO seats VALUES (?, ?, ?, ?)"
        await self._writer.put(_Statement(sql, (*seat, episode_id)))

    async def keep(self, kind: str, id: str, body: bytes, tenant: str = "") -> None:
        """Keep a document instead of what was there, durably. An id names it among those of its
        kind and tenant; where ids are nobody's in particular the tenant is empty."""
        packed = await asyncio.to_thread(_pack, body) if len(body) > 16_384 else _pack(body)
        await self._writer.put(_Statement(DOCUMENT, (kind, id, tenant, packed)))

    async def document(self, kind: str, id: str, tenant: str | None = "") -> bytes | None:
        """The document kept there; ``None``: whosever it is."""
        sql = "SELECT body FROM documents WHERE kind = ? AND id = ? AND ifnull(?, tenant) = tenant"
        found = await self._fetch(sql, (kind, id, tenant))
        return _unpack(found[0][0]) if found else None

    async def documents(
        self, kind: str, tenant: str | None, after: str = "", limit: int = 1000
    ) -> Documents:
        """Documents of a kind and tenant (``None``: everybody's) with an id above ``after``."""
        whose = "" if tenant is None else "tenant = :tenant AND"
        found = await self._fetch(
            f"SELECT id, body FROM documents WHERE {whose} kind = :kind AND id > :after "
            "ORDER BY id LIMIT :limit",
            {"kind": kind, "tenant": tenant, "after": after, "limit": limit},
        )
        return [(name, _unpack(body)) for name, body in found]

    async def forget(self, kind: str, id: str, tenant: str = "") -> None:
        """Keep a document no longer."""
        sql = "DELETE FROM documents WHERE kind = ? AND id = ? AND tenant = ?"
        await self._writer.put(_Statement(sql, (kind, id, tenant)))

    async def _select(self, where: str, values: Any = ()) -> list[EpisodeRow]:
        return [EpisodeRow(*row) for row in await self._fetch(f"{SELECT} {where}", values)]

    async def _fetch(self, sql: str, values: Any = ()) -> list[tuple[Any, ...]]:
        try:
            return [tuple(row) for row in await self._reader.execute_fetchall(sql, values)]
        except sqlite3.Error as error:
            raise LedgerFailed(f"the ledger could not be read: {error}") from error

    # In the writer's thread ------------------------------------------------------------------

    def _commit(self, group: Sequence[_Write]) -> Sequence[Exception | None]:
        batch = _Batch(self._numbers, self._finishes)
        outcomes: list[Exception | None] = []
        for write in group:
            try:
                self._take(batch, write)
                outcomes.append(None)
            except LedgerFailed as error:
                outcomes.append(error)
        self._execute(batch)
        self._numbers, self._finishes = batch.numbers, batch.finishes
        for episode_id, row in batch.rows.items():
            if row.status in ("closed", "parked"):
                self._rows.pop(episode_id, None)
            else:
                self._rows[episode_id] = row
        return outcomes

    def _take(self, batch: _Batch, write: _Write) -> None:
        if isinstance(write, _Statement):
            batch.statements.append((write.sql, write.values))
            return
        row = batch.rows.get(write.episode_id) or self._known(write.episode_id)
        if isinstance(write, _Append):
            row = self._folded(batch, row, write)
            batch.records.append((row, write.body))
            unsaid = not isinstance(write.record, (Stepped, Marked))
        elif row is None:
            raise LedgerFailed(f"there is no episode {write.episode_id}")
        else:
            row, unsaid = write.change(row), True
        batch.rows[row.id] = row
        if unsaid:
            batch.indexed.add(row.id)

    def _folded(self, batch: _Batch, row: EpisodeRow | None, write: _Append) -> EpisodeRow:
        if row is not None:
            row = fold(row, row.number, write.episode_id, write.record)
        else:
            row = fold(None, batch.numbers + 1, write.episode_id, write.record)
            batch.numbers += 1
            row = self._roll.enrolled(row)
        if isinstance(write.record, Closed) and row.finished is None:
            batch.finishes += 1
            row = msgspec.structs.replace(row, finished=batch.finishes)
        return row

    def _known(self, episode_id: str) -> EpisodeRow | None:
        """The row of an episode; a closed or parked one may still be scored, or taken up again."""
        live = self._rows.get(episode_id)
        if live is not None:
            return live
        found = self._connection.execute(f"{SELECT} WHERE id = ?", (episode_id,)).fetchone()
        return EpisodeRow(*found) if found else None

    def _execute(self, batch: _Batch) -> None:
        """Durable when it returns: all of it or nothing."""
        statements = [
            *self._appends(batch.records),
            *((PUT_ROW, msgspec.structs.astuple(batch.rows[each])) for each in batch.indexed),
            *batch.statements,
        ]
        if len(statements) == 1:  # is a transaction by itself
            self._connection.execute(*statements[0])
        elif statements:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                for sql, values in statements:
                    self._connection.execute(sql, values)
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _appends(self, records: Sequence[tuple[EpisodeRow, bytes]]) -> Iterator[_Bound]:
        """Statements that add records, each with its episode's row after it."""
        places: list[tuple[int, ...]] = []
        stored: list[bytes] = []
        offset = 1
        for row, body in records:
            packed = PLAIN + body
            if len(body) >= COMPRESS_FROM_BYTES:
                packed = COMPRESSED + self._compressor.compress(body)
            places.append((row.number, row.steps, row.updated_ms, offset, len(packed)))
            stored.append(packed)
            offset += len(packed)
            if offset > APPENDED_BYTES:
                yield APPEND, (b"".join(stored), msgspec.json.encode(places).decode())
                places, stored, offset = [], [], 1
        if places:
            yield APPEND, (b"".join(stored), msgspec.json.encode(places).decode())


_Bound = tuple[str, tuple[Any, ...]]


class _Batch:
    """One group on its way to the disk, and what will hold once it is there."""

    def __init__(self, numbers: int, finishes: int) -> None:
        self.numbers, self.finishes = numbers, finishes
        self.rows: dict[str, EpisodeRow] = {}
        self.records: list[tuple[EpisodeRow, bytes]] = []
        self.indexed: set[str] = set()
        self.statements: list[_Bound] = []


def _whose(query: RowQuery) -> str:
    return "tenant = :tenant AND" if query.tenant else ""


def _pack(body: bytes) -> bytes:
    if len(body) < COMPRESS_FROM_BYTES:
        return PLAIN + body
    return COMPRESSED + zstandard.ZstdCompressor(level=3).compress(body)


def _unpack(stored: bytes) -> bytes:
    body = stored[1:]
    return zstandard.ZstdDecompressor().decompress(body) if stored[:1] == COMPRESSED else body
