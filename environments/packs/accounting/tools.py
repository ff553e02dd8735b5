"""Tools of accounting: budgets, commitments, invoices and the ledger.

Amounts are stored as net euro cents (``*_cents``) and shown to the agent as euros (``*_eur``).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from environments.authoring import Database, Row, ToolError, new_id, now, timestamp, tool

PAGE_SIZE = 20
TOLERANCE = 0.01
FREIGHT_ACCOUNT = "5800"
PAYABLES_ACCOUNT = "3300"

Page = Annotated[int, Field(ge=1, description="Page of the result, from 1; 20 rows a page")]
CostCentreId = Annotated[str, Field(description="Cost centre id, e.g. 'CC-4120'")]
InvoiceId = Annotated[str, Field(description="Our invoice number, e.g. 'INV-26-0457'")]
OrderReference = Annotated[
    str, Field(min_length=3, max_length=40, description="The order's number, e.g. 'PO-8M2K4TQX'")
]
Amount = Annotated[float, Field(gt=0, le=1_000_000, description="Euros, whole cents")]
Reason = Annotated[str, Field(min_length=5, max_length=300, description="Why, in a sentence")]


class Posting(BaseModel):
    """One line of a commitment."""

    account_code: Annotated[str, Field(description="Ledger account, e.g. '0670'")]
    amount_eur: Amount
    text: Annotated[str, Field(min_length=2, max_length=120, description="What it is for")]


def euros(value: Any) -> Any:
    """The same rows with every ``*_cents`` shown as ``*_eur``."""
    if isinstance(value, list):
        return [euros(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key.removesuffix("_cents") + "_eur" if key.endswith("_cents") else key: (
            item / 100 if key.endswith("_cents") and item is not None else euros(item)
        )
        for key, item in value.items()
    }


def fetch(db: Database, table: str, key: str) -> Row:
    """The row of ``table`` with this id, or the error a look-up in vain answers with."""
    row = db.one(f"SELECT * FROM {table} WHERE id = ?", key)
    if row is None:
        word = table.removesuffix("s").replace("_", " ")
        code = f"{word.upper().replace(' ', '_')}_NOT_FOUND"
        raise ToolError(code, f"there is no {word} {key!r}", id=key)
    return row


def listing(db: Database, select: str, filters: dict[str, Any], order: str, page: int) -> Row:
    """One page of ``select`` under the conditions whose value is not None."""
    used = {condition: value for condition, value in filters.items() if value is not None}
    values = list(used.values())
    query = f"{select} WHERE {' AND '.join(used) or 'TRUE'}"
    total = db.scalar(f"SELECT count(*) FROM ({query})", *values)
    rows = db.rows(
        f"{query} ORDER BY {order} LIMIT {PAGE_SIZE} OFFSET ?", *values, (page - 1) * PAGE_SIZE
    )
    pages = max(1, -(-total // PAGE_SIZE))
    return {"results": euros(rows), "page": page, "pages": pages, "total": total}


def current_period() -> str:
    return f"{now().year}-Q{(now().month + 2) // 3}"


def position(db: Database, cost_centre_id: str, period: str) -> Row:
    row = db.one(
        "SELECT * FROM budget_positions WHERE cost_centre_id = ? AND period = ?",
        cost_centre_id,
        period,
    )
    if row is None:
        raise ToolError("NO_BUDGET", f"{cost_centre_id} has no released budget for {period}")
    return row


def require_budget(db: Database, cost_centre_id: str, amount_cents: int) -> None:
    available = position(db, cost_centre_id, current_period())["available_cents"]
    if amount_cents > available:
        raise ToolError(
            "BUDGET_EXCEEDED",
            f"{cost_centre_id} has {available / 100:.2f} EUR left in {current_period()}, "
            f"{amount_cents / 100:.2f} EUR are needed",
            available_eur=available / 100,
            needed_eur=amount_cents / 100,
        )


# --- looking -----------------------------------------------------------------------------------


@tool(read_only=True)
def list_cost_centres(db: Database) -> list[Row]:
    """All cost centres with name and division."""
    return db.rows("SELECT * FROM cost_centres ORDER BY id")


@tool(read_only=True)
def list_posting_rules(db: Database) -> list[Row]:
    """For each category of goods the expense account and the capital account, if it has one."""
    return db.rows(
        "SELECT r.category, r.expense_account, e.name AS expense_name, r.capital_account, "
        "c.name AS capital_name FROM posting_rules r JOIN accounts e ON e.code = r.expense_account "
        "LEFT JOIN accounts c ON c.code = r.capital_account ORDER BY r.category"
    )


@tool(read_only=True)
def get_budget(
    db: Database,
    cost_centre_id: CostCentreId,
    period: Annotated[str | None, Field(description="e.g. '2026-Q1'; default: now")] = None,
) -> Row:
    """Budget, spending, commitments and what is left of a cost centre."""
    centre = fetch(db, "cost_centres", cost_centre_id)
    answer: Row = euros({**centre, **position(db, cost_centre_id, period or current_period())})
    return answer


@tool(read_only=True)
def search_commitments(
    db: Database,
    order_reference: OrderReference | None = None,
    cost_centre_id: CostCentreId | None = None,
    status: Literal["open", "released"] | None = None,
    page: Page = 1,
) -> Row:
    """Search commitments by order, cost centre and status, newest first."""
    return listing(
        db,
        "SELECT c.*, a.name AS account FROM commitments c "
        "JOIN accounts a ON a.code = c.account_code",
        {
            "c.order_reference = ?": order_reference,
            "c.cost_centre_id = ?": cost_centre_id,
            "c.status = ?": status,
        },
        "c.booked_at DESC, c.id",
        page,
    )


@tool(read_only=True)
def search_invoices(
    db: Database,
    supplier: Annotated[str | None, Field(description="Words of the supplier's name")] = None,
    status: Literal["received", "booked", "paid", "disputed"] | None = None,
    order_reference: OrderReference | None = None,
    due_to: Annotated[str | None, Field(description="Due on or before, YYYY-MM-DD")] = None,
    page: Page = 1,
) -> Row:
    """Search suppliers' invoices by due date. 'received': neither booked nor disputed yet."""
    words = None if supplier is None else "%" + "%".join(supplier.split()) + "%"
    return listing(
        db,
        "SELECT id, status, supplier, supplier_reference, order_reference, total_cents, "
        "invoice_date, due_on FROM invoices",
        {
            "supplier LIKE ?": words,
            "status = ?": status,
            "order_reference = ?": order_reference,
            "due_on <= ?": due_to,
        },
        "due_on, id",
        page,
    )


@tool(read_only=True)
def get_invoice(db: Database, invoice_id: InvoiceId) -> Row:
    """One invoice with its lines. Compare with order and receipts before you book it."""
    invoice = fetch(db, "invoices", invoice_id)
    invoice["lines"] = db.rows(
        "SELECT line_no, item_id, text, quantity, unit_price_cents FROM invoice_lines "
        "WHERE invoice_id = ? ORDER BY line_no",
        invoice_id,
    )
    answer: Row = euros(invoice)
    return answer


# --- budgets and commitments -------------------------------------------------------------------


@tool(read_only=False)
def transfer_budget(
    db: Database,
    from_cost_centre_id: CostCentreId,
    to_cost_centre_id: CostCentreId,
    amount_eur: Amount,
    reason: Reason,
) -> Row:
    """Move budget of the current quarter between two cost centres of the same division."""
    giver = fetch(db, "cost_centres", from_cost_centre_id)
    taker = fetch(db, "cost_centres", to_cost_centre_id)
    if giver["id"] == taker["id"]:
        raise ToolError("SAME_COST_CENTRE", "source and destination are the same cost centre")
    if giver["division"] != taker["division"]:
        raise ToolError(
            "TRANSFER_NOT_ALLOWED",
            f"{giver['name']} belongs to {giver['division']}, {taker['name']} to "
            f"{taker['division']}; budget stays within a division",
        )
    amount_cents = round(amount_eur * 100)
    if amount_cents < 1:
        raise ToolError("AMOUNT_TOO_SMALL", "the smallest amount is 0.01 EUR")
    position(db, taker["id"], current_period())
    require_budget(db, giver["id"], amount_cents)
    transfer_id = new_id("budget-transfer", "BT-")
    db.insert(
        "budget_transfers",
        id=transfer_id,
        period=current_period(),
        from_cost_centre_id=giver["id"],
        to_cost_centre_id=taker["id"],
        amount_cents=amount_cents,
        reason=reason,
        made_at=timestamp(),
    )
    left = position(db, giver["id"], current_period())["available_cents"]
    return {"transfer_id": transfer_id, "left_at_source_eur": left / 100}


@tool(read_only=False)
def book_commitment(
    db: Database,
    order_reference: OrderReference,
    cost_centre_id: CostCentreId,
    postings: Annotated[
        list[Posting], Field(min_length=1, max_length=20, description="Lines, and freight if any")
    ],
) -> Row:
    """Book a placed order as a commitment of a cost centre. It counts against its budget."""
    fetch(db, "cost_centres", cost_centre_id)
    if db.one("SELECT 1 FROM commitments WHERE order_reference = ?", order_reference):
        raise ToolError("ALREADY_BOOKED", f"order {order_reference} is already booked")
    for posting in postings:
        kind = db.scalar("SELECT kind FROM accounts WHERE code = ?", posting.account_code)
        if kind is None or kind == "liability":
            raise ToolError("WRONG_ACCOUNT", f"nothing is charged to {posting.account_code}")
    amounts = [round(posting.amount_eur * 100) for posting in postings]
    if min(amounts) < 1:
        raise ToolError("AMOUNT_TOO_SMALL", "the smallest amount is 0.01 EUR")
    require_budget(db, cost_centre_id, sum(amounts))
    for posting, amount_cents in zip(postings, amounts, strict=True):
        db.insert(
            "commitments",
            id=new_id("commitment", "CM-"),
            order_reference=order_reference,
            cost_centre_id=cost_centre_id,
            account_code=posting.account_code,
            text=posting.text,
            amount_cents=amount_cents,
            status="open",
            booked_at=timestamp(),
        )
    return {"order_reference": order_reference, "booked_eur": sum(amounts) / 100}


@tool(read_only=False)
def release_commitment(db: Database, order_reference: OrderReference, reason: Reason) -> Row:
    """Release what is still committed for an order that will not be delivered."""
    changed = db.run(
        "UPDATE commitments SET status = 'released' WHERE order_reference = ? AND status = 'open'",
        order_reference,
    )
    if not changed:
        raise ToolError("NOTHING_COMMITTED", f"nothing is committed for order {order_reference}")
    return {"order_reference": order_reference, "released": changed, "reason": reason}


# --- invoices ----------------------------------------------------------------------------------


def waiting_invoice(db: Database, invoice_id: str) -> Row:
    invoice = fetch(db, "invoices", invoice_id)
    if invoice["status"] != "received":
        code = "INVOICE_DISPUTED" if invoice["status"] == "disputed" else "INVOICE_ALREADY_BOOKED"
        raise ToolError(code, f"invoice {invoice_id} is {invoice['status']}")
    return invoice


@tool(read_only=False)
def book_invoice(db: Database, invoice_id: InvoiceId) -> Row:
    """Book an invoice against the commitments of its order; it is then due for payment.

    Takes an amount up to 1 % above what is committed. Whether the goods came is not known here.
    """
    invoice = waiting_invoice(db, invoice_id)
    commitments = db.rows(
        "SELECT * FROM commitments WHERE order_reference IS ? AND status = 'open' ORDER BY id",
        invoice["order_reference"],
    )
    if not commitments:
        raise ToolError(
            "COMMITMENT_MISSING", f"nothing is committed for {invoice['order_reference']}"
        )
    committed = sum(row["amount_cents"] for row in commitments)
    if invoice["total_cents"] > committed * (1 + TOLERANCE):
        raise ToolError(
            "EXCEEDS_COMMITMENT",
            f"{invoice['total_cents'] / 100:.2f} EUR invoiced, {committed / 100:.2f} EUR committed",
            invoiced_eur=invoice["total_cents"] / 100,
            committed_eur=committed / 100,
        )
    entry_id = new_id("entry", "JE-")
    db.insert(
        "journal_entries",
        id=entry_id,
        period=current_period(),
        kind="invoice",
        reference=invoice_id,
        text=f"{invoice['supplier']} {invoice['supplier_reference']}",
        posted_at=timestamp(),
    )
    post_charges(db, entry_id, invoice, commitments)
    db.run(
        "UPDATE commitments SET status = 'released' WHERE order_reference = ? AND status = 'open'",
        invoice["order_reference"],
    )
    db.run("UPDATE invoices SET status = 'booked' WHERE id = ?", invoice_id)
    return {"entry_id": entry_id, "invoice_id": invoice_id, "status": "booked"}


def post_charges(db: Database, entry_id: str, invoice: Row, commitments: list[Row]) -> None:
    """Debit the accounts of the commitments, the largest taking what the invoice differs by, and
    credit the supplier."""
    difference = invoice["total_cents"] - sum(row["amount_cents"] for row in commitments)
    largest = max(commitments, key=lambda row: (row["amount_cents"], row["id"]))
    for line_no, row in enumerate(commitments, start=1):
        db.insert(
            "journal_lines",
            entry_id=entry_id,
            line_no=line_no,
            account_code=row["account_code"],
            cost_centre_id=row["cost_centre_id"],
            debit_cents=row["amount_cents"] + (difference if row is largest else 0),
        )
    db.insert(
        "journal_lines",
        entry_id=entry_id,
        line_no=len(commitments) + 1,
        account_code=PAYABLES_ACCOUNT,
        credit_cents=invoice["total_cents"],
    )


@tool(read_only=False)
def dispute_invoice(
    db: Database,
    invoice_id: InvoiceId,
    reason: Annotated[
        Literal["price", "quantity", "duplicate", "not_ordered", "damaged"],
        Field(description="What is wrong; a duplicate is a duplicate whatever else is wrong"),
    ],
    note: Annotated[str, Field(min_length=5, max_length=300, description="For the supplier")],
) -> Row:
    """Send an invoice back to the supplier for correction, with the reason."""
    waiting_invoice(db, invoice_id)
    db.run(
        "UPDATE invoices SET status = 'disputed', dispute_reason = ?, dispute_note = ? "
        "WHERE id = ?",
        reason,
        note,
        invoice_id,
    )
    return {"invoice_id": invoice_id, "status": "disputed", "reason": reason}
