CREATE TABLE members (
  id           TEXT PRIMARY KEY NOT NULL,
  name         TEXT NOT NULL,
  email        TEXT NOT NULL UNIQUE,
  blocked      INTEGER NOT NULL DEFAULT 0 CHECK (blocked IN (0, 1)),
  last_seen_at TEXT
);

CREATE TABLE books (
  id     TEXT PRIMARY KEY NOT NULL,
  title  TEXT NOT NULL,
  author TEXT NOT NULL,
  year   INTEGER NOT NULL,
  copies INTEGER NOT NULL CHECK (copies >= 0)
);

CREATE TABLE loans (
  id          TEXT PRIMARY KEY NOT NULL,
  member_id   TEXT NOT NULL REFERENCES members(id),
  book_id     TEXT NOT NULL REFERENCES books(id),
  lent_at     TEXT NOT NULL,
  due_on      TEXT NOT NULL,
  returned_at TEXT
);

CREATE INDEX loans_by_member ON loans(member_id);
CREATE INDEX loans_by_book ON loans(book_id);
