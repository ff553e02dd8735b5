CREATE TABLE members (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    email TEXT NOT NULL UNIQUE,
    joined_on TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('active', 'suspended'))
);

CREATE TABLE payments (
    member_id TEXT NOT NULL REFERENCES members (id),
    amount_cents INTEGER NOT NULL,
    kind TEXT NOT NULL,
    at TEXT NOT NULL
);
