"""Tools of the books."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from environments.authoring import Database, ToolError, new_id, timestamp, tool

AccountId = Annotated[str, Field(min_length=3, max_length=8, description="e.g. 4100")]


@tool(read_only=True)
def list_accounts(db: Database) -> dict:
    """The accounts."""
    return {"accounts": db.rows("SELECT id, name FROM accounts ORDER BY id LIMIT 50")}


def check_account(db: Database, account_id: str) -> None:
    if db.one("SELECT id FROM accounts WHERE id = ?", account_id) is None:
        raise ToolError("ACCOUNT_NOT_FOUND", f"there is no account {account_id!r}")


@tool(read_only=True)
def list_entries(db: Database, account_id: AccountId) -> dict:
    """The entries of an account."""
    check_account(db, account_id)
    rows = db.rows("SELECT * FROM entries WHERE account_id = ? ORDER BY id", account_id)
    return {"entries": rows[:50], "total": len(rows)}


@tool(read_only=False)
def book_entry(
    db: Database,
    account_id: AccountId,
    amount_cents: Annotated[int, Field(ge=1, le=1_000_000)],
    reference: Annotated[str, Field(min_length=3, max_length=40)],
) -> dict:
    """Book an amount on an account."""
    check_account(db, account_id)
    known = db.scalar(
        "SELECT count(*) FROM entries WHERE account_id = ? AND reference = ?", account_id, reference
    )
    if known:
        raise ToolError("BOOKED_ALREADY", f"{reference} is on account {account_id} already")
    entry = new_id("entry", "E-")
    db.insert(
        "entries",
        id=entry,
        account_id=account_id,
        amount_cents=amount_cents,
        reference=reference,
        booked_at=timestamp(),
    )
    return {"entry_id": entry, "amount_cents": amount_cents, "reference": reference}
