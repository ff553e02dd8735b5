"""Tools of the stores: what there is, who asks for it, what comes in and goes out."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from environments.authoring import Database, Row, ToolError, new_id, timestamp, tool

PAGE_SIZE = 20

Page = Annotated[int, Field(ge=1, description="Page of the result, from 1; 20 rows a page")]
ItemId = Annotated[str, Field(description="Item id, e.g. 'LT-1405'")]
WarehouseId = Annotated[str, Field(description="Store: 'HAM', 'BRE' or 'MUC'")]
RequestId = Annotated[str, Field(description="Request id, e.g. 'PR-26-0113'")]
EmployeeId = Annotated[str, Field(description="Employee id, e.g. 'E-2217'")]
OrderReference = Annotated[
    str, Field(min_length=3, max_length=40, description="The order's number, e.g. 'PO-8M2K4TQX'")
]
Quantity = Annotated[int, Field(ge=1, le=10_000, description="Number of units")]
Reason = Annotated[str, Field(min_length=5, max_length=300, description="Why, in a sentence")]


def fetch(db: Database, table: str, key: str) -> Row:
    """The row of ``table`` with this id, or the error a look-up in vain answers with."""
    row = db.one(f"SELECT * FROM {table} WHERE id = ?", key)
    if row is None:
        word = table.removesuffix("s")
        raise ToolError(f"{word.upper()}_NOT_FOUND", f"there is no {word} {key!r}", id=key)
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
    return {
        "results": rows,
        "page": page,
        "pages": max(1, -(-total // PAGE_SIZE)),
        "total": total,
    }


def like(text: str | None) -> str | None:
    """``text`` as a LIKE pattern: its words in their order."""
    return None if text is None else "%" + "%".join(text.split()) + "%"


def move_stock(db: Database, item_id: str, warehouse_id: str, quantity: int, **about: Any) -> None:
    """Change what a store has on hand and record the movement; never below what is reserved."""
    row = db.one(
        "SELECT * FROM stock WHERE item_id = ? AND warehouse_id = ?", item_id, warehouse_id
    )
    free = row["on_hand"] - row["reserved"] if row else 0
    if free + quantity < 0:
        raise ToolError(
            "OUT_OF_STOCK",
            f"store {warehouse_id} has {free} of {item_id} free, asked for {-quantity}",
            item_id=item_id,
            warehouse_id=warehouse_id,
            free=free,
        )
    if row is None:
        db.insert("stock", item_id=item_id, warehouse_id=warehouse_id, on_hand=quantity)
    else:
        db.run(
            "UPDATE stock SET on_hand = on_hand + ? WHERE item_id = ? AND warehouse_id = ?",
            quantity,
            item_id,
            warehouse_id,
        )
    db.insert(
        "stock_movements",
        id=new_id("movement", "SM-"),
        item_id=item_id,
        warehouse_id=warehouse_id,
        quantity=quantity,
        moved_at=timestamp(),
        **about,
    )


# --- looking -----------------------------------------------------------------------------------


@tool(read_only=True)
def search_items(
    db: Database,
    query: Annotated[str | None, Field(description="Words of name, maker or description")] = None,
    category: Annotated[str | None, Field(description="Category id, e.g. 'laptops'")] = None,
    status: Literal["active", "discontinued"] | None = None,
    page: Page = 1,
) -> Row:
    """Search the item catalogue. Shows the units free in all stores together."""
    return listing(
        db,
        "SELECT i.id, i.name, i.category_id, i.manufacturer, i.unit, i.status, i.replaced_by, "
        "coalesce((SELECT sum(on_hand - reserved) FROM stock s WHERE s.item_id = i.id), 0) "
        "AS free_units FROM items i",
        {
            "(i.name || ' ' || i.manufacturer || ' ' || i.description) LIKE ?": like(query),
            "i.category_id = ?": category,
            "i.status = ?": status,
        },
        "i.id",
        page,
    )


@tool(read_only=True)
def get_item(db: Database, item_id: ItemId) -> Row:
    """One item and what each store has of it (free = on hand - reserved)."""
    stores = db.rows(
        "SELECT warehouse_id, on_hand, reserved, on_hand - reserved AS free, reorder_point "
        "FROM stock WHERE item_id = ? ORDER BY warehouse_id",
        item_id,
    )
    return fetch(db, "items", item_id) | {"stock": stores}


@tool(read_only=True)
def list_stock(
    db: Database,
    warehouse_id: WarehouseId | None = None,
    category: Annotated[str | None, Field(description="Category id, e.g. 'monitors'")] = None,
    below_reorder_point: Annotated[bool, Field(description="Only what has run low")] = False,
    page: Page = 1,
) -> Row:
    """What the stores have on hand, by item and store."""
    return listing(
        db,
        "SELECT s.item_id, i.name, s.warehouse_id, s.on_hand, s.reserved, "
        "s.on_hand - s.reserved AS free, s.reorder_point "
        "FROM stock s JOIN items i ON i.id = s.item_id",
        {
            "s.warehouse_id = ?": warehouse_id,
            "i.category_id = ?": category,
            "(s.on_hand < s.reorder_point) = ?": True if below_reorder_point else None,
        },
        "s.item_id, s.warehouse_id",
        page,
    )


@tool(read_only=True)
def list_movements(
    db: Database, item_id: ItemId, warehouse_id: WarehouseId | None = None, page: Page = 1
) -> Row:
    """The movements of an item since the stocktake of 5 January, newest first."""
    fetch(db, "items", item_id)
    return listing(
        db,
        "SELECT * FROM stock_movements",
        {"item_id = ?": item_id, "warehouse_id = ?": warehouse_id},
        "moved_at DESC, id",
        page,
    )


@tool(read_only=True)
def list_receipts(
    db: Database,
    order_reference: OrderReference | None = None,
    item_id: ItemId | None = None,
    page: Page = 1,
) -> Row:
    """What was taken in, newest first: by order or by item."""
    return listing(
        db,
        "SELECT * FROM receipts",
        {"order_reference = ?": order_reference, "item_id = ?": item_id},
        "received_at DESC, id",
        page,
    )


@tool(read_only=True)
def find_employees(
    db: Database,
    name: Annotated[str | None, Field(description="Name or a part of it")] = None,
    cost_centre_id: Annotated[str | None, Field(description="e.g. 'CC-4120'")] = None,
    page: Page = 1,
) -> Row:
    """Find employees with their title, cost centre and site."""
    return listing(
        db,
        "SELECT id, name, email, title, cost_centre_id, warehouse_id AS site, status "
        "FROM employees",
        {"name LIKE ?": like(name), "cost_centre_id = ?": cost_centre_id},
        "name, id",
        page,
    )


@tool(read_only=True)
def search_requests(
    db: Database,
    status: Literal["open", "ordered", "fulfilled", "rejected"] | None = None,
    item_id: ItemId | None = None,
    requester: Annotated[str | None, Field(description="Name or part of it")] = None,
    page: Page = 1,
) -> Row:
    """Search what colleagues have asked for, newest first."""
    return listing(
        db,
        "SELECT r.id, r.status, r.item_id, i.name AS item, r.quantity, r.requester_id, "
        "e.name AS requester, r.cost_centre_id, r.deliver_to, r.need_by, r.created_at "
        "FROM requests r JOIN items i ON i.id = r.item_id "
        "JOIN employees e ON e.id = r.requester_id",
        {"r.status = ?": status, "r.item_id = ?": item_id, "e.name LIKE ?": like(requester)},
        "r.created_at DESC, r.id",
        page,
    )


@tool(read_only=True)
def get_request(db: Database, request_id: RequestId) -> Row:
    """One request with its item and requester."""
    request = fetch(db, "requests", request_id)
    return request | {
        "item": fetch(db, "items", request["item_id"])["name"],
        "requester": fetch(db, "employees", request["requester_id"])["name"],
    }


# --- moving ------------------------------------------------------------------------------------


def open_request(db: Database, request_id: str) -> Row:
    request = fetch(db, "requests", request_id)
    if request["status"] != "open":
        raise ToolError(
            "REQUEST_CLOSED", f"request {request_id} is {request['status']}", id=request_id
        )
    return request


@tool(read_only=False)
def issue_stock(
    db: Database,
    item_id: ItemId,
    warehouse_id: WarehouseId,
    quantity: Quantity,
    employee_id: EmployeeId,
    request_id: RequestId | None = None,
) -> Row:
    """Hand goods from a store to an employee who works at that site.

    With a request, it must be open and for this item, quantity and person; it is then fulfilled.
    """
    fetch(db, "items", item_id)
    fetch(db, "warehouses", warehouse_id)
    person = fetch(db, "employees", employee_id)
    if person["status"] != "active":
        raise ToolError("EMPLOYEE_LEFT", f"{person['name']} has left the company")
    if person["warehouse_id"] != warehouse_id:
        raise ToolError(
            "WRONG_SITE",
            f"{person['name']} works at {person['warehouse_id']}; bring the goods there first",
            site=person["warehouse_id"],
        )
    if request_id is not None:
        wanted = open_request(db, request_id)
        asked = (wanted["item_id"], wanted["quantity"], wanted["requester_id"])
        if asked != (item_id, quantity, employee_id):
            raise ToolError(
                "REQUEST_MISMATCH",
                f"{request_id} is for {asked[1]} of {asked[0]} for {asked[2]}",
            )
        db.run("UPDATE requests SET status = 'fulfilled' WHERE id = ?", request_id)
    about = {"kind": "issue", "employee_id": employee_id, "reference": request_id}
    move_stock(db, item_id, warehouse_id, -quantity, **about)
    return {"issued": quantity, "item_id": item_id, "to": person["name"], "from": warehouse_id}


@tool(read_only=False)
def transfer_stock(
    db: Database,
    item_id: ItemId,
    from_warehouse_id: WarehouseId,
    to_warehouse_id: WarehouseId,
    quantity: Quantity,
) -> Row:
    """Move free units of an item from one store to another; the internal courier does the rest."""
    fetch(db, "items", item_id)
    for warehouse_id in (from_warehouse_id, to_warehouse_id):
        fetch(db, "warehouses", warehouse_id)
    if from_warehouse_id == to_warehouse_id:
        raise ToolError("SAME_WAREHOUSE", "source and destination are the same store")
    reference = new_id("transfer", "TR-")
    for warehouse_id, units in ((from_warehouse_id, -quantity), (to_warehouse_id, quantity)):
        move_stock(db, item_id, warehouse_id, units, kind="transfer", reference=reference)
    return {"transfer": reference, "item_id": item_id, "quantity": quantity}


@tool(read_only=False)
def adjust_stock(
    db: Database,
    item_id: ItemId,
    warehouse_id: WarehouseId,
    counted: Annotated[int, Field(ge=0, le=100_000, description="Units found in the count")],
    reason: Reason,
) -> Row:
    """Correct what a store has on hand to the number that was counted."""
    row = db.one(
        "SELECT * FROM stock WHERE item_id = ? AND warehouse_id = ?", item_id, warehouse_id
    )
    if row is None:
        raise ToolError("NOT_STOCKED", f"store {warehouse_id} does not keep {item_id}")
    if counted == row["on_hand"]:
        raise ToolError("NOTHING_TO_ADJUST", f"the books already say {counted}")
    if counted < row["reserved"]:
        raise ToolError("BELOW_RESERVED", f"{row['reserved']} of {item_id} are reserved there")
    difference = counted - row["on_hand"]
    move_stock(db, item_id, warehouse_id, difference, kind="count", note=reason)
    return {"item_id": item_id, "warehouse_id": warehouse_id, "difference": difference}


@tool(read_only=False)
def receive_goods(
    db: Database,
    order_reference: OrderReference,
    item_id: ItemId,
    warehouse_id: WarehouseId,
    quantity: Quantity,
    delivery_note: Annotated[str, Field(min_length=3, max_length=40, description="Its number")],
) -> Row:
    """Take one item of a delivery into a store, as counted at the ramp."""
    fetch(db, "items", item_id)
    fetch(db, "warehouses", warehouse_id)
    receipt_id = new_id("receipt", "GR-")
    db.insert(
        "receipts",
        id=receipt_id,
        order_reference=order_reference,
        item_id=item_id,
        warehouse_id=warehouse_id,
        quantity=quantity,
        delivery_note=delivery_note,
        received_at=timestamp(),
    )
    move_stock(db, item_id, warehouse_id, quantity, kind="receipt", reference=order_reference)
    return {"receipt_id": receipt_id, "item_id": item_id, "received": quantity}


@tool(read_only=False)
def send_back(
    db: Database,
    order_reference: OrderReference,
    item_id: ItemId,
    warehouse_id: WarehouseId,
    quantity: Quantity,
    reason: Reason,
) -> Row:
    """Take goods out of a store that go back to the supplier of an order."""
    received = db.scalar(
        "SELECT coalesce(sum(quantity), 0) FROM receipts WHERE order_reference = ? AND item_id = ?",
        order_reference,
        item_id,
    )
    if quantity > received:
        raise ToolError(
            "NOT_RECEIVED", f"{received} of {item_id} were taken in with {order_reference}"
        )
    about = {"kind": "return", "reference": order_reference, "note": reason}
    move_stock(db, item_id, warehouse_id, -quantity, **about)
    return {"item_id": item_id, "sent_back": quantity, "order_reference": order_reference}


@tool(read_only=False)
def close_request(
    db: Database,
    request_id: RequestId,
    status: Literal["ordered", "rejected"],
    outcome: Annotated[
        str, Field(min_length=3, max_length=300, description="The order's number, or why not")
    ],
) -> Row:
    """Close an open request that is not met from stock; the requester is told the outcome."""
    open_request(db, request_id)
    db.run("UPDATE requests SET status = ?, outcome = ? WHERE id = ?", status, outcome, request_id)
    return {"request_id": request_id, "status": status}
