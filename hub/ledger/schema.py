"""The ledger's tables, and the statements of its journal.

A step writes nothing but its record. The index row of an episode is written when it is opened,
rewound, scored, parked or closed; between those, its last record says how many steps it has.
"""

from __future__ import annotations

FORMAT = 3

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
    steps INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
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
PRAGMA user_version = {FORMAT};
"""

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
DOCUMENT = "INSERT OR REPLACE INTO documents (kind, id, body) VALUES (?, ?, ?)"
