"""The record of every episode: append-only, on disk before a call is answered.

A commit that fails fails every write in it; nothing is acknowledged that is not on disk.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiosqlite
import msgspec
import zstandard

from environments.journal import Closed, JournalRecord, Opened
from hub.errors import LedgerDamaged, LedgerFailed
from hub.ledger.index import (
    Documents,
    Enrolling,
    Enrolments,
    EpisodeRow,
    Roll,
    RowQuery,
    awake,
    fold,
    now_ms,
)
from hub.ledger.schema import APPEND, DOCUMENT, FORMAT, SCHEMA, SELECT
from hub.ledger.writer import GroupWriter, Queued

COMPRESS_FROM_BYTES = 512
PLAIN, COMPRESSED = b"\0", b"\1"


class _Append(msgspec.Struct):
    episode_id: str
    record: JournalRecord
    body: bytes


class _Statement(msgspec.Struct):
    """A write beside the journal; ``row`` takes its place in memory (``None``: goes) after it."""

    sql: str
    values: tuple[Any, ...]
    rows: Mapping[str, EpisodeRow | None] = {}


_Write = _Append | _Statement


class Ledger:
    """Records on disk: ``async with Ledger.open(path)``. Closing writes what is queued."""

    keeps_pages = True

    def __init__(self, connection: aiosqlite.Connection, live: Iterable[EpisodeRow]) -> None:
        self._connection = connection
        self._rows = {row.id: row for row in live}
        self._roll = Roll()
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(JournalRecord)
        self._compressor = zstandard.ZstdCompressor(level=1)
        self._writer: GroupWriter[_Write] = GroupWriter(self._commit)
        self._numbers = 0
        self._finishes = self._finished = 0  # given out, and on disk

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path, *, busy_seconds: float = 5.0) -> AsyncIterator[Ledger]:
        """Open or make the ledger at ``path``. Raises ``LedgerDamaged`` if it is none of ours."""
        try:
            async with aiosqlite.connect(path, timeout=busy_seconds) as connection:
                await _prepare(connection, path)
                ledger = cls(connection, ())
                for row in await ledger._select("WHERE status NOT IN ('closed', 'parked')"):
                    ledger._rows[row.id] = row
                last = await ledger._fetch("SELECT max(number), max(finished) FROM episodes")
                ledger._numbers, ledger._finishes = last[0][0] or 0, last[0][1] or 0
                ledger._finished = ledger._finishes
                async with ledger._writer.running():
                    yield ledger
        except sqlite3.DatabaseError as error:
            raise LedgerDamaged(f"cannot open the ledger {path}: {error}") from error

    # Episodes --------------------------------------------------------------------------------

    @property
    def live(self) -> int:
        """How many episodes are neither closed nor parked, resumed since the start or not."""
        return len(self._rows)

    @property
    def finishes(self) -> int:
        """The last place taken in the order of finishing."""
        return self._finished

    def unclosed(self) -> Sequence[EpisodeRow]:
        """The rows of the live ones."""
        return list(self._rows.values())

    def enrolling(self, group: str | None, enrolments: Enrolments) -> Enrolling:
        """Episodes opened while the body runs are of this group and have these enrolments."""
        return self._roll.enrolling(group, enrolments)

    async def append(self, episode_id: str, record: JournalRecord) -> None:
        """Durable when it returns. Raises ``LedgerFailed``, and then nothing was recorded."""
        self._writer.require_open()
        if episode_id not in self._rows and not isinstance(record, Opened):
            await self._recall(episode_id)
        await self._writer.put(_Append(episode_id, record, self._encoder.encode(record)))

    async def _recall(self, episode_id: str) -> None:
        """Take up the row of a closed or parked episode again: it may still be scored."""
        row = await self.row(episode_id)
        if row is not None:
            self._rows[episode_id] = row

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
        return await self._select(
            "WHERE number > :after AND (:environment = '' OR environment = :environment) "
            "AND (:status = '' OR status = :status) AND (:group = '' OR grp = :group) "
            "ORDER BY number LIMIT :limit",
            msgspec.structs.asdict(query),
        )

    async def members(self, group: str) -> list[EpisodeRow]:
        """The rows of a group, in the order they were opened."""
        return await self._select("WHERE grp = ? ORDER BY number", (group,))

    async def finished(self, query: RowQuery = RowQuery()) -> list[EpisodeRow]:  # noqa: B008
        """Rows of closed episodes that finished after ``after``, in the order of finishing."""
        return await self._select(
            "WHERE finished > :after AND (:environment = '' OR environment = :environment) "
            "AND (:group = '' OR grp = :group) ORDER BY finished LIMIT :limit",
            msgspec.structs.asdict(query),
        )

    # Parking ---------------------------------------------------------------------------------

    async def park(self, episode_id: str) -> None:
        """Count an episode among the live no longer; its records wait. Raises ``LedgerFailed``."""
        sql = "UPDATE episodes SET status = 'parked', updated_ms = ? WHERE id = ?"
        values = (now_ms(), episode_id)
        await self._writer.put(_Statement(sql, values, {episode_id: None}))

    async def wake(self, episode_id: str) -> None:
        """Count a parked episode among the live again. Raises ``LedgerFailed``."""
        row = await self.row(episode_id)
        if row is None or row.status != "parked":
            return
        row = awake(row)
        sql = "UPDATE episodes SET status = ?, updated_ms = ? WHERE id = ?"
        values = (row.status, row.updated_ms, row.id)
        await self._writer.put(_Statement(sql, values, {episode_id: row}))

    async def parked_before(self, updated_ms: int) -> list[str]:
        """Ids of episodes parked before that time, the longest first, some at a time."""
        found = await self._fetch(
            "SELECT id FROM episodes WHERE status = 'parked' AND updated_ms < ? "
            "ORDER BY updated_ms LIMIT 1000",
            (updated_ms,),
        )
        return [row[0] for row in found]

    # Seats and documents ---------------------------------------------------------------------

    async def seat(self, environment: str, key: str) -> str | None:
        """The id of the episode that sits there."""
        found = await self._fetch(
            "SELECT episode FROM seats WHERE environment = ? AND key = ?", (environment, key)
        )
        return found[0][0] if found else None

    async def keep_seat(self, environment: str, key: str, episode_id: str) -> None:
        """Give the seat to an episode, durably. Raises ``LedgerFailed``."""
        sql = "INSERT OR REPLACE INTO seats VALUES (?, ?, ?)"
        await self._writer.put(_Statement(sql, (environment, key, episode_id)))

    async def keep(self, kind: str, id: str, body: bytes) -> None:
        """Keep a document under its kind and id, instead of what was there, durably."""
        packed = await asyncio.to_thread(_pack, body) if len(body) > 16_384 else _pack(body)
        await self._writer.put(_Statement(DOCUMENT, (kind, id, packed)))

    async def document(self, kind: str, id: str) -> bytes | None:
        """The document kept there."""
        sql = "SELECT body FROM documents WHERE kind = ? AND id = ?"
        found = await self._fetch(sql, (kind, id))
        return _unpack(found[0][0]) if found else None

    async def documents(self, kind: str, after: str = "", limit: int = 1000) -> Documents:
        """Documents of a kind with an id above ``after``, in the order of their ids."""
        found = await self._fetch(
            "SELECT id, body FROM documents WHERE kind = ? AND id > ? ORDER BY id LIMIT ?",
            (kind, after, limit),
        )
        return [(name, _unpack(body)) for name, body in found]

    async def forget(self, kind: str, id: str) -> None:
        """Keep a document no longer."""
        sql = "DELETE FROM documents WHERE kind = ? AND id = ?"
        await self._writer.put(_Statement(sql, (kind, id)))

    async def _select(self, where: str, values: object = ()) -> list[EpisodeRow]:
        return [EpisodeRow(*row) for row in await self._fetch(f"{SELECT} {where}", values)]

    async def _fetch(self, sql: str, values: object = ()) -> Sequence[sqlite3.Row]:
        return list(await self._connection.execute_fetchall(sql, values))

    # The writer ------------------------------------------------------------------------------

    async def _commit(self, group: Sequence[Queued[_Write]]) -> None:
        rows: dict[str, EpisodeRow | None] = {}
        accepted: list[tuple[bytes, EpisodeRow]] = []
        statements: list[_Statement] = []
        for queued in group:
            write = queued.item
            if isinstance(write, _Statement):
                statements.append(write)
                rows.update(write.rows)
                continue
            try:
                row = self._fold(rows.get(write.episode_id), write)
            except LedgerFailed as error:
                queued.settle(error)
                continue
            rows[write.episode_id] = row
            accepted.append((write.body, row))
        try:
            await self._write(accepted, statements)
        except sqlite3.Error as error:
            for queued in group:
                queued.settle(
                    LedgerFailed(
                        f"the ledger could not be written: {error}",
                        hint="nothing of it happened; look at the disk and retry",
                    )
                )
            return
        for episode_id, kept in rows.items():
            if kept is None or kept.status == "closed":
                self._rows.pop(episode_id, None)
            else:
                self._rows[episode_id] = kept
        self._finished = self._finishes
        for queued in group:
            queued.settle()

    def _fold(self, row: EpisodeRow | None, write: _Append) -> EpisodeRow:
        row = row or self._rows.get(write.episode_id)
        if row is not None:
            row = fold(row, row.number, write.episode_id, write.record)
        else:
            row = fold(None, self._numbers + 1, write.episode_id, write.record)
            self._numbers += 1
            row = self._roll.enrolled(row)
        if isinstance(write.record, Closed) and row.finished is None:
            self._finishes += 1
            row = msgspec.structs.replace(row, finished=self._finishes)
        return row

    async def _write(
        self, records: Sequence[tuple[bytes, EpisodeRow]], statements: Sequence[_Statement]
    ) -> None:
        try:
            if records:
                # the generator runs in the connection's thread: compression is off the event loop
                await self._connection.executemany(APPEND, self._packed(records))
            for statement in statements:
                await self._connection.execute(statement.sql, statement.values)
            await self._connection.commit()
        except BaseException:
            await asyncio.shield(self._connection.rollback())
            raise

    def _packed(self, records: Iterable[tuple[bytes, EpisodeRow]]) -> Iterator[tuple[Any, ...]]:
        for body, row in records:
            if len(body) < COMPRESS_FROM_BYTES:
                packed = PLAIN + body
            else:
                packed = COMPRESSED + self._compressor.compress(body)
            yield (packed, *msgspec.structs.astuple(row))


def _pack(body: bytes) -> bytes:
    if len(body) < COMPRESS_FROM_BYTES:
        return PLAIN + body
    return COMPRESSED + zstandard.ZstdCompressor(level=3).compress(body)


def _unpack(stored: bytes) -> bytes:
    body = stored[1:]
    return zstandard.ZstdDecompressor().decompress(body) if stored[:1] == COMPRESSED else body


async def _prepare(connection: aiosqlite.Connection, path: Path) -> None:
    await connection.execute("PRAGMA journal_mode = WAL")
    await connection.execute("PRAGMA synchronous = FULL")
    version = next(iter(await connection.execute_fetchall("PRAGMA user_version")))[0]
    tables = next(iter(await connection.execute_fetchall("SELECT count(*) FROM sqlite_schema")))[0]
    if version == 0 and tables == 0:
        await connection.executescript(f"BEGIN; {SCHEMA} COMMIT;")
    elif version != FORMAT:
        raise LedgerDamaged(
            f"{path} has ledger format {version}, this hub writes {FORMAT}",
            hint="give another --data-dir, or run the version that wrote it",
        )
