"""The record of every episode: append-only, on disk before a call is answered.

One writer task drains what has queued up meanwhile into one transaction, so that many episodes
share one fsync. A commit that fails fails every append in it; nothing is acknowledged that is not
on disk.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiosqlite
import msgspec
import zstandard

from environments.journal import JournalRecord, Opened
from hub.errors import LedgerDamaged, LedgerFailed
from hub.ledger.index import EpisodeRow, fold

FORMAT = 1
MAX_GROUP = 1024
COMPRESS_FROM_BYTES = 512
PLAIN, COMPRESSED = b"\0", b"\1"
LINGER_SECONDS = 0.001
"""How long a group waits for company, while it is not alone: a commit costs as much for ten."""

COLUMNS = "number, id, environment, task, seed, horizon, status, steps, reward, updated_ms"
SCHEMA = f"""
CREATE TABLE episodes (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    environment TEXT NOT NULL,
    task TEXT,
    seed INTEGER NOT NULL,
    horizon INTEGER NOT NULL,
    status TEXT NOT NULL,
    steps INTEGER NOT NULL,
    reward REAL,
    updated_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX episodes_by_status ON episodes (status, number);
CREATE TABLE records (
    position INTEGER PRIMARY KEY,
    episode INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE INDEX records_by_episode ON records (episode, position);
CREATE TABLE seats (
    environment TEXT NOT NULL,
    key TEXT NOT NULL,
    episode TEXT NOT NULL,
    PRIMARY KEY (environment, key)
) STRICT, WITHOUT ROWID;
-- a record and the index row after it, in one statement: every statement of a group is a trip
-- to the connection's thread and back
CREATE VIEW journal AS SELECT NULL AS body, {COLUMNS} FROM episodes;
CREATE TRIGGER journal_append INSTEAD OF INSERT ON journal BEGIN
    INSERT INTO records (episode, body) VALUES (new.number, new.body);
    INSERT INTO episodes ({COLUMNS})
    VALUES (
        new.number, new.id, new.environment, new.task, new.seed, new.horizon, new.status,
        new.steps, new.reward, new.updated_ms
    )
    ON CONFLICT (number) DO UPDATE SET
        task = excluded.task, seed = excluded.seed, horizon = excluded.horizon,
        status = excluded.status, steps = excluded.steps, reward = excluded.reward,
        updated_ms = excluded.updated_ms;
END;
PRAGMA user_version = {FORMAT};
"""
APPEND = f"INSERT INTO journal (body, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


class _Append(msgspec.Struct):
    episode_id: str
    record: JournalRecord
    body: bytes
    done: asyncio.Future[None]


class Ledger:
    """Records on disk: ``async with Ledger.open(path)``. Closing writes what is queued."""

    keeps_pages = True

    def __init__(self, connection: aiosqlite.Connection, live: Iterable[EpisodeRow]) -> None:
        self._connection = connection
        self._rows = {row.id: row for row in live}
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(JournalRecord)
        self._compressor = zstandard.ZstdCompressor(level=1)
        self._queue: list[_Append] = []
        self._wake = asyncio.Event()
        self._closing = False
        self._numbers = 0
        # one connection, so other statements must not join a group's transaction
        self._transaction = asyncio.Lock()

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path, *, busy_seconds: float = 5.0) -> AsyncIterator[Ledger]:
        """Open or make the ledger at ``path``. Raises ``LedgerDamaged`` if it is none of ours."""
        try:
            async with aiosqlite.connect(path, timeout=busy_seconds) as connection:
                await _prepare(connection, path)
                live = await connection.execute_fetchall(
                    f"SELECT {COLUMNS} FROM episodes WHERE status <> 'closed'"
                )
                ledger = cls(connection, (EpisodeRow(*row) for row in live))
                numbers = await connection.execute_fetchall("SELECT max(number) FROM episodes")
                ledger._numbers = next(iter(numbers))[0] or 0
                writer = asyncio.create_task(ledger._write(), name="ledger-writer")
                try:
                    yield ledger
                finally:
                    ledger._closing = True
                    ledger._wake.set()
                    await writer
        except sqlite3.DatabaseError as error:
            raise LedgerDamaged(f"cannot open the ledger {path}: {error}") from error

    @property
    def live(self) -> int:
        """How many episodes are not closed, resumed since the start or not."""
        return len(self._rows)

    async def append(self, episode_id: str, record: JournalRecord) -> None:
        """Durable when it returns. Raises ``LedgerFailed``, and then nothing was recorded."""
        if self._closing:
            raise LedgerFailed("the ledger is closing", hint="the hub is shutting down; retry")
        if episode_id not in self._rows and not isinstance(record, Opened):
            await self._recall(episode_id)
        done = asyncio.get_running_loop().create_future()
        self._queue.append(_Append(episode_id, record, self._encoder.encode(record), done))
        self._wake.set()
        try:
            await asyncio.shield(done)
        except asyncio.CancelledError:
            # the record is on its way to the disk: the episode must learn what became of it, or
            # memory and ledger part ways. The cancellation is delivered at the next await.
            await _outcome(done)
            if task := asyncio.current_task():
                task.uncancel()
                task.cancel()

    async def _recall(self, episode_id: str) -> None:
        """Take up the row of a closed episode again: it may still be scored."""
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
        found = await self._fetch(f"SELECT {COLUMNS} FROM episodes WHERE id = ?", (episode_id,))
        return EpisodeRow(*found[0]) if found else None

    async def rows(
        self, *, environment: str = "", status: str = "", after: int = 0, limit: int = 100
    ) -> list[EpisodeRow]:
        """Index rows with a number above ``after``, in the order they were opened."""
        found = await self._fetch(
            f"SELECT {COLUMNS} FROM episodes WHERE number > :after "
            "AND (:environment = '' OR environment = :environment) "
            "AND (:status = '' OR status = :status) ORDER BY number LIMIT :limit",
            {"after": after, "environment": environment, "status": status, "limit": limit},
        )
        return [EpisodeRow(*row) for row in found]

    async def seat(self, environment: str, key: str) -> str | None:
        """The id of the episode that sits there."""
        found = await self._fetch(
            "SELECT episode FROM seats WHERE environment = ? AND key = ?", (environment, key)
        )
        return found[0][0] if found else None

    async def keep_seat(self, environment: str, key: str, episode_id: str) -> None:
        """Give the seat to an episode, durably. Raises ``LedgerFailed``."""
        async with self._transaction:
            try:
                await self._connection.execute(
                    "INSERT OR REPLACE INTO seats VALUES (?, ?, ?)", (environment, key, episode_id)
                )
                await self._connection.commit()
            except sqlite3.Error as error:
                await self._connection.rollback()
                raise LedgerFailed(f"the seat could not be recorded: {error}") from error

    async def _fetch(self, sql: str, values: object) -> Sequence[sqlite3.Row]:
        return list(await self._connection.execute_fetchall(sql, values))

    # --- the writer --------------------------------------------------------------------------

    async def _write(self) -> None:
        company = False
        while True:
            await self._wake.wait()
            if company and not self._closing:
                await asyncio.sleep(LINGER_SECONDS)
            group, self._queue = self._queue[:MAX_GROUP], self._queue[MAX_GROUP:]
            if not self._queue:
                self._wake.clear()
            company = len(group) > 1
            if group:
                await self._commit(group)
            elif self._closing:
                return
            if self._closing:
                self._wake.set()

    async def _commit(self, group: list[_Append]) -> None:
        rows: dict[str, EpisodeRow] = {}
        accepted: list[tuple[bytes, EpisodeRow]] = []
        for item in group:
            row = rows.get(item.episode_id) or self._rows.get(item.episode_id)
            if row is None:
                self._numbers += 1
            try:
                row = fold(row, self._numbers, item.episode_id, item.record)
            except LedgerFailed as error:
                _settle(item, error)
                continue
            rows[item.episode_id] = row
            accepted.append((item.body, row))
        try:
            async with self._transaction:
                await self._insert(accepted)
        except sqlite3.Error as error:
            for item in group:
                _settle(
                    item,
                    LedgerFailed(
                        f"the ledger could not be written: {error}",
                        hint="nothing of it happened; look at the disk and retry",
                    ),
                )
            return
        for episode_id, row in rows.items():
            if row.status == "closed":
                self._rows.pop(episode_id, None)
            else:
                self._rows[episode_id] = row
        for item in group:
            _settle(item)

    async def _insert(self, records: Iterable[tuple[bytes, EpisodeRow]]) -> None:
        try:
            # the generator runs in the connection's thread: compression is off the event loop
            await self._connection.executemany(APPEND, self._packed(records))
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


async def _outcome(done: asyncio.Future[None]) -> None:
    while not done.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([done])
    done.result()


def _settle(item: _Append, error: LedgerFailed | None = None) -> None:
    if item.done.done():  # refused already, or its caller no longer waits
        return
    if error is None:
        item.done.set_result(None)
    else:
        item.done.set_exception(error)


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
