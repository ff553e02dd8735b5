-- Lending desk of a tool library. Amounts are euro cents; dates and times are UTC.

CREATE TABLE members (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    email TEXT NOT NULL UNIQUE,
    joined_on TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('active', 'suspended'))
);

CREATE TABLE categories (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    loan_days INTEGER NOT NULL CHECK (loan_days > 0)
);

CREATE TABLE items (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    category_id TEXT NOT NULL REFERENCES categories (id),
    shelf TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('available', 'on_loan', 'in_repair', 'retired'))
);

CREATE TABLE loans (
    id TEXT NOT NULL PRIMARY KEY,
    item_id TEXT NOT NULL REFERENCES items (id),
    member_id TEXT NOT NULL REFERENCES members (id),
    lent_at TEXT NOT NULL,
    due_on TEXT NOT NULL,
    returned_at TEXT,
    note TEXT NOT NULL DEFAULT ''
);
CREATE INDEX loans_by_member ON loans (member_id);

CREATE TABLE reservations (
    id TEXT NOT NULL PRIMARY KEY,
    item_id TEXT NOT NULL REFERENCES items (id),
    member_id TEXT NOT NULL REFERENCES members (id),
    created_at TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('waiting', 'fulfilled', 'cancelled'))
);

CREATE TABLE repairs (
    id TEXT NOT NULL PRIMARY KEY,
    item_id TEXT NOT NULL REFERENCES items (id),
    fault TEXT NOT NULL,
    reported_at TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('open', 'done')),
    cost_cents INTEGER NOT NULL DEFAULT 0 CHECK (cost_cents >= 0)
);

CREATE TABLE payments (
    id TEXT NOT NULL PRIMARY KEY,
    member_id TEXT NOT NULL REFERENCES members (id),
    kind TEXT NOT NULL CHECK (kind IN ('late_fee', 'paid')),
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    loan_id TEXT REFERENCES loans (id),
    at TEXT NOT NULL
);
