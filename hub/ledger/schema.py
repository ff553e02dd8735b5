"""The ledger's tables, and the statements of its journal.

A step writes nothing but its record. The index row of an episode is written when it is opened,
rewound, scored, parked or closed; between those, its last record says how many steps it has.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from hub.data_dir import ELSEWHERE
from hub.errors import LedgerDamaged

FORMAT = 4

FIELDS = (
    "number",
    "id",
    "environment",
    "task",
    "seed",
    "horizon",
    "status",
    "steps",
    "reward",
    "outcome",
    "updated_ms",
    "grp",
    "enrolment",
    "finished",
    "tenant",
)
"""The index's columns, in the order of an ``EpisodeRow``'s fields."""
SET_ONCE = ("number", "id", "environment", "grp", "enrolment", "tenant")

COLUMNS = ", ".join(FIELDS)
_CHANGED = ", ".join(f"{name} = excluded.{name}" for name in FIELDS if name not in SET_ONCE)

_BY_TENANT = """
CREATE INDEX episodes_by_tenant ON episodes (tenant, number);
CREATE INDEX episodes_by_tenant_and_finish ON episodes (tenant, finished)
    WHERE finished IS NOT NULL;
"""
_NAMED = """
CREATE TABLE seats (
    tenant TEXT NOT NULL,
    environment TEXT NOT NULL,
    key TEXT NOT NULL,
    episode TEXT NOT NULL,
    PRIMARY KEY (tenant, environment, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE documents (
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (kind, id, tenant)
) STRICT;
CREATE INDEX documents_by_tenant ON documents (kind, tenant, id);
"""
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
    outcome TEXT,
    updated_ms INTEGER NOT NULL,
    grp TEXT,
    enrolment BLOB,
    finished INTEGER,
    tenant TEXT NOT NULL DEFAULT 'local'
) STRICT;
CREATE INDEX episodes_by_status ON episodes (status, number);
CREATE INDEX episodes_by_group ON episodes (grp, number) WHERE grp IS NOT NULL;
CREATE UNIQUE INDEX episodes_by_finish ON episodes (finished) WHERE finished IS NOT NULL;
{_BY_TENANT}
CREATE TABLE records (
    position INTEGER PRIMARY KEY,
    episode INTEGER NOT NULL,
    steps INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE INDEX records_by_episode ON records (episode, position);
{_NAMED}
PRAGMA user_version = {FORMAT};
"""

UPGRADES = {
    3: f"""
ALTER TABLE episodes ADD COLUMN tenant TEXT NOT NULL DEFAULT 'local';
{_BY_TENANT}
ALTER TABLE seats RENAME TO seats_3;
ALTER TABLE documents RENAME TO documents_3;
{_NAMED}
INSERT INTO seats SELECT 'local', environment, key, episode FROM seats_3;
INSERT INTO documents
    SELECT kind, id, iif(kind IN ('trajectory', 'transcript'), '', 'local'), body FROM documents_3;
DROP TABLE seats_3;
DROP TABLE documents_3;
PRAGMA user_version = 4;
"""
}
"""What makes a ledger of an older format one of the next. What there was before tenants is that of
the hub's owner."""

SELECT = f"SELECT {COLUMNS} FROM episodes"
_OF_LAST = {"steps": "last.steps", "updated_ms": "max(episodes.updated_ms, last.updated_ms)"}
LIVE = f"""
SELECT {", ".join(_OF_LAST.get(name, name) for name in FIELDS)}
FROM episodes, records AS last
WHERE status NOT IN ('closed', 'parked')
    AND last.position = (SELECT max(position) FROM records WHERE episode = number)
ORDER BY number
"""
# many records in one statement: each statement, and each row of an executemany, lets go of the
# interpreter and has to wait for the event loop to get it back
APPEND = """
INSERT INTO records (episode, steps, updated_ms, body)
SELECT value ->> 0, value ->> 1, value ->> 2, substr(?1, value ->> 3, value ->> 4)
FROM json_each(?2)
"""
PUT_ROW = f"""
INSERT INTO episodes ({COLUMNS}) VALUES (?{", ?" * (len(FIELDS) - 1)})
ON CONFLICT (number) DO UPDATE SET {_CHANGED}
"""
DOCUMENT = "INSERT OR REPLACE INTO documents (kind, id, tenant, body) VALUES (?, ?, ?, ?)"


def require_begun(path: Path) -> None:
    """Raise ``LedgerDamaged`` for a file that is there and empty: no ledger is, once it is made."""
    if path.is_file() and not path.stat().st_size:
        raise LedgerDamaged(
            f"the ledger {path} is an empty file: something cut it short, or ended its first hub"
            " before that had written to it",
            hint="put a copy of it back, or delete it to begin anew",
        )


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables, or bring them up to date. Raises ``LedgerDamaged`` for another format."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if version == 0 and tables == 0:
        connection.executescript(f"BEGIN; {SCHEMA} COMMIT;")
        return
    while version in UPGRADES:
        connection.executescript(f"BEGIN IMMEDIATE; {UPGRADES[version]} COMMIT;")
        version += 1
    if version != FORMAT:
        raise LedgerDamaged(
            f"{path} has ledger format {version}, this hub writes {FORMAT}",
            hint=f"{ELSEWHERE}, or run the version that wrote it",
        )
