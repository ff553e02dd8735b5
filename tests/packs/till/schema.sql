CREATE TABLE bills (
    id TEXT NOT NULL PRIMARY KEY,
    order_id TEXT NOT NULL,
    amount_cents INTEGER NOT NULL,
    status TEXT NOT NULL DEFAULT 'open',
    billed_at TEXT NOT NULL
);
CREATE TABLE notes (text TEXT NOT NULL);
INSERT INTO bills VALUES ('bill-1', 'order-OLD', 500, 'open', '2026-02-27T10:00:00Z');
INSERT INTO notes VALUES ('The drawer sticks.');
