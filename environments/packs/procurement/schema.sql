-- Procurement desk of Helmsand Messtechnik GmbH. Amounts are net euro cents, times are UTC text.

CREATE TABLE accounts (
    code TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('asset', 'liability', 'expense'))
);

CREATE TABLE categories (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    expense_account TEXT NOT NULL REFERENCES accounts (code),
    capital_account TEXT REFERENCES accounts (code)
);

CREATE TABLE warehouses (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    city TEXT NOT NULL
);

CREATE TABLE cost_centres (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    division TEXT NOT NULL
);

CREATE TABLE employees (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    email TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL,
    cost_centre_id TEXT NOT NULL REFERENCES cost_centres (id),
    warehouse_id TEXT NOT NULL REFERENCES warehouses (id),
    status TEXT NOT NULL CHECK (status IN ('active', 'left')),
    absent_until TEXT
);

-- Who may approve orders of a cost centre, and up to what total.
CREATE TABLE approvers (
    cost_centre_id TEXT NOT NULL REFERENCES cost_centres (id),
    role TEXT NOT NULL CHECK (role IN ('manager', 'deputy', 'director')),
    employee_id TEXT NOT NULL REFERENCES employees (id),
    limit_cents INTEGER NOT NULL CHECK (limit_cents > 0),
    PRIMARY KEY (cost_centre_id, role)
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

CREATE TABLE suppliers (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    status TEXT NOT NULL CHECK (status IN ('active', 'blocked')),
    status_note TEXT NOT NULL DEFAULT '',
    city TEXT NOT NULL,
    country TEXT NOT NULL,
    contact_email TEXT NOT NULL,
    rating REAL NOT NULL CHECK (rating BETWEEN 1 AND 5),
    payment_days INTEGER NOT NULL CHECK (payment_days >= 0),
    minimum_order_cents INTEGER NOT NULL DEFAULT 0 CHECK (minimum_order_cents >= 0),
    shipping_cents INTEGER NOT NULL CHECK (shipping_cents >= 0),
    free_shipping_from_cents INTEGER CHECK (free_shipping_from_cents >= 0),
    portal TEXT NOT NULL DEFAULT 'up' CHECK (portal IN ('up', 'down')),
    portal_back_at TEXT,
    portal_notice TEXT NOT NULL DEFAULT '',
    CHECK ((portal = 'down') = (portal_back_at IS NOT NULL))
);

CREATE TABLE offers (
    supplier_id TEXT NOT NULL REFERENCES suppliers (id),
    item_id TEXT NOT NULL REFERENCES items (id),
    price_cents INTEGER NOT NULL CHECK (price_cents > 0),
    available INTEGER NOT NULL CHECK (available >= 0),
    lead_days INTEGER NOT NULL CHECK (lead_days > 0),
    minimum_quantity INTEGER NOT NULL DEFAULT 1 CHECK (minimum_quantity > 0),
    pack_size INTEGER NOT NULL DEFAULT 1 CHECK (pack_size > 0),
    PRIMARY KEY (supplier_id, item_id)
);
CREATE INDEX offers_by_item ON offers (item_id);

CREATE TABLE requisitions (
    id TEXT NOT NULL PRIMARY KEY,
    item_id TEXT NOT NULL REFERENCES items (id),
    quantity INTEGER NOT NULL CHECK (quantity > 0),
    requester_id TEXT NOT NULL REFERENCES employees (id),
    cost_centre_id TEXT NOT NULL REFERENCES cost_centres (id),
    deliver_to TEXT NOT NULL REFERENCES warehouses (id),
    need_by TEXT NOT NULL,
    justification TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('open', 'ordered', 'fulfilled', 'rejected')),
    decision_note TEXT NOT NULL DEFAULT '',
    created_at TEXT NOT NULL
);
CREATE INDEX requisitions_by_status ON requisitions (status);

CREATE TABLE purchase_orders (
    id TEXT NOT NULL PRIMARY KEY,
    supplier_id TEXT NOT NULL REFERENCES suppliers (id),
    cost_centre_id TEXT NOT NULL REFERENCES cost_centres (id),
    deliver_to TEXT NOT NULL REFERENCES warehouses (id),
    requisition_id TEXT REFERENCES requisitions (id),
    status TEXT NOT NULL CHECK (status IN
        ('draft', 'ordered', 'partially_received', 'received', 'invoiced', 'cancelled')),
    goods_cents INTEGER NOT NULL CHECK (goods_cents > 0),
    shipping_cents INTEGER NOT NULL CHECK (shipping_cents >= 0),
    total_cents INTEGER NOT NULL,
    expected_on TEXT,
    created_at TEXT NOT NULL,
    ordered_at TEXT,
    cancel_reason TEXT,
    CHECK (total_cents = goods_cents + shipping_cents),
    CHECK (status IN ('draft', 'cancelled') OR ordered_at IS NOT NULL)
);
CREATE INDEX orders_by_supplier ON purchase_orders (supplier_id);
CREATE INDEX orders_by_cost_centre ON purchase_orders (cost_centre_id);

CREATE TABLE purchase_order_lines (
    order_id TEXT NOT NULL REFERENCES purchase_orders (id),
    line_no INTEGER NOT NULL CHECK (line_no > 0),
    item_id TEXT NOT NULL REFERENCES items (id),
    quantity INTEGER NOT NULL CHECK (quantity > 0),
    unit_price_cents INTEGER NOT NULL CHECK (unit_price_cents > 0),
    received INTEGER NOT NULL DEFAULT 0 CHECK (received BETWEEN 0 AND quantity),
    returned INTEGER NOT NULL DEFAULT 0 CHECK (returned BETWEEN 0 AND received),
    PRIMARY KEY (order_id, line_no)
);
CREATE INDEX lines_by_item ON purchase_order_lines (item_id);

CREATE TABLE approvals (
    id TEXT NOT NULL PRIMARY KEY,
    order_id TEXT NOT NULL REFERENCES purchase_orders (id),
    approver_id TEXT NOT NULL REFERENCES employees (id),
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    status TEXT NOT NULL CHECK (status IN ('requested', 'approved', 'rejected')),
    requested_at TEXT NOT NULL,
    decided_at TEXT
);
CREATE INDEX approvals_by_order ON approvals (order_id);

CREATE TABLE shipments (
    tracking TEXT NOT NULL PRIMARY KEY,
    order_id TEXT NOT NULL REFERENCES purchase_orders (id),
    carrier TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('in_transit', 'delivered')),
    eta TEXT NOT NULL,
    delivered_at TEXT
);
CREATE INDEX shipments_by_order ON shipments (order_id);

CREATE TABLE goods_receipts (
    id TEXT NOT NULL PRIMARY KEY,
    order_id TEXT NOT NULL,
    line_no INTEGER NOT NULL,
    quantity INTEGER NOT NULL CHECK (quantity > 0),
    delivery_note TEXT NOT NULL,
    received_at TEXT NOT NULL,
    FOREIGN KEY (order_id, line_no) REFERENCES purchase_order_lines (order_id, line_no)
);
CREATE INDEX receipts_by_order ON goods_receipts (order_id);

CREATE TABLE returns (
    id TEXT NOT NULL PRIMARY KEY,
    order_id TEXT NOT NULL,
    line_no INTEGER NOT NULL,
    quantity INTEGER NOT NULL CHECK (quantity > 0),
    reason TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('announced', 'credited')),
    created_at TEXT NOT NULL,
    FOREIGN KEY (order_id, line_no) REFERENCES purchase_order_lines (order_id, line_no)
);

CREATE TABLE commitments (
    id TEXT NOT NULL PRIMARY KEY,
    order_id TEXT NOT NULL REFERENCES purchase_orders (id),
    line_no INTEGER,
    cost_centre_id TEXT NOT NULL REFERENCES cost_centres (id),
    account_code TEXT NOT NULL REFERENCES accounts (code),
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    status TEXT NOT NULL CHECK (status IN ('open', 'released')),
    booked_at TEXT NOT NULL
);
CREATE INDEX commitments_by_order ON commitments (order_id);

CREATE TABLE invoices (
    id TEXT NOT NULL PRIMARY KEY,
    supplier_id TEXT NOT NULL REFERENCES suppliers (id),
    supplier_reference TEXT NOT NULL,
    order_id TEXT REFERENCES purchase_orders (id),
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
CREATE INDEX invoices_by_supplier ON invoices (supplier_id);
CREATE INDEX invoices_by_order ON invoices (order_id);

CREATE TABLE invoice_lines (
    invoice_id TEXT NOT NULL REFERENCES invoices (id),
    line_no INTEGER NOT NULL,
    item_id TEXT NOT NULL REFERENCES items (id),
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

-- What counts against a budget before its invoice is booked: commitments that are open, and
-- orders that were placed but not yet booked as commitments.
CREATE VIEW encumbrances AS
SELECT o.cost_centre_id, o.ordered_at, c.amount_cents
FROM commitments c JOIN purchase_orders o ON o.id = c.order_id
WHERE c.status = 'open'
UNION ALL
SELECT o.cost_centre_id, o.ordered_at, o.total_cents
FROM purchase_orders o
WHERE o.status IN ('ordered', 'partially_received', 'received')
  AND NOT EXISTS (SELECT 1 FROM commitments c WHERE c.order_id = o.id);

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
        coalesce((SELECT sum(n.amount_cents) FROM encumbrances n
            WHERE n.cost_centre_id = b.cost_centre_id
              AND substr(n.ordered_at, 1, 4) || '-Q' || ((substr(n.ordered_at, 6, 2) + 2) / 3)
                  = b.period), 0) AS committed_cents
    FROM budgets b
)
SELECT cost_centre_id, period, budget_cents, transferred_cents, spent_cents, committed_cents,
    budget_cents + transferred_cents - spent_cents - committed_cents AS available_cents
FROM parts;
