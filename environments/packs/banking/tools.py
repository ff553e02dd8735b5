"""The desk of Tolka Bank: what an agent may look up and do for a customer.

Money is integer euro cents. Every movement is posted as one transaction whose entries sum to zero;
balances follow the entries. What may be spent is balance + overdraft limit - card holds.
"""

from __future__ import annotations

import difflib
import json
import unicodedata
import zlib
from datetime import date, timedelta
from typing import Annotated, Any, Literal

from pydantic import Field

from environments.authoring import Database, Row, ToolError, new_id, now, timestamp, tool

CustomerId = Annotated[str, Field(description="Customer number, e.g. C-204817")]
AccountId = Annotated[str, Field(description="Account number, e.g. ACC-40917365 (not the IBAN)")]
PayeeId = Annotated[str, Field(description="Id of one of the customer's payees, e.g. PAY-7K2QF3A9")]
CardId = Annotated[
    str, Field(description="Id of a card, e.g. CRD-7K2QF3A9 (not its last four digits)")
]
OrderId = Annotated[str, Field(description="Id of a standing order, e.g. STO-7K2QF3A9")]
TransactionId = Annotated[str, Field(description="Id of a transaction, e.g. TXN-7K2QF3A9")]
DisputeId = Annotated[str, Field(description="Id of a dispute, e.g. DSP-7K2QF3A9")]
Cents = Annotated[
    int, Field(ge=1, le=100_000_000, description="Amount in euro cents, e.g. 12550 for 125.50 euro")
]
Limit = Annotated[int, Field(ge=0, le=10_000_000, description="Limit in euro cents; 0 blocks")]
Reference = Annotated[
    str, Field(max_length=35, description="Reference the receiver sees, at most 35 characters")
]
Day = Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$", description="A date, YYYY-MM-DD")]
PageSize = Annotated[int, Field(ge=1, le=100, description="Rows to return")]
Offset = Annotated[
    int, Field(ge=0, description="Rows to skip; take next_offset of the page before")
]

DISPUTE_WINDOW_DAYS = 120
PROVISIONAL_CREDIT_DAYS = 10
FEE_REFUND_DAYS = 90
FEE_REFUNDS_PER_YEAR = 2
REPLACEMENT_FEE_CENTS = 700
PAYMENT_LIMIT_MAXIMUM = {"standard": 1_000_000, "premier": 2_500_000}
ATM_LIMIT_MAXIMUM = {"standard": 100_000, "premier": 150_000}
PURCHASE_LIMIT_MAXIMUM = {"standard": 500_000, "premier": 1_500_000}
CARDS, SEPA, DISPUTES, FEES = "GL-1200", "GL-1100", "GL-1300", "GL-4100"

KEYS = {
    "customers": ("customer_id", "CUSTOMER_NOT_FOUND", "customer"),
    "accounts": ("account_id", "ACCOUNT_NOT_FOUND", "account"),
    "payees": ("payee_id", "PAYEE_NOT_FOUND", "payee"),
    "cards": ("card_id", "CARD_NOT_FOUND", "card"),
    "standing_orders": ("standing_order_id", "STANDING_ORDER_NOT_FOUND", "standing order"),
    "transactions": ("transaction_id", "TRANSACTION_NOT_FOUND", "transaction"),
    "fees": ("fee_id", "FEE_NOT_FOUND", "fee"),
    "disputes": ("dispute_id", "DISPUTE_NOT_FOUND", "dispute"),
}


# --- shared by the tools -----------------------------------------------------------------------


def _get(db: Database, table: str, value: str) -> Row:
    key, code, noun = KEYS[table]
    hidden = " AND kind <> 'ledger'" if table == "accounts" else ""
    row = db.one(f"SELECT * FROM {table} WHERE {key} = ?{hidden}", value)
    if row is None:
        raise ToolError(code, f"there is no {noun} {value}", **{key: value})
    return row


def _euro(cents: int) -> str:
    return f"EUR {cents / 100:,.2f}"


def _fold(text: str) -> str:
    """Text as names are compared: no accents, no case, no punctuation."""
    plain = unicodedata.normalize("NFKD", text.replace("'", "").replace("\u2019", ""))
    kept = (c if c.isalnum() else " " for c in plain if not unicodedata.combining(c))
    return " ".join("".join(kept).casefold().split())


def _date(text: str, field: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ToolError("INVALID_DATE", f"{field}: {text} is no date", field=field) from None


def _today() -> date:
    return now().date()


def _page(rows: list[Row], limit: int, offset: int) -> Row:
    end = offset + limit
    return {
        "items": rows[offset:end],
        "total": len(rows),
        "next_offset": end if end < len(rows) else None,
    }


def _audit(db: Database, action: str, subject_id: str, **details: Any) -> None:
    db.insert(
        "audit_log",
        audit_id=new_id("audit", "AUD-"),
        at=timestamp(),
        actor="desk",
        action=action,
        subject_id=subject_id,
        details=json.dumps(details, ensure_ascii=False),
    )


def _change(db: Database, action: str, table: str, value: str, **columns: Any) -> Row:
    """Update one row, keep before and after in the audit log; returns the row as it is now."""
    before = _get(db, table, value)
    assignments = ", ".join(f"{column} = ?" for column in columns)
    key = KEYS[table][0]
    db.run(f"UPDATE {table} SET {assignments} WHERE {key} = ?", *columns.values(), value)
    _audit(db, action, value, before={column: before[column] for column in columns}, after=columns)
    return _get(db, table, value)


def _post(
    db: Database, kind: str, description: str, entries: list[tuple[str, int]], **columns: Any
) -> str:
    """Post one balanced transaction; returns its id."""
    transaction_id = new_id("transaction", "TXN-")
    columns.setdefault("channel", "desk")
    db.insert(
        "transactions",
        transaction_id=transaction_id,
        posted_at=timestamp(),
        kind=kind,
        description=description,
        **columns,
    )
    for line, (account_id, cents) in enumerate(entries, start=1):
        db.insert(
            "entries",
            transaction_id=transaction_id,
            line=line,
            account_id=account_id,
            amount_cents=cents,
        )
    return transaction_id


def _funds(db: Database, account: Row) -> Row:
    held = db.scalar(
        """SELECT coalesce(sum(amount_cents), 0) FROM holds
           WHERE account_id = ? AND expires_on >= ?""",
        account["account_id"],
        _today().isoformat(),
    )
    return {
        "balance_cents": account["balance_cents"],
        "held_cents": held,
        "overdraft_limit_cents": account["overdraft_limit_cents"],
        "available_cents": account["balance_cents"] + account["overdraft_limit_cents"] - held,
    }


def _open(account: Row) -> None:
    if account["status"] == "closed":
        raise ToolError(
            "ACCOUNT_CLOSED",
            f"account {account['account_id']} was closed on {account['closed_on']}",
            account_id=account["account_id"],
            closed_on=account["closed_on"],
        )


def _usable(account: Row) -> None:
    """The account may be debited as far as its status goes."""
    _open(account)
    if account["status"] == "frozen":
        raise ToolError(
            "ACCOUNT_FROZEN",
            f"account {account['account_id']} is frozen ({account['freeze_reason']})",
            account_id=account["account_id"],
            freeze_reason=account["freeze_reason"],
        )


def _debitable(db: Database, account: Row, cents: int) -> None:
    """The account may be debited by this much today."""
    _usable(account)
    notice = db.scalar(
        "SELECT notice_days FROM products WHERE product_code = ?", account["product_code"]
    )
    if notice:
        raise ToolError(
            "NOTICE_REQUIRED",
            f"withdrawals from {account['account_id']} need {notice} days' notice, given in branch",
            account_id=account["account_id"],
            notice_days=notice,
        )
    funds = _funds(db, account)
    if cents > funds["available_cents"]:
        raise ToolError(
            "INSUFFICIENT_FUNDS",
            f"{_euro(cents)} is more than the {_euro(funds['available_cents'])} available on "
            f"{account['account_id']}",
            account_id=account["account_id"],
            requested_cents=cents,
            shortfall_cents=cents - funds["available_cents"],
            **funds,
        )


def _paid_today(db: Database, customer_id: str) -> int:
    return db.scalar(
        """SELECT coalesce(-sum(e.amount_cents), 0)
           FROM transactions t JOIN entries e USING (transaction_id)
           JOIN accounts a USING (account_id)
           WHERE t.kind = 'payment' AND e.amount_cents < 0 AND a.customer_id = ?
             AND t.posted_at >= ?""",
        customer_id,
        _today().isoformat(),
    )


def _owner(db: Database, account: Row) -> Row:
    return _get(db, "customers", account["customer_id"])


def _verified_payee(db: Database, payee_id: str, account: Row) -> Row:
    payee = _get(db, "payees", payee_id)
    if payee["customer_id"] != account["customer_id"]:
        raise ToolError(
            "PAYEE_NOT_OWNED",
            f"payee {payee_id} belongs to another customer than {account['account_id']}",
            payee_id=payee_id,
        )
    if payee["status"] != "verified":
        raise ToolError(
            "PAYEE_NOT_VERIFIED",
            f"payee {payee['name']} is not verified (name check: {payee['name_check']})",
            payee_id=payee_id,
            name_check=payee["name_check"],
        )
    return payee


def _own_current_account(account: Row) -> None:
    if account["kind"] != "current":
        raise ToolError(
            "SAVINGS_EXTERNAL_NOT_ALLOWED",
            "savings accounts pay only to the customer's own accounts",
            account_id=account["account_id"],
        )


def _same_owner(origin: Row, target: Row) -> None:
    if origin["account_id"] == target["account_id"]:
        raise ToolError("SAME_ACCOUNT", "both accounts are the same")
    if origin["customer_id"] != target["customer_id"]:
        raise ToolError(
            "NOT_SAME_CUSTOMER",
            "the accounts belong to different customers; pay another person as a payee",
            from_account_id=origin["account_id"],
            to_account_id=target["account_id"],
        )


def _address(customer: Row) -> str:
    return f"{customer['address_line']}, {customer['city']}, {customer['eircode']}"


def _account_view(db: Database, account: Row) -> Row:
    product = _product(db, account)
    return {
        **{k: v for k, v in account.items() if k != "product_code"},
        "product": product["name"],
        **_funds(db, account),
    }


def _product(db: Database, account: Row) -> Row:
    row = db.one("SELECT * FROM products WHERE product_code = ?", account["product_code"])
    assert row is not None  # the foreign key and a CHECK hold this
    return row


# --- looking up --------------------------------------------------------------------------------


@tool(read_only=True)
def search_customers(
    db: Database,
    name: Annotated[str, Field(description="All or part of the name; accents do not matter")] = "",
    date_of_birth: Annotated[str, Field(description="YYYY-MM-DD")] = "",
    city: str = "",
    email: str = "",
    card_last4: Annotated[str, Field(description="Last four digits of any of their cards")] = "",
    limit: PageSize = 10,
    offset: Offset = 0,
) -> Row:
    """Find customers by any mix of name, date of birth, city, email and card digits.

    Several people can share a name: compare the date of birth and the city before acting. At least
    one filter is needed (SEARCH_TOO_BROAD).
    """
    if not any((name.strip(), date_of_birth, city.strip(), email.strip(), card_last4)):
        raise ToolError("SEARCH_TOO_BROAD", "give at least one filter")
    wanted = _fold(name).split()
    found = []
    for row in db.rows("SELECT * FROM customers ORDER BY full_name, customer_id"):
        words = _fold(row["full_name"])
        if (
            all(word in words for word in wanted)
            and date_of_birth in ("", row["date_of_birth"])
            and _fold(city) in _fold(row["city"])
            and email.strip().casefold() in row["email"].casefold()
            and (not card_last4 or _has_card(db, row["customer_id"], card_last4))
        ):
            found.append(
                {k: row[k] for k in ("customer_id", "full_name", "date_of_birth", "city", "email")}
            )
    return _page(found, limit, offset)


def _has_card(db: Database, customer_id: str, last4: str) -> bool:
    return bool(
        db.scalar(
            """SELECT 1 FROM cards c JOIN accounts a USING (account_id)
               WHERE a.customer_id = ? AND c.last4 = ?""",
            customer_id,
            last4,
        )
    )


@tool(read_only=True)
def get_customer(db: Database, customer_id: CustomerId) -> Row:
    """A customer's details, tier, daily payment limit and how much of it is used today, and their
    accounts with balance and available money."""
    customer = _get(db, "customers", customer_id)
    accounts = db.rows(
        "SELECT * FROM accounts WHERE customer_id = ? ORDER BY opened_on, account_id", customer_id
    )
    return {
        **customer,
        "paid_today_cents": _paid_today(db, customer_id),
        "accounts": [_account_view(db, account) for account in accounts],
    }


@tool(read_only=True)
def get_account(db: Database, account_id: AccountId) -> Row:
    """An account with its funds and the card holds on it.

    available_cents = balance_cents + overdraft_limit_cents - held_cents.
    """
    account = _get(db, "accounts", account_id)
    holds = db.rows(
        """SELECT * FROM holds WHERE account_id = ? AND expires_on >= ?
           ORDER BY placed_at, hold_id""",
        account_id,
        _today().isoformat(),
    )
    product = _product(db, account)
    return {
        **_account_view(db, account),
        "max_overdraft_cents": product["max_overdraft_cents"],
        "notice_days": product["notice_days"],
        "holds": holds,
    }


@tool(read_only=True)
def list_transactions(
    db: Database,
    account_id: AccountId,
    from_date: Annotated[str, Field(description="First day, YYYY-MM-DD; empty for no bound")] = "",
    to_date: Annotated[str, Field(description="Last day, YYYY-MM-DD; empty for no bound")] = "",
    text: Annotated[str, Field(description="Part of description or reference")] = "",
    kind: Annotated[str, Field(description="One kind, e.g. card_purchase, fee, payment")] = "",
    limit: PageSize = 20,
    offset: Offset = 0,
) -> Row:
    """An account's transactions, newest first; amounts are signed (negative leaves the account)."""
    _get(db, "accounts", account_id)
    start = _date(from_date, "from_date").isoformat() if from_date else ""
    end = _date(to_date, "to_date").isoformat() if to_date else "9999-12-31"
    wanted = _fold(text)
    rows = db.rows(
        """SELECT t.transaction_id, t.posted_at, t.kind, t.channel, t.description, t.reference,
                  e.amount_cents, t.card_id, t.payee_id
           FROM entries e JOIN transactions t USING (transaction_id)
           WHERE e.account_id = ? AND substr(t.posted_at, 1, 10) BETWEEN ? AND ?
             AND ? IN ('', t.kind)
           ORDER BY t.posted_at DESC, t.transaction_id""",
        account_id,
        start,
        end,
        kind,
    )
    rows = [row for row in rows if wanted in _fold(f"{row['description']} {row['reference']}")]
    return _page(rows, limit, offset)


@tool(read_only=True)
def get_transaction(db: Database, transaction_id: TransactionId) -> Row:
    """A transaction with its entries (double entry: they sum to zero) and its disputes."""
    transaction = _get(db, "transactions", transaction_id)
    entries = db.rows(
        """SELECT e.account_id, a.name AS account_name, e.amount_cents
           FROM entries e JOIN accounts a USING (account_id)
           WHERE transaction_id = ? ORDER BY line""",
        transaction_id,
    )
    disputes = db.rows(
        "SELECT * FROM disputes WHERE transaction_id = ? ORDER BY opened_at", transaction_id
    )
    return {**transaction, "entries": entries, "disputes": disputes}


@tool(read_only=True)
def get_statement(
    db: Database,
    account_id: AccountId,
    month: Annotated[str, Field(pattern=r"^\d{4}-(0[1-9]|1[0-2])$", description="YYYY-MM")],
) -> Row:
    """One month's statement: opening and closing balance, money in and out, and totals by kind."""
    _get(db, "accounts", account_id)
    opening = db.scalar(
        """SELECT coalesce(sum(e.amount_cents), 0)
           FROM entries e JOIN transactions t USING (transaction_id)
           WHERE e.account_id = ? AND substr(t.posted_at, 1, 7) < ?""",
        account_id,
        month,
    )
    totals = db.rows(
        """SELECT t.kind, count(*) AS count, sum(e.amount_cents) AS total_cents,
                  sum(max(e.amount_cents, 0)) AS in_cents, sum(min(e.amount_cents, 0)) AS out_cents
           FROM entries e JOIN transactions t USING (transaction_id)
           WHERE e.account_id = ? AND substr(t.posted_at, 1, 7) = ?
           GROUP BY t.kind ORDER BY t.kind""",
        account_id,
        month,
    )
    money_in = sum(row.pop("in_cents") for row in totals)
    money_out = sum(row.pop("out_cents") for row in totals)
    return {
        "account_id": account_id,
        "month": month,
        "opening_balance_cents": opening,
        "money_in_cents": money_in,
        "money_out_cents": -money_out,
        "closing_balance_cents": opening + money_in + money_out,
        "totals": totals,
    }


@tool(read_only=True)
def list_payees(db: Database, customer_id: CustomerId) -> Row:
    """The customer's payees outside their own accounts; only verified ones can be paid."""
    _get(db, "customers", customer_id)
    rows = db.rows(
        "SELECT * FROM payees WHERE customer_id = ? ORDER BY name, added_at", customer_id
    )
    return {"items": rows, "total": len(rows)}


@tool(read_only=True)
def list_standing_orders(
    db: Database,
    customer_id: CustomerId,
    status: Literal["active", "paused", "cancelled", "all"] = "all",
) -> Row:
    """The standing orders of all the customer's accounts, with the receiver's name."""
    _get(db, "customers", customer_id)
    rows = db.rows(
        """SELECT s.*, coalesce(p.name, t.name) AS receiver
           FROM standing_orders s JOIN accounts a ON a.account_id = s.account_id
           LEFT JOIN payees p ON p.payee_id = s.payee_id
           LEFT JOIN accounts t ON t.account_id = s.to_account_id
           WHERE a.customer_id = ? AND ? IN ('all', s.status)
           ORDER BY s.next_due_on IS NULL, s.next_due_on, s.standing_order_id""",
        customer_id,
        status,
    )
    return {"items": rows, "total": len(rows)}


@tool(read_only=True)
def list_cards(db: Database, customer_id: CustomerId) -> Row:
    """All the customer's debit cards, replaced and expired ones included."""
    _get(db, "customers", customer_id)
    rows = db.rows(
        """SELECT c.* FROM cards c JOIN accounts a USING (account_id)
           WHERE a.customer_id = ? ORDER BY c.issued_on, c.card_id""",
        customer_id,
    )
    return {"items": rows, "total": len(rows)}


@tool(read_only=True)
def list_disputes(
    db: Database,
    customer_id: CustomerId,
    status: Literal["open", "won", "lost", "withdrawn", "all"] = "all",
) -> Row:
    """The customer's card disputes with the disputed transaction's day and merchant."""
    _get(db, "customers", customer_id)
    rows = db.rows(
        """SELECT d.*, t.description AS merchant, t.posted_at AS transaction_posted_at
           FROM disputes d JOIN accounts a USING (account_id)
           JOIN transactions t ON t.transaction_id = d.transaction_id
           WHERE a.customer_id = ? AND ? IN ('all', d.status) ORDER BY d.opened_at, d.dispute_id""",
        customer_id,
        status,
    )
    return {"items": rows, "total": len(rows)}


@tool(read_only=True)
def list_fees(db: Database, customer_id: CustomerId) -> Row:
    """The fees charged on all the customer's accounts, newest first, refunded ones included."""
    _get(db, "customers", customer_id)
    rows = db.rows(
        """SELECT f.* FROM fees f JOIN accounts a USING (account_id)
           WHERE a.customer_id = ? ORDER BY f.charged_at DESC, f.fee_id""",
        customer_id,
    )
    return {"items": rows, "total": len(rows)}


@tool(read_only=True)
def list_notes(db: Database, customer_id: CustomerId) -> Row:
    """The notes on the customer's file, newest first."""
    _get(db, "customers", customer_id)
    rows = db.rows(
        "SELECT * FROM notes WHERE customer_id = ? ORDER BY created_at DESC, note_id", customer_id
    )
    return {"items": rows, "total": len(rows)}


# --- moving money ------------------------------------------------------------------------------


@tool(read_only=False)
def transfer_between_accounts(
    db: Database,
    from_account_id: AccountId,
    to_account_id: AccountId,
    amount_cents: Cents,
    reference: Reference = "",
) -> Row:
    """Move money between two accounts of the same customer, at once.

    Refuses with INSUFFICIENT_FUNDS (the details say what is available and what is missing),
    ACCOUNT_FROZEN, ACCOUNT_CLOSED, NOTICE_REQUIRED, NOT_SAME_CUSTOMER or SAME_ACCOUNT.
    """
    origin, target = _get(db, "accounts", from_account_id), _get(db, "accounts", to_account_id)
    _same_owner(origin, target)
    _open(target)
    _debitable(db, origin, amount_cents)
    transaction_id = _post(
        db,
        "transfer",
        f"Transfer {origin['name']} to {target['name']}",
        [(from_account_id, -amount_cents), (to_account_id, amount_cents)],
        reference=reference,
    )
    _audit(db, "transfer", transaction_id, amount_cents=amount_cents)
    return {
        "transaction_id": transaction_id,
        "amount_cents": amount_cents,
        "from": _funds(db, _get(db, "accounts", from_account_id)),
        "to": _funds(db, _get(db, "accounts", to_account_id)),
    }


@tool(read_only=False)
def send_payment(
    db: Database,
    from_account_id: AccountId,
    payee_id: PayeeId,
    amount_cents: Cents,
    reference: Reference = "",
) -> Row:
    """Pay one of the customer's verified payees from a current account, at once; it is final.

    Refuses with PAYEE_NOT_VERIFIED, LIMIT_EXCEEDED (the customer's daily payment limit; the details
    say what is left of it), INSUFFICIENT_FUNDS, ACCOUNT_FROZEN or SAVINGS_EXTERNAL_NOT_ALLOWED.
    """
    account = _get(db, "accounts", from_account_id)
    payee = _verified_payee(db, payee_id, account)
    _usable(account)
    _own_current_account(account)
    customer = _owner(db, account)
    used = _paid_today(db, customer["customer_id"])
    limit = customer["daily_payment_limit_cents"]
    if used + amount_cents > limit:
        raise ToolError(
            "LIMIT_EXCEEDED",
            f"with {_euro(used)} paid today, {_euro(amount_cents)} passes the daily payment limit "
            f"of {_euro(limit)}",
            daily_payment_limit_cents=limit,
            paid_today_cents=used,
            remaining_cents=max(limit - used, 0),
        )
    _debitable(db, account, amount_cents)
    transaction_id = _post(
        db,
        "payment",
        payee["name"],
        [(from_account_id, -amount_cents), (_receiving_account(db, payee), amount_cents)],
        reference=reference,
        payee_id=payee_id,
    )
    _audit(db, "payment", transaction_id, amount_cents=amount_cents, payee_id=payee_id)
    return {
        "transaction_id": transaction_id,
        "payee": payee["name"],
        "amount_cents": amount_cents,
        "limit_remaining_cents": limit - used - amount_cents,
        "from": _funds(db, _get(db, "accounts", from_account_id)),
    }


def _receiving_account(db: Database, payee: Row) -> str:
    """The account at this bank, or the clearing account towards other banks."""
    account = db.one("SELECT * FROM accounts WHERE iban = ?", payee["iban"])
    if account is None:
        return SEPA
    _open(account)
    return str(account["account_id"])


@tool(read_only=False)
def set_daily_payment_limit(db: Database, customer_id: CustomerId, limit_cents: Limit) -> Row:
    """Set how much a customer may pay to payees in a day.

    Standard customers at most 10,000 euro, premier 25,000 (LIMIT_ABOVE_MAXIMUM).
    """
    customer = _get(db, "customers", customer_id)
    _within(limit_cents, PAYMENT_LIMIT_MAXIMUM[customer["tier"]], "daily payment limit")
    return _change(
        db, "set_payment_limit", "customers", customer_id, daily_payment_limit_cents=limit_cents
    )


def _within(cents: int, maximum: int, what: str) -> None:
    if cents > maximum:
        raise ToolError(
            "LIMIT_ABOVE_MAXIMUM",
            f"{_euro(cents)} is above the highest {what} for this customer, {_euro(maximum)}",
            requested_cents=cents,
            maximum_cents=maximum,
        )


# --- payees ------------------------------------------------------------------------------------


@tool(read_only=False)
def add_payee(
    db: Database,
    customer_id: CustomerId,
    name: Annotated[
        str, Field(min_length=2, max_length=70, description="Name of the account holder")
    ],
    iban: Annotated[str, Field(description="IBAN, spaces allowed")],
) -> Row:
    """Add a payee and check the name with the receiving bank.

    On a match the payee is verified and can be paid. On a close_match the answer carries the
    registered name and the payee stays unverified until confirmed. On no_match, or when the other
    bank does not answer (unavailable), it stays unverified. Refuses with IBAN_INVALID or
    PAYEE_EXISTS.
    """
    _get(db, "customers", customer_id)
    iban = iban.replace(" ", "").upper()
    if not _iban_valid(iban):
        raise ToolError("IBAN_INVALID", f"{iban} fails the IBAN check digits", iban=iban)
    known = db.one("SELECT * FROM payees WHERE customer_id = ? AND iban = ?", customer_id, iban)
    if known is not None:
        raise ToolError(
            "PAYEE_EXISTS",
            f"this IBAN is already a payee: {known['name']} ({known['status']})",
            payee_id=known["payee_id"],
            status=known["status"],
        )
    registered = _registered_name(db, iban)
    check = _compare_names(name, registered)
    verified = check == "match"
    payee_id = new_id("payee", "PAY-")
    db.insert(
        "payees",
        payee_id=payee_id,
        customer_id=customer_id,
        name=name.strip(),
        iban=iban,
        status="verified" if verified else "unverified",
        name_check=check,
        added_at=timestamp(),
        verified_at=timestamp() if verified else None,
    )
    _audit(db, "add_payee", payee_id, name=name, iban=iban, name_check=check)
    return {
        "payee_id": payee_id,
        "status": "verified" if verified else "unverified",
        "name_check": check,
        "registered_name": registered if check in ("match", "close_match") else None,
    }


def _iban_valid(iban: str) -> bool:
    if not (15 <= len(iban) <= 34 and iban.isascii() and iban.isalnum() and iban[:2].isalpha()):
        return False
    return int("".join(str(int(c, 36)) for c in iban[4:] + iban[:4])) % 97 == 1


def _registered_name(db: Database, iban: str) -> str | None:
    """Who the receiving bank, or this one, says holds the account."""
    name = db.scalar("SELECT account_name FROM payee_directory WHERE iban = ?", iban) or db.scalar(
        "SELECT full_name FROM accounts JOIN customers USING (customer_id) WHERE iban = ?", iban
    )
    return None if name is None else str(name)


def _compare_names(name: str, registered: str | None) -> str:
    if registered is None:
        return "unavailable"
    given, held = _fold(name), _fold(registered)
    if given == held:
        return "match"
    shorter, longer = sorted((set(given.split()), set(held.split())), key=len)
    alike = difflib.SequenceMatcher(None, given, held).ratio() >= 0.85
    return "close_match" if alike or (len(shorter) > 1 and shorter <= longer) else "no_match"


@tool(read_only=False)
def confirm_payee(
    db: Database,
    payee_id: PayeeId,
    registered_name: Annotated[
        str, Field(description="The registered name, once the customer has confirmed it")
    ],
) -> Row:
    """Verify a payee whose name check was a close match; the payee takes the registered name.

    Only with the customer's word that the registered name is who they mean to pay. Refuses with
    PAYEE_NAME_MISMATCH (another name than the registered one), PAYEE_NOT_CONFIRMABLE (the check
    was no match or unavailable) or PAYEE_ALREADY_VERIFIED.
    """
    payee = _get(db, "payees", payee_id)
    if payee["status"] == "verified":
        raise ToolError("PAYEE_ALREADY_VERIFIED", f"{payee['name']} is verified", payee_id=payee_id)
    if payee["name_check"] != "close_match":
        raise ToolError(
            "PAYEE_NOT_CONFIRMABLE",
            f"the name check was {payee['name_check']}; only a close match can be confirmed here",
            payee_id=payee_id,
            name_check=payee["name_check"],
        )
    registered = _registered_name(db, payee["iban"]) or ""
    if _fold(registered) != _fold(registered_name):
        raise ToolError(
            "PAYEE_NAME_MISMATCH",
            f"{registered_name!r} is not the registered name",
            payee_id=payee_id,
        )
    return _change(
        db,
        "confirm_payee",
        "payees",
        payee_id,
        status="verified",
        verified_at=timestamp(),
        name=registered,
    )


# --- standing orders ---------------------------------------------------------------------------


@tool(read_only=False)
def create_standing_order(
    db: Database,
    from_account_id: AccountId,
    amount_cents: Cents,
    frequency: Literal["weekly", "monthly", "quarterly"],
    first_payment_on: Day,
    payee_id: Annotated[str, Field(description="A verified payee; or give to_account_id")] = "",
    to_account_id: Annotated[str, Field(description="An own account; or give payee_id")] = "",
    reference: Reference = "",
) -> Row:
    """Set up a regular payment to a verified payee or to another account of the same customer.

    The first payment is after today (START_DATE_NOT_IN_FUTURE). Money is not checked now.
    """
    account = _get(db, "accounts", from_account_id)
    if bool(payee_id) == bool(to_account_id):
        raise ToolError("ONE_RECEIVER_NEEDED", "give either payee_id or to_account_id")
    _usable(account)
    if payee_id:
        _verified_payee(db, payee_id, account)
        _own_current_account(account)
    else:
        target = _get(db, "accounts", to_account_id)
        _same_owner(account, target)
        _open(target)
    _future(first_payment_on, "first_payment_on")
    order_id = new_id("standing_order", "STO-")
    db.insert(
        "standing_orders",
        standing_order_id=order_id,
        account_id=from_account_id,
        payee_id=payee_id or None,
        to_account_id=to_account_id or None,
        amount_cents=amount_cents,
        frequency=frequency,
        next_due_on=first_payment_on,
        reference=reference,
        created_on=_today().isoformat(),
    )
    _audit(db, "create_standing_order", order_id, amount_cents=amount_cents)
    return _get(db, "standing_orders", order_id)


def _future(day: str, field: str) -> None:
    if _date(day, field) <= _today():
        raise ToolError(
            "START_DATE_NOT_IN_FUTURE",
            f"{field} must be after today, {_today()}",
            today=_today().isoformat(),
        )


def _live_order(db: Database, standing_order_id: str) -> Row:
    order = _get(db, "standing_orders", standing_order_id)
    if order["status"] == "cancelled":
        raise ToolError(
            "STANDING_ORDER_CANCELLED",
            f"{standing_order_id} was cancelled on {order['cancelled_on']}",
            standing_order_id=standing_order_id,
            cancelled_on=order["cancelled_on"],
        )
    return order


@tool(read_only=False)
def change_standing_order(
    db: Database,
    standing_order_id: OrderId,
    amount_cents: Annotated[
        int | None, Field(ge=1, le=100_000_000, description="New amount in euro cents")
    ] = None,
    next_payment_on: Annotated[
        str | None, Field(pattern=r"^\d{4}-\d{2}-\d{2}$", description="New next day, YYYY-MM-DD")
    ] = None,
    paused: Annotated[
        bool | None, Field(description="true pauses; false resumes (with next_payment_on)")
    ] = None,
) -> Row:
    """Change a standing order's amount or next payment day, pause it or resume it.

    Refuses with STANDING_ORDER_CANCELLED, START_DATE_NOT_IN_FUTURE, NEXT_DATE_NEEDED (to resume)
    or NOTHING_TO_CHANGE.
    """
    order = _live_order(db, standing_order_id)
    status, due = order["status"], order["next_due_on"]
    if paused:
        status, due = "paused", None
    elif next_payment_on and (paused is False or status == "active"):
        _future(next_payment_on, "next_payment_on")
        status, due = "active", next_payment_on
    elif (paused is False and status == "paused") or next_payment_on:
        raise ToolError(
            "NEXT_DATE_NEEDED", "to resume, give paused=false together with next_payment_on"
        )
    amount = order["amount_cents"] if amount_cents is None else amount_cents
    if (amount, status, due) == (order["amount_cents"], order["status"], order["next_due_on"]):
        raise ToolError("NOTHING_TO_CHANGE", f"{standing_order_id} is that way already")
    return _change(
        db,
        "change_standing_order",
        "standing_orders",
        standing_order_id,
        amount_cents=amount,
        status=status,
        next_due_on=due,
    )


@tool(read_only=False)
def cancel_standing_order(db: Database, standing_order_id: OrderId) -> Row:
    """Cancel a standing order for good; earlier payments stay (STANDING_ORDER_CANCELLED)."""
    _live_order(db, standing_order_id)
    return _change(
        db,
        "cancel_standing_order",
        "standing_orders",
        standing_order_id,
        status="cancelled",
        next_due_on=None,
        cancelled_on=_today().isoformat(),
    )


# --- cards -------------------------------------------------------------------------------------


def _current_card(db: Database, card_id: str) -> Row:
    """A card that was neither replaced nor ran out."""
    card = _get(db, "cards", card_id)
    if card["replaced_by"] is not None:
        raise ToolError(
            "CARD_ALREADY_REPLACED",
            f"the card ending {card['last4']} was replaced ({card['status']})",
            card_id=card_id,
            replacement_card_id=card["replaced_by"],
        )
    if card["status"] == "expired" or card["expires_on"] < _today().isoformat():
        raise ToolError(
            "CARD_EXPIRED",
            f"the card ending {card['last4']} expired on {card['expires_on']}",
            card_id=card_id,
        )
    return card


@tool(read_only=False)
def freeze_card(
    db: Database,
    card_id: CardId,
    reason: Literal["misplaced", "customer_request", "suspected_fraud"],
) -> Row:
    """Block an active card for the time being; it can be unfrozen.

    Refuses with CARD_ALREADY_FROZEN, CARD_NOT_ACTIVE, CARD_ALREADY_REPLACED or CARD_EXPIRED.
    """
    card = _current_card(db, card_id)
    if card["status"] == "frozen":
        raise ToolError(
            "CARD_ALREADY_FROZEN",
            f"the card ending {card['last4']} is frozen ({card['freeze_reason']})",
            card_id=card_id,
            freeze_reason=card["freeze_reason"],
        )
    if card["status"] != "active":
        raise ToolError("CARD_NOT_ACTIVE", f"the card is {card['status']}", card_id=card_id)
    return _change(db, "freeze_card", "cards", card_id, status="frozen", freeze_reason=reason)


@tool(read_only=False)
def unfreeze_card(db: Database, card_id: CardId) -> Row:
    """Make a frozen card usable again (CARD_NOT_FROZEN).

    One frozen for suspected fraud cannot be (FREEZE_NOT_LIFTABLE): replace it.
    """
    card = _current_card(db, card_id)
    if card["status"] != "frozen":
        raise ToolError("CARD_NOT_FROZEN", f"the card is {card['status']}", card_id=card_id)
    if card["freeze_reason"] == "suspected_fraud":
        raise ToolError(
            "FREEZE_NOT_LIFTABLE", "frozen for suspected fraud: replace the card", card_id=card_id
        )
    return _change(db, "unfreeze_card", "cards", card_id, status="active", freeze_reason=None)


@tool(read_only=False)
def replace_card(
    db: Database, card_id: CardId, reason: Literal["lost", "stolen", "damaged"]
) -> Row:
    """Stop a card for good and post a new one, with the same limits, to the address on file.

    A lost card costs 7.00 euro, charged at once; stolen and damaged ones are free. Refuses with
    CARD_ALREADY_REPLACED (the details name the replacement), CARD_EXPIRED or CARD_NOT_ACTIVE (still
    in the post).
    """
    card = _current_card(db, card_id)
    if card["status"] == "issued":
        raise ToolError("CARD_NOT_ACTIVE", "the card is still in the post", card_id=card_id)
    account = _get(db, "accounts", card["account_id"])
    _open(account)
    replacement = new_id("card", "CRD-")
    today = _today()
    db.insert(
        "cards",
        card_id=replacement,
        account_id=card["account_id"],
        last4=f"{zlib.crc32(replacement.encode()) % 10_000:04d}",
        status="issued",
        issued_on=today.isoformat(),
        expires_on=f"{today.year + 4}-{today.month:02d}-28",
        atm_daily_limit_cents=card["atm_daily_limit_cents"],
        purchase_daily_limit_cents=card["purchase_daily_limit_cents"],
        online_payments=card["online_payments"],
        delivery_address=_address(_owner(db, account)),
    )
    replaced = _change(
        db,
        "replace_card",
        "cards",
        card_id,
        status=reason,
        freeze_reason=None,
        replaced_by=replacement,
    )
    if reason == "lost":
        _charge(db, account["account_id"], "card_replacement", REPLACEMENT_FEE_CENTS)
    return {
        "replaced": replaced,
        "replacement": _get(db, "cards", replacement),
        "fee_cents": REPLACEMENT_FEE_CENTS if reason == "lost" else 0,
    }


def _charge(db: Database, account_id: str, kind: str, cents: int) -> None:
    transaction_id = _post(
        db,
        "fee",
        f"{kind.replace('_', ' ').capitalize()} fee",
        [(account_id, -cents), (FEES, cents)],
        channel="system",
    )
    db.insert(
        "fees",
        fee_id=new_id("fee", "FEE-"),
        account_id=account_id,
        kind=kind,
        amount_cents=cents,
        charged_at=timestamp(),
        transaction_id=transaction_id,
    )


@tool(read_only=False)
def set_card_limits(
    db: Database,
    card_id: CardId,
    atm_daily_limit_cents: Annotated[
        int | None, Field(ge=0, le=10_000_000, description="Cash a day, euro cents")
    ] = None,
    purchase_daily_limit_cents: Annotated[
        int | None, Field(ge=0, le=10_000_000, description="Purchases a day, euro cents")
    ] = None,
    online_payments: Annotated[bool | None, Field(description="Allow paying online")] = None,
) -> Row:
    """Set a card's daily limits and whether it pays online; what is left out stays.

    Standard customers: at most 1,000 euro cash and 5,000 euro purchases a day; premier 1,500 and
    15,000 (LIMIT_ABOVE_MAXIMUM). A new card still in the post can be set up too.
    """
    card = _current_card(db, card_id)
    tier = _owner(db, _get(db, "accounts", card["account_id"]))["tier"]
    wanted = {
        "atm_daily_limit_cents": atm_daily_limit_cents,
        "purchase_daily_limit_cents": purchase_daily_limit_cents,
        "online_payments": None if online_payments is None else int(online_payments),
    }
    changed = {key: value for key, value in wanted.items() if value not in (None, card[key])}
    if not changed:
        raise ToolError("NOTHING_TO_CHANGE", "the card is set that way already", card_id=card_id)
    _within(changed.get("atm_daily_limit_cents", 0), ATM_LIMIT_MAXIMUM[tier], "cash limit")
    _within(
        changed.get("purchase_daily_limit_cents", 0), PURCHASE_LIMIT_MAXIMUM[tier], "purchase limit"
    )
    return _change(db, "set_card_limits", "cards", card_id, **changed)


# --- disputes and fees -------------------------------------------------------------------------


@tool(read_only=False)
def open_dispute(
    db: Database,
    transaction_id: TransactionId,
    reason: Literal["fraud", "duplicate", "not_received", "not_as_described", "wrong_amount"],
    amount_cents: Annotated[
        int | None, Field(ge=1, le=100_000_000, description="Disputed part; default all of it")
    ] = None,
) -> Row:
    """Dispute a card purchase or cash withdrawal (a chargeback).

    Refuses with DISPUTE_WINDOW_CLOSED (more than 120 days old), DISPUTE_EXISTS, NOT_DISPUTABLE (not
    made by card), AMOUNT_ABOVE_TRANSACTION, and CARD_STILL_ACTIVE (for fraud: freeze or replace the
    card first).
    """
    transaction = _get(db, "transactions", transaction_id)
    if transaction["kind"] not in ("card_purchase", "atm"):
        raise ToolError(
            "NOT_DISPUTABLE",
            f"a {transaction['kind']} is not a card payment",
            kind=transaction["kind"],
        )
    entry = db.one(
        "SELECT * FROM entries WHERE transaction_id = ? AND amount_cents < 0", transaction_id
    )
    assert entry is not None  # a card payment always debits the customer
    _disputable(db, transaction)
    paid = -entry["amount_cents"]
    amount = paid if amount_cents is None else amount_cents
    if amount > paid:
        raise ToolError(
            "AMOUNT_ABOVE_TRANSACTION", f"the payment was {_euro(paid)}", transaction_cents=paid
        )
    if reason == "fraud":
        card = _get(db, "cards", transaction["card_id"])
        if card["status"] in ("active", "issued"):
            raise ToolError(
                "CARD_STILL_ACTIVE",
                f"block the card ending {card['last4']} before disputing fraud on it",
                card_id=card["card_id"],
            )
    dispute_id = new_id("dispute", "DSP-")
    db.insert(
        "disputes",
        dispute_id=dispute_id,
        transaction_id=transaction_id,
        account_id=entry["account_id"],
        reason=reason,
        amount_cents=amount,
        opened_at=timestamp(),
    )
    _audit(db, "open_dispute", dispute_id, transaction_id=transaction_id, reason=reason)
    return _get(db, "disputes", dispute_id)


def _disputable(db: Database, transaction: Row) -> None:
    known = db.one(
        "SELECT * FROM disputes WHERE transaction_id = ? AND status <> 'withdrawn'",
        transaction["transaction_id"],
    )
    if known is not None:
        raise ToolError(
            "DISPUTE_EXISTS",
            f"disputed already: {known['dispute_id']} ({known['status']})",
            dispute_id=known["dispute_id"],
            status=known["status"],
        )
    made_on = _date(transaction["posted_at"][:10], "posted_at")
    closed_on = made_on + timedelta(days=DISPUTE_WINDOW_DAYS)
    if _today() > closed_on:
        raise ToolError(
            "DISPUTE_WINDOW_CLOSED",
            f"the {DISPUTE_WINDOW_DAYS} days to dispute ended on {closed_on}",
            transaction_date=made_on.isoformat(),
            window_days=DISPUTE_WINDOW_DAYS,
            closed_on=closed_on.isoformat(),
        )


def _open_dispute_row(db: Database, dispute_id: str) -> Row:
    dispute = _get(db, "disputes", dispute_id)
    if dispute["status"] != "open":
        raise ToolError(
            "DISPUTE_NOT_OPEN", f"the dispute is {dispute['status']}", status=dispute["status"]
        )
    return dispute


@tool(read_only=False)
def grant_provisional_credit(db: Database, dispute_id: DisputeId) -> Row:
    """Credit the disputed amount to the customer while the dispute is open.

    Fraud at once; other reasons from 10 days after opening (PROVISIONAL_CREDIT_TOO_EARLY). Refuses
    with PROVISIONAL_CREDIT_EXISTS or DISPUTE_NOT_OPEN too.
    """
    dispute = _open_dispute_row(db, dispute_id)
    if dispute["credit_transaction_id"] is not None:
        raise ToolError(
            "PROVISIONAL_CREDIT_EXISTS",
            "the amount was credited already",
            transaction_id=dispute["credit_transaction_id"],
        )
    opened = _date(dispute["opened_at"][:10], "opened_at")
    eligible_on = opened + timedelta(days=PROVISIONAL_CREDIT_DAYS)
    if dispute["reason"] != "fraud" and _today() < eligible_on:
        raise ToolError(
            "PROVISIONAL_CREDIT_TOO_EARLY",
            f"a {dispute['reason']} dispute can be credited from {eligible_on}",
            eligible_on=eligible_on.isoformat(),
        )
    _open(_get(db, "accounts", dispute["account_id"]))
    cents = dispute["amount_cents"]
    transaction_id = _post(
        db,
        "dispute_credit",
        f"Provisional credit {dispute_id}",
        [(DISPUTES, -cents), (dispute["account_id"], cents)],
    )
    return _change(
        db, "provisional_credit", "disputes", dispute_id, credit_transaction_id=transaction_id
    )


@tool(read_only=False)
def withdraw_dispute(db: Database, dispute_id: DisputeId) -> Row:
    """Withdraw an open dispute at the customer's wish; a provisional credit is taken back.

    Refuses with DISPUTE_NOT_OPEN, or INSUFFICIENT_FUNDS when the credit cannot be taken back.
    """
    dispute = _open_dispute_row(db, dispute_id)
    if dispute["credit_transaction_id"] is not None:
        cents = dispute["amount_cents"]
        _debitable(db, _get(db, "accounts", dispute["account_id"]), cents)
        _post(
            db,
            "dispute_reversal",
            f"Provisional credit {dispute_id} taken back",
            [(dispute["account_id"], -cents), (DISPUTES, cents)],
        )
    return _change(
        db,
        "withdraw_dispute",
        "disputes",
        dispute_id,
        status="withdrawn",
        resolved_at=timestamp(),
    )


@tool(read_only=False)
def refund_fee(
    db: Database, fee_id: Annotated[str, Field(description="Id of a fee, e.g. FEE-7K2QF3A9")]
) -> Row:
    """Refund a fee as goodwill to the account it was charged to.

    At most two refunds a customer in any 365 days (FEE_REFUND_LIMIT_REACHED), within 90 days of the
    charge (FEE_TOO_OLD), once (FEE_ALREADY_REFUNDED); never stamp duty, a tax (FEE_NOT_REFUNDABLE).
    """
    fee = _get(db, "fees", fee_id)
    _refundable(db, fee)
    cents = fee["amount_cents"]
    transaction_id = _post(
        db,
        "fee_refund",
        f"Refund of {fee['kind'].replace('_', ' ')} fee",
        [(FEES, -cents), (fee["account_id"], cents)],
    )
    return _change(
        db,
        "refund_fee",
        "fees",
        fee_id,
        status="refunded",
        refunded_at=timestamp(),
        refund_transaction_id=transaction_id,
    )


def _refundable(db: Database, fee: Row) -> None:
    if fee["status"] == "refunded":
        raise ToolError(
            "FEE_ALREADY_REFUNDED", f"refunded on {fee['refunded_at'][:10]}", fee_id=fee["fee_id"]
        )
    if fee["kind"] == "stamp_duty":
        raise ToolError("FEE_NOT_REFUNDABLE", "stamp duty is a tax", fee_id=fee["fee_id"])
    last_day = _date(fee["charged_at"][:10], "charged_at") + timedelta(days=FEE_REFUND_DAYS)
    if _today() > last_day:
        raise ToolError(
            "FEE_TOO_OLD",
            f"it could be refunded until {last_day}",
            fee_id=fee["fee_id"],
            last_day=last_day.isoformat(),
        )
    _open(_get(db, "accounts", fee["account_id"]))
    since = (_today() - timedelta(days=365)).isoformat()
    recent = db.scalar(
        """SELECT count(*) FROM fees f JOIN accounts a USING (account_id)
           WHERE f.refunded_at >= ?
             AND a.customer_id = (SELECT customer_id FROM accounts WHERE account_id = ?)""",
        since,
        fee["account_id"],
    )
    if recent >= FEE_REFUNDS_PER_YEAR:
        raise ToolError(
            "FEE_REFUND_LIMIT_REACHED",
            f"this customer had {recent} goodwill refunds since {since}",
            refunds=recent,
            maximum=FEE_REFUNDS_PER_YEAR,
        )


# --- accounts and the customer's file ----------------------------------------------------------


@tool(read_only=False)
def set_overdraft_limit(db: Database, account_id: AccountId, limit_cents: Limit) -> Row:
    """Set the overdraft limit of a current account; 0 removes the overdraft.

    Refuses with OVERDRAFT_ABOVE_MAXIMUM (the product's maximum), OVERDRAFT_IN_USE (balance less
    holds is below what the new limit allows), OVERDRAFT_NOT_OFFERED or ACCOUNT_FROZEN.
    """
    account = _get(db, "accounts", account_id)
    _usable(account)
    maximum = _product(db, account)["max_overdraft_cents"]
    if account["kind"] != "current" or maximum == 0:
        raise ToolError("OVERDRAFT_NOT_OFFERED", "this product has no overdraft")
    if limit_cents > maximum:
        raise ToolError(
            "OVERDRAFT_ABOVE_MAXIMUM",
            f"at most {_euro(maximum)} on this product",
            maximum_cents=maximum,
        )
    funds = _funds(db, account)
    used = funds["held_cents"] - funds["balance_cents"]
    if used > limit_cents:
        raise ToolError(
            "OVERDRAFT_IN_USE",
            f"{_euro(used)} of the overdraft is in use, holds included",
            used_cents=used,
            shortfall_cents=used - limit_cents,
            **funds,
        )
    if limit_cents == account["overdraft_limit_cents"]:
        raise ToolError("NOTHING_TO_CHANGE", "that is the limit already", account_id=account_id)
    return _account_view(
        db,
        _change(db, "set_overdraft", "accounts", account_id, overdraft_limit_cents=limit_cents),
    )


@tool(read_only=False)
def freeze_account(
    db: Database, account_id: AccountId, reason: Literal["customer_request", "fraud_review"]
) -> Row:
    """Stop everything leaving an account; money still comes in (ACCOUNT_FROZEN, ACCOUNT_CLOSED)."""
    account = _get(db, "accounts", account_id)
    _usable(account)
    frozen = _change(
        db, "freeze_account", "accounts", account_id, status="frozen", freeze_reason=reason
    )
    return _account_view(db, frozen)


@tool(read_only=False)
def unfreeze_account(db: Database, account_id: AccountId) -> Row:
    """Lift a freeze the customer asked for (ACCOUNT_NOT_FROZEN).

    A fraud review or a legal order is lifted by other departments only (FREEZE_NOT_LIFTABLE).
    """
    account = _get(db, "accounts", account_id)
    _open(account)
    if account["status"] != "frozen":
        raise ToolError("ACCOUNT_NOT_FROZEN", "the account is active", account_id=account_id)
    if account["freeze_reason"] != "customer_request":
        raise ToolError(
            "FREEZE_NOT_LIFTABLE",
            f"frozen by {account['freeze_reason']}: not for the desk to lift",
            account_id=account_id,
            freeze_reason=account["freeze_reason"],
        )
    lifted = _change(
        db, "unfreeze_account", "accounts", account_id, status="active", freeze_reason=None
    )
    return _account_view(db, lifted)


@tool(read_only=False)
def close_account(db: Database, account_id: AccountId) -> Row:
    """Close an account for good.

    Its balance must be zero without holds (ACCOUNT_NOT_EMPTY), no standing order, paused ones
    included, may go out of it or into it (STANDING_ORDERS_EXIST, naming them), and no card that
    still works may hang on it (CARD_STILL_ACTIVE).
    """
    account = _get(db, "accounts", account_id)
    _usable(account)
    orders = db.rows(
        """SELECT standing_order_id FROM standing_orders
           WHERE status <> 'cancelled' AND ? IN (account_id, to_account_id)
           ORDER BY standing_order_id""",
        account_id,
    )
    if orders:
        raise ToolError(
            "STANDING_ORDERS_EXIST",
            "cancel the standing orders of this account first",
            standing_order_ids=[order["standing_order_id"] for order in orders],
        )
    funds = _funds(db, account)
    if funds["balance_cents"] or funds["held_cents"]:
        raise ToolError(
            "ACCOUNT_NOT_EMPTY", f"{_euro(funds['balance_cents'])} is on the account", **funds
        )
    card = db.one(
        "SELECT * FROM cards WHERE account_id = ? AND status IN ('issued', 'active', 'frozen')",
        account_id,
    )
    if card is not None:
        raise ToolError(
            "CARD_STILL_ACTIVE", f"card ending {card['last4']}", card_id=card["card_id"]
        )
    closed = _change(
        db,
        "close_account",
        "accounts",
        account_id,
        status="closed",
        closed_on=_today().isoformat(),
        overdraft_limit_cents=0,
    )
    return _account_view(db, closed)


@tool(read_only=False)
def update_contact_details(
    db: Database,
    customer_id: CustomerId,
    email: str | None = None,
    phone: str | None = None,
    address_line: Annotated[str | None, Field(description="House and street")] = None,
    city: str | None = None,
    eircode: Annotated[str | None, Field(description="Postcode, e.g. H91 K2F4")] = None,
) -> Row:
    """Change what is given of a customer's email, phone and address; the rest stays.

    A move needs address_line, city and eircode together (ADDRESS_INCOMPLETE).
    """
    before = _get(db, "customers", customer_id)
    address = (address_line, city, eircode)
    if any(address) and not all(address):
        raise ToolError("ADDRESS_INCOMPLETE", "give address_line, city and eircode together")
    given = {
        "email": email,
        "phone": phone,
        "address_line": address_line,
        "city": city,
        "eircode": eircode,
    }
    changed = {
        key: value.strip()
        for key, value in given.items()
        if value and value.strip() and value.strip() != before[key]
    }
    if not changed:
        raise ToolError("NOTHING_TO_CHANGE", "the file says that already")
    return _change(db, "update_contact", "customers", customer_id, **changed)


@tool(read_only=False)
def add_note(
    db: Database,
    customer_id: CustomerId,
    category: Literal["general", "complaint", "fraud", "refused_request"],
    text: Annotated[str, Field(min_length=1, max_length=1000)],
) -> Row:
    """Put a note on the customer's file for colleagues."""
    _get(db, "customers", customer_id)
    note_id = new_id("note", "NTE-")
    db.insert(
        "notes",
        note_id=note_id,
        customer_id=customer_id,
        category=category,
        author="Customer desk",
        text=text,
        created_at=timestamp(),
    )
    _audit(db, "add_note", note_id, category=category)
    return {"note_id": note_id}
