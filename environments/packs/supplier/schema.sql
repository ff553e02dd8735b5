-- What suppliers show to their customer Helmsand Messtechnik GmbH. Amounts are net euro cents, times
-- are UTC text.

CREATE TABLE articles (
    item_id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL
);

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
    item_id TEXT NOT NULL REFERENCES articles (item_id),
    price_cents INTEGER NOT NULL CHECK (price_cents > 0),
    available INTEGER NOT NULL CHECK (available >= 0),
    lead_days INTEGER NOT NULL CHECK (lead_days > 0),
    minimum_quantity INTEGER NOT NULL DEFAULT 1 CHECK (minimum_quantity > 0),
    pack_size INTEGER NOT NULL DEFAULT 1 CHECK (pack_size > 0),
    PRIMARY KEY (supplier_id, item_id)
);
CREATE INDEX offers_by_item ON offers (item_id);

CREATE TABLE orders (
    id TEXT NOT NULL PRIMARY KEY,
    supplier_id TEXT NOT NULL REFERENCES suppliers (id),
    deliver_to TEXT NOT NULL CHECK (deliver_to IN ('HAM', 'BRE', 'MUC')),
    buyer_reference TEXT NOT NULL DEFAULT '',
    status TEXT NOT NULL CHECK (status IN ('ordered', 'shipped', 'delivered', 'cancelled')),
    goods_cents INTEGER NOT NULL CHECK (goods_cents > 0),
    shipping_cents INTEGER NOT NULL CHECK (shipping_cents >= 0),
    total_cents INTEGER NOT NULL,
    expected_on TEXT,
    ordered_at TEXT NOT NULL,
    cancel_reason TEXT,
    CHECK (total_cents = goods_cents + shipping_cents)
);
CREATE INDEX orders_by_supplier ON orders (supplier_id);

CREATE TABLE order_lines (
    order_id TEXT NOT NULL REFERENCES orders (id),
    line_no INTEGER NOT NULL CHECK (line_no > 0),
    item_id TEXT NOT NULL REFERENCES articles (item_id),
    quantity INTEGER NOT NULL CHECK (quantity > 0),
    unit_price_cents INTEGER NOT NULL CHECK (unit_price_cents > 0),
    returned INTEGER NOT NULL DEFAULT 0 CHECK (returned BETWEEN 0 AND quantity),
    PRIMARY KEY (order_id, line_no)
);
CREATE INDEX lines_by_item ON order_lines (item_id);

CREATE TABLE shipments (
    tracking TEXT NOT NULL PRIMARY KEY,
    order_id TEXT NOT NULL REFERENCES orders (id),
    carrier TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('in_transit', 'delivered')),
    eta TEXT NOT NULL,
    delivered_at TEXT
);
CREATE INDEX shipments_by_order ON shipments (order_id);

CREATE TABLE returns (
    id TEXT NOT NULL PRIMARY KEY,
    order_id TEXT NOT NULL,
    line_no INTEGER NOT NULL,
    quantity INTEGER NOT NULL CHECK (quantity > 0),
    reason TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('announced', 'credited')),
    created_at TEXT NOT NULL,
    FOREIGN KEY (order_id, line_no) REFERENCES order_lines (order_id, line_no)
);
