"""The ledger's tables, and the statements of its journal."""

from __future__ import annotations

FORMAT = 2

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
)
"""The index's columns, in the order of an ``EpisodeRow``'s fields."""
SET_ONCE = ("number", "id", "environment", "grp", "enrolment")

COLUMNS = ", ".join(FIELDS)
_NEW = ", ".join(f"new.{name}" for name in FIELDS)
_CHANGED = ", ".join(f"{name} = excluded.{name}" for name in FIELDS if name not in SET_ONCE)

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
    finished INTEGER
) STRICT;
CREATE INDEX episodes_by_status ON episodes (status, number);
CREATE INDEX episodes_by_group ON episodes (grp, number) WHERE grp IS NOT NULL;
CREATE UNIQUE INDEX episodes_by_finish ON episodes (finished) WHERE finished IS NOT NULL;
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
CREATE TABLE documents (
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (kind, id)
) STRICT;
-- a record and the index row after it, in one statement: every statement of a group is a trip
-- to the connection's thread and back
CREATE VIEW journal AS SELECT NULL AS body, {COLUMNS} FROM episodes;
CREATE TRIGGER journal_append INSTEAD OF INSERT ON journal BEGIN
    INSERT INTO records (episode, body) VALUES (new.number, new.body);
    INSERT INTO episodes ({COLUMNS}) VALUES ({_NEW})
    ON CONFLICT (number) DO UPDATE SET {_CHANGED};
END;
PRAGMA user_version = {FORMAT};
"""

SELECT = f"SELECT {COLUMNS} FROM episodes"
APPEND = f"INSERT INTO journal (body, {COLUMNS}) VALUES (?{', ?' * len(FIELDS)})"
DOCUMENT = "INSERT OR REPLACE INTO documents (kind, id, body) VALUES (?, ?, ?)"
