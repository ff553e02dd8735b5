-- Store management of Helmsand Messtechnik GmbH. Times are UTC text. Orders and cost centres are kept
-- in other systems and known here only by reference.

CREATE TABLE categories (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
);

CREATE TABLE warehouses (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    city TEXT NOT NULL
);

CREATE TABLE employees (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    email TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL,
    cost_centre_id TEXT NOT NULL,
    warehouse_id TEXT NOT NULL REFERENCES warehouses (id),
    status TEXT NOT NULL CHECK (status IN ('active', 'left'))
);

CREATE TABLE items (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    category_id TEXT NOT NULL REFERENCES categories (id),
    manufacturer TEXT NOT NULL,
    unit TEXT NOT NULL,
    description TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('active', 'discontinued')),
    replaced_by TEXT REFERENCES items (id)
);
CREATE INDEX items_by_category ON items (category_id);

CREATE TABLE stock (
    item_id TEXT NOT NULL REFERENCES items (id),
    warehouse_id TEXT NOT NULL REFERENCES warehouses (id),
    on_hand INTEGER NOT NULL CHECK (on_hand >= 0),
    reserved INTEGER NOT NULL DEFAULT 0 CHECK (reserved >= 0 AND reserved <= on_hand),
    reorder_point INTEGER NOT NULL DEFAULT 0 CHECK (reorder_point >= 0),
    PRIMARY KEY (item_id, warehouse_id)
);

-- What colleagues ask the stores for.
CREATE TABLE requests (
    id TEXT NOT NULL PRIMARY KEY,
    item_id TEXT NOT NULL REFERENCES items (id),
    quantity INTEGER NOT NULL CHECK (quantity > 0),
    requester_id TEXT NOT NULL REFERENCES employees (id),
    cost_centre_id TEXT NOT NULL,
    deliver_to TEXT NOT NULL REFERENCES warehouses (id),
    need_by TEXT NOT NULL,
    justification TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('open', 'ordered', 'fulfilled', 'rejected')),
    outcome TEXT NOT NULL DEFAULT '',
    created_at TEXT NOT NULL
);
CREATE INDEX requests_by_status ON requests (status);

CREATE TABLE receipts (
    id TEXT NOT NULL PRIMARY KEY,
    order_reference TEXT NOT NULL,
    item_id TEXT NOT NULL REFERENCES items (id),
    warehouse_id TEXT NOT NULL REFERENCES warehouses (id),
    quantity INTEGER NOT NULL CHECK (quantity > 0),
    delivery_note TEXT NOT NULL,
    received_at TEXT NOT NULL
);
CREATE INDEX receipts_by_order ON receipts (order_reference);

-- Every change of stock since the stocktake of 5 January; their sum is what is on hand.
CREATE TABLE stock_movements (
    id TEXT NOT NULL PRIMARY KEY,
    item_id TEXT NOT NULL REFERENCES items (id),
    warehouse_id TEXT NOT NULL REFERENCES warehouses (id),
    quantity INTEGER NOT NULL CHECK (quantity <> 0),
    kind TEXT NOT NULL CHECK (kind IN ('count', 'receipt', 'issue', 'transfer', 'return')),
    reference TEXT,
    employee_id TEXT REFERENCES employees (id),
    note TEXT NOT NULL DEFAULT '',
    moved_at TEXT NOT NULL
);
CREATE INDEX movements_by_item ON stock_movements (item_id, warehouse_id);
