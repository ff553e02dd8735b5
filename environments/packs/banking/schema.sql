-- Money is integer euro cents. Every movement is one row of transactions with entries that sum to
-- zero; the trigger at the end keeps accounts.balance_cents equal to the sum of its entries.

CREATE TABLE products (
    product_code TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL CHECK (kind IN ('current', 'savings')),
    max_overdraft_cents INTEGER NOT NULL DEFAULT 0 CHECK (max_overdraft_cents >= 0),
    quarterly_fee_cents INTEGER NOT NULL DEFAULT 0 CHECK (quarterly_fee_cents >= 0),
    notice_days INTEGER NOT NULL DEFAULT 0 CHECK (notice_days >= 0),
    interest_basis_points INTEGER NOT NULL DEFAULT 0 CHECK (interest_basis_points >= 0)
);

CREATE TABLE customers (
    customer_id TEXT NOT NULL PRIMARY KEY,
    full_name TEXT NOT NULL,
    date_of_birth TEXT NOT NULL,
    email TEXT NOT NULL,
    phone TEXT NOT NULL,
    address_line TEXT NOT NULL,
    city TEXT NOT NULL,
    eircode TEXT NOT NULL,
    tier TEXT NOT NULL DEFAULT 'standard' CHECK (tier IN ('standard', 'premier')),
    daily_payment_limit_cents INTEGER NOT NULL CHECK (daily_payment_limit_cents >= 0),
    customer_since TEXT NOT NULL
);

-- Customers' accounts, and the bank's own ledger accounts (kind 'ledger', no customer).
CREATE TABLE accounts (
    account_id TEXT NOT NULL PRIMARY KEY,
    customer_id TEXT REFERENCES customers (customer_id),
    kind TEXT NOT NULL CHECK (kind IN ('current', 'savings', 'ledger')),
    product_code TEXT REFERENCES products (product_code),
    name TEXT NOT NULL,
    iban TEXT UNIQUE,
    status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'frozen', 'closed')),
    freeze_reason TEXT CHECK (freeze_reason IN ('customer_request', 'fraud_review', 'legal_order')),
    balance_cents INTEGER NOT NULL DEFAULT 0,
    overdraft_limit_cents INTEGER NOT NULL DEFAULT 0 CHECK (overdraft_limit_cents >= 0),
    opened_on TEXT NOT NULL,
    closed_on TEXT,
    CHECK ((kind = 'ledger') = (customer_id IS NULL)),
    CHECK ((kind = 'ledger') = (product_code IS NULL)),
    CHECK ((status = 'frozen') = (freeze_reason IS NOT NULL)),
    CHECK ((status = 'closed') = (closed_on IS NOT NULL)),
    CHECK (status <> 'closed' OR balance_cents = 0),
    CHECK (kind = 'current' OR overdraft_limit_cents = 0)
);
CREATE INDEX accounts_by_customer ON accounts (customer_id);

CREATE TABLE cards (
    card_id TEXT NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (account_id),
    last4 TEXT NOT NULL CHECK (last4 GLOB '[0-9][0-9][0-9][0-9]'),
    status TEXT NOT NULL
        CHECK (status IN ('issued', 'active', 'frozen', 'lost', 'stolen', 'damaged', 'expired')),
    freeze_reason TEXT CHECK (freeze_reason IN ('misplaced', 'customer_request', 'suspected_fraud')),
    issued_on TEXT NOT NULL,
    expires_on TEXT NOT NULL,
    atm_daily_limit_cents INTEGER NOT NULL CHECK (atm_daily_limit_cents >= 0),
    purchase_daily_limit_cents INTEGER NOT NULL CHECK (purchase_daily_limit_cents >= 0),
    online_payments INTEGER NOT NULL DEFAULT 1 CHECK (online_payments IN (0, 1)),
    delivery_address TEXT NOT NULL,
    replaced_by TEXT REFERENCES cards (card_id) DEFERRABLE INITIALLY DEFERRED,
    CHECK ((status = 'frozen') = (freeze_reason IS NOT NULL)),
    CHECK (replaced_by IS NULL OR status IN ('lost', 'stolen', 'damaged', 'expired'))
);
CREATE INDEX cards_by_account ON cards (account_id);

-- Card authorisations not yet settled: they lower what is available, not the balance.
CREATE TABLE holds (
    hold_id TEXT NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (account_id),
    card_id TEXT NOT NULL REFERENCES cards (card_id),
    merchant TEXT NOT NULL,
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    placed_at TEXT NOT NULL,
    expires_on TEXT NOT NULL
);
CREATE INDEX holds_by_account ON holds (account_id);

-- What other banks answer to a verification-of-payee request.
CREATE TABLE payee_directory (
    iban TEXT NOT NULL PRIMARY KEY,
    account_name TEXT NOT NULL,
    bank_name TEXT NOT NULL
);

CREATE TABLE payees (
    payee_id TEXT NOT NULL PRIMARY KEY,
    customer_id TEXT NOT NULL REFERENCES customers (customer_id),
    name TEXT NOT NULL,
    iban TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('verified', 'unverified')),
    name_check TEXT NOT NULL CHECK (name_check IN ('match', 'close_match', 'no_match', 'unavailable')),
    added_at TEXT NOT NULL,
    verified_at TEXT,
    UNIQUE (customer_id, iban),
    CHECK ((status = 'verified') = (verified_at IS NOT NULL))
);

CREATE TABLE standing_orders (
    standing_order_id TEXT NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (account_id),
    payee_id TEXT REFERENCES payees (payee_id),
    to_account_id TEXT REFERENCES accounts (account_id),
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    frequency TEXT NOT NULL CHECK (frequency IN ('weekly', 'monthly', 'quarterly')),
    next_due_on TEXT,
    reference TEXT NOT NULL DEFAULT '',
    status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'paused', 'cancelled')),
    created_on TEXT NOT NULL,
    cancelled_on TEXT,
    CHECK ((payee_id IS NULL) <> (to_account_id IS NULL)),
    CHECK ((status = 'active') = (next_due_on IS NOT NULL)),
    CHECK ((status = 'cancelled') = (cancelled_on IS NOT NULL))
);
CREATE INDEX standing_orders_by_account ON standing_orders (account_id);

CREATE TABLE transactions (
    transaction_id TEXT NOT NULL PRIMARY KEY,
    posted_at TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN (
        'opening', 'credit', 'transfer', 'payment', 'standing_order', 'direct_debit', 'card_purchase',
        'atm', 'fee', 'fee_refund', 'interest', 'dispute_credit', 'dispute_reversal')),
    channel TEXT NOT NULL CHECK (channel IN ('app', 'desk', 'card', 'sepa', 'system')),
    description TEXT NOT NULL,
    reference TEXT NOT NULL DEFAULT '',
    payee_id TEXT REFERENCES payees (payee_id),
    card_id TEXT REFERENCES cards (card_id)
);
CREATE INDEX transactions_by_time ON transactions (posted_at);

CREATE TABLE entries (
    transaction_id TEXT NOT NULL REFERENCES transactions (transaction_id),
    line INTEGER NOT NULL CHECK (line >= 1),
    account_id TEXT NOT NULL REFERENCES accounts (account_id),
    amount_cents INTEGER NOT NULL CHECK (amount_cents <> 0),
    PRIMARY KEY (transaction_id, line)
);
CREATE INDEX entries_by_account ON entries (account_id, transaction_id);

CREATE TABLE fees (
    fee_id TEXT NOT NULL PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES accounts (account_id),
    kind TEXT NOT NULL CHECK (kind IN (
        'maintenance', 'unpaid_item', 'overdraft_surcharge', 'card_replacement', 'stamp_duty')),
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    charged_at TEXT NOT NULL,
    transaction_id TEXT NOT NULL REFERENCES transactions (transaction_id),
    status TEXT NOT NULL DEFAULT 'charged' CHECK (status IN ('charged', 'refunded')),
    refunded_at TEXT,
    refund_transaction_id TEXT REFERENCES transactions (transaction_id),
    CHECK ((status = 'refunded') = (refund_transaction_id IS NOT NULL)),
    CHECK ((refunded_at IS NULL) = (refund_transaction_id IS NULL))
);
CREATE INDEX fees_by_account ON fees (account_id);

CREATE TABLE disputes (
    dispute_id TEXT NOT NULL PRIMARY KEY,
    transaction_id TEXT NOT NULL REFERENCES transactions (transaction_id),
    account_id TEXT NOT NULL REFERENCES accounts (account_id),
    reason TEXT NOT NULL
        CHECK (reason IN ('fraud', 'duplicate', 'not_received', 'not_as_described', 'wrong_amount')),
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'won', 'lost', 'withdrawn')),
    opened_at TEXT NOT NULL,
    resolved_at TEXT,
    credit_transaction_id TEXT REFERENCES transactions (transaction_id),
    CHECK ((status = 'open') = (resolved_at IS NULL))
);
CREATE INDEX disputes_by_account ON disputes (account_id);
CREATE INDEX disputes_by_transaction ON disputes (transaction_id);

CREATE TABLE notes (
    note_id TEXT NOT NULL PRIMARY KEY,
    customer_id TEXT NOT NULL REFERENCES customers (customer_id),
    category TEXT NOT NULL CHECK (category IN ('general', 'complaint', 'fraud', 'refused_request')),
    author TEXT NOT NULL,
    text TEXT NOT NULL CHECK (length(text) > 0),
    created_at TEXT NOT NULL
);
CREATE INDEX notes_by_customer ON notes (customer_id);

-- Written by every tool that changes anything.
CREATE TABLE audit_log (
    audit_id TEXT NOT NULL PRIMARY KEY,
    at TEXT NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    subject_id TEXT NOT NULL,
    details TEXT NOT NULL DEFAULT '{}'
);

CREATE TRIGGER entries_move_balances AFTER INSERT ON entries BEGIN
    UPDATE accounts SET balance_cents = balance_cents + NEW.amount_cents
    WHERE account_id = NEW.account_id;
END;
