"""Tools of the till."""

from typing import Annotated

from pydantic import Field

from environments.authoring import Database, ToolError, new_id, timestamp, tool


@tool(read_only=True)
def list_bills(db: Database) -> list[dict]:
    """All bills."""
    return db.rows("SELECT * FROM bills ORDER BY id")


@tool(read_only=False)
def bill(
    db: Database,
    order_id: Annotated[str, Field(description="The shop's order")],
    amount_cents: Annotated[int, Field(ge=1, description="What it costs")],
) -> dict:
    """Write a bill for an order."""
    if db.one("SELECT 1 FROM bills WHERE order_id = ?", order_id):
        raise ToolError("ALREADY_BILLED", f"{order_id} has a bill")
    bill_id = new_id("order", "bill-")
    db.insert(
        "bills", id=bill_id, order_id=order_id, amount_cents=amount_cents, billed_at=timestamp()
    )
    return {"bill_id": bill_id}


@tool(read_only=False)
def note(db: Database, text: str) -> dict:
    """Leave a note beside the till."""
    db.insert("notes", text=text)
    return {"noted": text}


@tool(read_only=False)
def jam(db: Database) -> dict:
    """Write something, then raise."""
    db.run("DELETE FROM bills")
    raise RuntimeError("the drawer is stuck")
