-- The books of Helmsand Messtechnik GmbH. Amounts are net euro cents, times are UTC text. Orders are
-- kept elsewhere and known here only by reference.

CREATE TABLE accounts (
    code TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('asset', 'liability', 'expense'))
);

-- Which accounts goods of a category are charged to.
CREATE TABLE posting_rules (
    category TEXT NOT NULL PRIMARY KEY,
    expense_account TEXT NOT NULL REFERENCES accounts (code),
    capital_account TEXT REFERENCES accounts (code)
);

CREATE TABLE cost_centres (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    division TEXT NOT NULL
);

CREATE TABLE budgets (
    cost_centre_id TEXT NOT NULL REFERENCES cost_centres (id),
    period TEXT NOT NULL CHECK (period GLOB '20[0-9][0-9]-Q[1-4]'),
    amount_cents INTEGER NOT NULL CHECK (amount_cents >= 0),
    PRIMARY KEY (cost_centre_id, period)
);

CREATE TABLE budget_transfers (
    id TEXT NOT NULL PRIMARY KEY,
    period TEXT NOT NULL,
    from_cost_centre_id TEXT NOT NULL,
    to_cost_centre_id TEXT NOT NULL,
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    reason TEXT NOT NULL,
    made_at TEXT NOT NULL,
    FOREIGN KEY (from_cost_centre_id, period) REFERENCES budgets (cost_centre_id, period),
    FOREIGN KEY (to_cost_centre_id, period) REFERENCES budgets (cost_centre_id, period),
    CHECK (from_cost_centre_id <> to_cost_centre_id)
);

CREATE TABLE commitments (
    id TEXT NOT NULL PRIMARY KEY,
    order_reference TEXT NOT NULL,
    cost_centre_id TEXT NOT NULL REFERENCES cost_centres (id),
    account_code TEXT NOT NULL REFERENCES accounts (code),
    text TEXT NOT NULL,
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    status TEXT NOT NULL CHECK (status IN ('open', 'released')),
    booked_at TEXT NOT NULL
);
CREATE INDEX commitments_by_order ON commitments (order_reference);

CREATE TABLE invoices (
    id TEXT NOT NULL PRIMARY KEY,
    supplier TEXT NOT NULL,
    supplier_reference TEXT NOT NULL,
    order_reference TEXT,
    shipping_cents INTEGER NOT NULL CHECK (shipping_cents >= 0),
    total_cents INTEGER NOT NULL CHECK (total_cents > 0),
    invoice_date TEXT NOT NULL,
    due_on TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('received', 'booked', 'paid', 'disputed')),
    dispute_reason TEXT CHECK (dispute_reason IN
        ('price', 'quantity', 'duplicate', 'not_ordered', 'damaged')),
    dispute_note TEXT NOT NULL DEFAULT '',
    CHECK ((status = 'disputed') = (dispute_reason IS NOT NULL))
);
CREATE INDEX invoices_by_order ON invoices (order_reference);

CREATE TABLE invoice_lines (
    invoice_id TEXT NOT NULL REFERENCES invoices (id),
    line_no INTEGER NOT NULL,
    item_id TEXT NOT NULL,
    text TEXT NOT NULL,
    quantity INTEGER NOT NULL CHECK (quantity > 0),
    unit_price_cents INTEGER NOT NULL CHECK (unit_price_cents > 0),
    PRIMARY KEY (invoice_id, line_no)
);

CREATE TABLE journal_entries (
    id TEXT NOT NULL PRIMARY KEY,
    period TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('invoice', 'payment', 'manual')),
    reference TEXT,
    text TEXT NOT NULL,
    posted_at TEXT NOT NULL
);
CREATE INDEX entries_by_reference ON journal_entries (reference);

CREATE TABLE journal_lines (
    entry_id TEXT NOT NULL REFERENCES journal_entries (id),
    line_no INTEGER NOT NULL,
    account_code TEXT NOT NULL REFERENCES accounts (code),
    cost_centre_id TEXT REFERENCES cost_centres (id),
    debit_cents INTEGER NOT NULL DEFAULT 0 CHECK (debit_cents >= 0),
    credit_cents INTEGER NOT NULL DEFAULT 0 CHECK (credit_cents >= 0),
    PRIMARY KEY (entry_id, line_no),
    CHECK ((debit_cents = 0) <> (credit_cents = 0))
);
CREATE INDEX journal_lines_by_cost_centre ON journal_lines (cost_centre_id);

CREATE VIEW budget_positions AS
WITH parts AS (
    SELECT b.cost_centre_id, b.period, b.amount_cents AS budget_cents,
        coalesce((SELECT sum(amount_cents) FROM budget_transfers t
            WHERE t.to_cost_centre_id = b.cost_centre_id AND t.period = b.period), 0)
        - coalesce((SELECT sum(amount_cents) FROM budget_transfers t
            WHERE t.from_cost_centre_id = b.cost_centre_id AND t.period = b.period), 0)
            AS transferred_cents,
        coalesce((SELECT sum(l.debit_cents - l.credit_cents)
            FROM journal_lines l JOIN journal_entries e ON e.id = l.entry_id
            WHERE l.cost_centre_id = b.cost_centre_id AND e.period = b.period), 0)
            AS spent_cents,
        coalesce((SELECT sum(c.amount_cents) FROM commitments c
            WHERE c.cost_centre_id = b.cost_centre_id AND c.status = 'open'
              AND substr(c.booked_at, 1, 4) || '-Q' || ((substr(c.booked_at, 6, 2) + 2) / 3)
                  = b.period), 0) AS committed_cents
    FROM budgets b
)
SELECT cost_centre_id, period, budget_cents, transferred_cents, spent_cents, committed_cents,
    budget_cents + transferred_cents - spent_cents - committed_cents AS available_cents
FROM parts;
