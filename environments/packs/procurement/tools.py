"""Tools of the procurement desk: stock, suppliers, orders, deliveries, invoices and budgets.

Amounts are stored as net euro cents (``*_cents``) and shown to the agent as euros (``*_eur``).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from environments.authoring import Database, Row, ToolError, new_id, now, timestamp, tool

PAGE_SIZE = 20
APPROVAL_FROM_CENTS = 250_000
"""Orders whose total is above this need an approval."""
CAPITAL_FROM_CENTS = 80_000
"""Units dearer than this are fixed assets where their category has such an account."""
PRICE_TOLERANCE = 0.01
RETURN_DAYS = 30
FREIGHT_ACCOUNT = "5800"
PAYABLES_ACCOUNT = "3300"
RESPONSIBILITY = "CASE a.role WHEN 'manager' THEN 1 WHEN 'deputy' THEN 2 ELSE 3 END"

Page = Annotated[int, Field(ge=1, description="Page of the result, from 1; 20 rows a page")]
ItemId = Annotated[str, Field(description="Item id, e.g. 'LT-1405'")]
WarehouseId = Annotated[str, Field(description="Store: 'HAM', 'BRE' or 'MUC'")]
CostCentreId = Annotated[str, Field(description="Cost centre id, e.g. 'CC-4120'")]
SupplierId = Annotated[str, Field(description="Supplier id, e.g. 'V-1015'")]
OrderId = Annotated[str, Field(description="Purchase order id, e.g. 'PO-8M2K4TQX'")]
RequisitionId = Annotated[str, Field(description="Requisition id, e.g. 'PR-26-0113'")]
InvoiceId = Annotated[str, Field(description="Our invoice number, e.g. 'INV-26-0457'")]
Quantity = Annotated[int, Field(ge=1, le=10_000, description="Number of units")]
Reason = Annotated[str, Field(min_length=5, max_length=300, description="Why, in a sentence")]


class OrderItem(BaseModel):
    """One position of a new order."""

    item_id: ItemId
    quantity: Quantity


class ReceivedLine(BaseModel):
    """What arrived of one order line."""

    line_no: Annotated[int, Field(ge=1, description="Line number on the order")]
    quantity: Annotated[int, Field(ge=1, description="Units that arrived in this delivery")]


class Posting(BaseModel):
    """The account one order line is charged to."""

    line_no: Annotated[int, Field(ge=1, description="Line number on the order")]
    account_code: Annotated[str, Field(description="Ledger account, e.g. '0670'")]


# --- what the tools share ------------------------------------------------------------------------


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
    where = " AND ".join(used) or "TRUE"
    values = [value for condition, value in used.items() for _ in range(condition.count("?"))]
    query = f"{select} WHERE {where}"
    total = db.scalar(f"SELECT count(*) FROM ({query})", *values)
    rows = db.rows(
        f"{query} ORDER BY {order} LIMIT {PAGE_SIZE} OFFSET ?", *values, (page - 1) * PAGE_SIZE
    )
    pages = max(1, -(-total // PAGE_SIZE))
    return {"results": euros(rows), "page": page, "pages": pages, "total": total}


def like(text: str | None) -> str | None:
    """``text`` as a LIKE pattern: its words in their order."""
    return None if text is None else "%" + "%".join(text.split()) + "%"


def current_period() -> str:
    return f"{now().year}-Q{(now().month + 2) // 3}"


def require_portal(supplier: Row) -> None:
    """Raise unless the supplier may be bought from and its portal answers."""
    if supplier["status"] == "blocked":
        raise ToolError(
            "SUPPLIER_BLOCKED",
            f"{supplier['name']} is blocked: {supplier['status_note']}",
            supplier_id=supplier["id"],
        )
    if supplier["portal"] == "down":
        back_at = datetime.fromisoformat(supplier["portal_back_at"])
        seconds = max(60, round((back_at - now()).total_seconds()))
        raise ToolError(
            "SUPPLIER_UNAVAILABLE",
            f"the ordering portal of {supplier['name']} is down ({supplier['portal_notice']}); "
            f"expected back at {supplier['portal_back_at']}, retry in {seconds} seconds",
            supplier_id=supplier["id"],
            expected_back_at=supplier["portal_back_at"],
            retry_after_seconds=seconds,
        )


def shipping_cents(supplier: Row, goods_cents: int) -> int:
    free_from = supplier["free_shipping_from_cents"]
    return 0 if free_from is not None and goods_cents >= free_from else supplier["shipping_cents"]


def offer_for(db: Database, supplier: Row, item_id: str, quantity: int) -> Row:
    """The supplier's current offer for so many units of an item it can be ordered in."""
    item = fetch(db, "items", item_id)
    if item["status"] == "discontinued":
        raise ToolError(
            "ITEM_DISCONTINUED",
            f"{item['name']} is discontinued; replaced by {item['replaced_by']}",
            item_id=item_id,
            replaced_by=item["replaced_by"],
        )
    offer = db.one(
        "SELECT * FROM offers WHERE supplier_id = ? AND item_id = ?", supplier["id"], item_id
    )
    if offer is None:
        raise ToolError("NOT_OFFERED", f"{supplier['name']} does not list {item['name']}")
    if quantity < offer["minimum_quantity"]:
        raise ToolError(
            "BELOW_MINIMUM_QUANTITY",
            f"{supplier['name']} sells {item_id} from {offer['minimum_quantity']} units up",
            minimum_quantity=offer["minimum_quantity"],
        )
    if quantity % offer["pack_size"]:
        raise ToolError(
            "NOT_A_PACK_MULTIPLE",
            f"{supplier['name']} sells {item_id} in packs of {offer['pack_size']}",
            pack_size=offer["pack_size"],
        )
    if quantity > offer["available"]:
        raise ToolError(
            "SUPPLIER_OUT_OF_STOCK",
            f"{supplier['name']} has {offer['available']} of {item_id}, asked for {quantity}",
            available=offer["available"],
        )
    return offer


def require_minimum(supplier: Row, goods_cents: int) -> None:
    minimum_cents = supplier["minimum_order_cents"]
    if goods_cents < minimum_cents:
        raise ToolError(
            "BELOW_MINIMUM_ORDER",
            f"{supplier['name']} takes orders from {minimum_cents / 100:.2f} EUR goods value, "
            f"this one is {goods_cents / 100:.2f} EUR",
            minimum_order_eur=minimum_cents / 100,
            goods_eur=goods_cents / 100,
        )


def require_status(order: Row, *allowed: str) -> None:
    """Raise the error a real order desk gives for an order in another status."""
    if order["status"] in allowed:
        return
    code = {
        "draft": "ORDER_NOT_PLACED",
        "ordered": "ORDER_ALREADY_PLACED",
        "partially_received": "PO_PARTIALLY_RECEIVED",
        "received": "PO_ALREADY_RECEIVED",
        "invoiced": "PO_ALREADY_INVOICED",
        "cancelled": "ORDER_CANCELLED",
    }[order["status"]]
    raise ToolError(
        code, f"order {order['id']} is {order['status']}", order_id=order["id"], allowed=allowed
    )


def order_line(db: Database, order_id: str, line_no: int) -> Row:
    line = db.one(
        "SELECT * FROM purchase_order_lines WHERE order_id = ? AND line_no = ?", order_id, line_no
    )
    if line is None:
        raise ToolError("ORDER_LINE_NOT_FOUND", f"order {order_id} has no line {line_no}")
    return line


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


# --- stock ---------------------------------------------------------------------------------------


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
    """One item with its accounts and what each store has of it (free = on hand - reserved)."""
    item = fetch(db, "items", item_id)
    category = fetch(db, "categories", item["category_id"])
    stores = db.rows(
        "SELECT warehouse_id, on_hand, reserved, on_hand - reserved AS free, reorder_point "
        "FROM stock WHERE item_id = ? ORDER BY warehouse_id",
        item_id,
    )
    return item | {
        "expense_account": category["expense_account"],
        "capital_account": category["capital_account"],
        "stock": stores,
    }


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
def list_stock_movements(
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


@tool(read_only=False)
def issue_stock(
    db: Database,
    item_id: ItemId,
    warehouse_id: WarehouseId,
    quantity: Quantity,
    employee_id: Annotated[str, Field(description="Who gets the goods, e.g. 'E-2217'")],
    requisition_id: RequisitionId | None = None,
) -> Row:
    """Hand goods from a store to an employee who works at that site.

    With a requisition, it must be open and for this item, quantity and person; it is then
    fulfilled. Reserved units are not handed out.
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
    if requisition_id is not None:
        wanted = open_requisition(db, requisition_id)
        if (wanted["item_id"], wanted["quantity"], wanted["requester_id"]) != (
            item_id,
            quantity,
            employee_id,
        ):
            raise ToolError(
                "REQUISITION_MISMATCH",
                f"{requisition_id} is for {wanted['quantity']} of {wanted['item_id']} "
                f"for {wanted['requester_id']}",
            )
        db.run("UPDATE requisitions SET status = 'fulfilled' WHERE id = ?", requisition_id)
    move_stock(
        db,
        item_id,
        warehouse_id,
        -quantity,
        kind="issue",
        employee_id=employee_id,
        reference=requisition_id,
    )
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
    fetch(db, "warehouses", from_warehouse_id)
    fetch(db, "warehouses", to_warehouse_id)
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
    counted: Annotated[int, Field(ge=0, description="Units found in the count")],
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


# --- people and budgets --------------------------------------------------------------------------


@tool(read_only=True)
def find_employees(
    db: Database,
    name: Annotated[str | None, Field(description="Name or a part of it")] = None,
    cost_centre_id: CostCentreId | None = None,
    page: Page = 1,
) -> Row:
    """Find employees with their title, cost centre, site and absence."""
    return listing(
        db,
        "SELECT e.id, e.name, e.email, e.title, e.cost_centre_id, c.name AS cost_centre, "
        "e.warehouse_id AS site, e.status, e.absent_until "
        "FROM employees e JOIN cost_centres c ON c.id = e.cost_centre_id",
        {"e.name LIKE ?": like(name), "e.cost_centre_id = ?": cost_centre_id},
        "e.name, e.id",
        page,
    )


@tool(read_only=True)
def list_cost_centres(db: Database) -> list[Row]:
    """All cost centres with name and division."""
    return db.rows("SELECT * FROM cost_centres ORDER BY id")


@tool(read_only=True)
def get_budget(
    db: Database,
    cost_centre_id: CostCentreId,
    period: Annotated[str | None, Field(description="e.g. '2026-Q1'; default: now")] = None,
) -> Row:
    """Budget, spending, commitments and what is left of a cost centre, and who approves there."""
    centre = fetch(db, "cost_centres", cost_centre_id)
    approvers = db.rows(
        "SELECT a.role, a.employee_id, e.name, a.limit_cents, e.absent_until "
        "FROM approvers a JOIN employees e ON e.id = a.employee_id "
        f"WHERE a.cost_centre_id = ? ORDER BY {RESPONSIBILITY}",
        cost_centre_id,
    )
    row = position(db, cost_centre_id, period or current_period())
    answer: Row = euros({**centre, **row, "approvers": approvers})
    return answer


@tool(read_only=True)
def list_postings(
    db: Database,
    account_code: Annotated[str | None, Field(description="e.g. '5800'")] = None,
    cost_centre_id: CostCentreId | None = None,
    posted_from: Annotated[str | None, Field(description="First day, YYYY-MM-DD")] = None,
    posted_to: Annotated[str | None, Field(description="Last day, YYYY-MM-DD")] = None,
    page: Page = 1,
) -> Row:
    """Lines of the ledger, oldest first, by account, cost centre and day of posting."""
    return listing(
        db,
        "SELECT e.id AS entry_id, e.posted_at, e.period, e.kind, e.reference, e.text, "
        "l.account_code, a.name AS account, l.cost_centre_id, l.debit_cents, l.credit_cents "
        "FROM journal_lines l JOIN journal_entries e ON e.id = l.entry_id "
        "JOIN accounts a ON a.code = l.account_code",
        {
            "l.account_code = ?": account_code,
            "l.cost_centre_id = ?": cost_centre_id,
            "substr(e.posted_at, 1, 10) >= ?": posted_from,
            "substr(e.posted_at, 1, 10) <= ?": posted_to,
        },
        "e.posted_at, e.id, l.line_no",
        page,
    )


@tool(read_only=False)
def transfer_budget(
    db: Database,
    from_cost_centre_id: CostCentreId,
    to_cost_centre_id: CostCentreId,
    amount_eur: Annotated[float, Field(gt=0, le=1_000_000, description="Euros, whole cents")],
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


# --- suppliers -----------------------------------------------------------------------------------


@tool(read_only=True)
def search_suppliers(
    db: Database,
    query: Annotated[str | None, Field(description="Words of name, city or country")] = None,
    category: Annotated[str | None, Field(description="Lists items of this category")] = None,
    page: Page = 1,
) -> Row:
    """Search suppliers; shows terms, status and whether their ordering portal is up."""
    return listing(
        db,
        "SELECT * FROM suppliers v",
        {
            "(v.name || ' ' || v.city || ' ' || v.country) LIKE ?": like(query),
            "EXISTS (SELECT 1 FROM offers o JOIN items i ON i.id = o.item_id "
            "WHERE o.supplier_id = v.id AND i.category_id = ?)": category,
        },
        "v.id",
        page,
    )


@tool(read_only=True)
def get_supplier_offer(
    db: Database, supplier_id: SupplierId, item_id: ItemId, quantity: Quantity = 1
) -> Row:
    """Ask a supplier's portal for its current price and terms for so many units of an item.

    Answers SUPPLIER_UNAVAILABLE with ``retry_after_seconds`` while the portal is down.
    """
    supplier = fetch(db, "suppliers", supplier_id)
    require_portal(supplier)
    offer = offer_for(db, supplier, item_id, quantity)
    return quote(supplier, offer, quantity)


def quote(supplier: Row, offer: Row, quantity: int) -> Row:
    """What so many units cost at a supplier today, and when they would come."""
    goods = offer["price_cents"] * quantity
    shipping = shipping_cents(supplier, goods)
    terms: Row = euros(
        {
            "unit_price_cents": offer["price_cents"],
            "goods_cents": goods,
            "shipping_cents": shipping,
            "total_cents": goods + shipping,
            "minimum_order_cents": supplier["minimum_order_cents"],
        }
    )
    return terms | {
        "supplier_id": supplier["id"],
        "supplier": supplier["name"],
        "quantity": quantity,
        "available": offer["available"],
        "minimum_quantity": offer["minimum_quantity"],
        "pack_size": offer["pack_size"],
        "delivery_on": (now() + timedelta(days=offer["lead_days"])).strftime("%Y-%m-%d"),
    }


@tool(read_only=True)
def compare_offers(db: Database, item_id: ItemId, quantity: Quantity) -> Row:
    """What every supplier that lists an item asks for so many units, delivered.

    Does not judge who may be ordered from: check status, minimum order, pack size, units
    available and delivery day. A supplier whose portal is down gives no price until it is back.
    """
    item = fetch(db, "items", item_id)
    offers = []
    for offer in db.rows("SELECT * FROM offers WHERE item_id = ? ORDER BY supplier_id", item_id):
        supplier = fetch(db, "suppliers", offer["supplier_id"])
        about = {key: supplier[key] for key in ("status", "status_note", "rating", "portal")}
        if supplier["portal"] == "down":
            about |= {
                "supplier_id": supplier["id"],
                "supplier": supplier["name"],
                "error": "SUPPLIER_UNAVAILABLE",
                "portal_notice": supplier["portal_notice"],
                "expected_back_at": supplier["portal_back_at"],
            }
        else:
            about |= quote(supplier, offer, quantity)
        offers.append(about)
    return {"item_id": item_id, "item": item["name"], "as_of": timestamp(), "offers": offers}


# --- requisitions --------------------------------------------------------------------------------


def open_requisition(db: Database, requisition_id: str) -> Row:
    requisition = fetch(db, "requisitions", requisition_id)
    if requisition["status"] != "open":
        raise ToolError(
            "REQUISITION_CLOSED",
            f"requisition {requisition_id} is {requisition['status']}",
            status=requisition["status"],
        )
    return requisition


@tool(read_only=True)
def search_requisitions(
    db: Database,
    status: Literal["open", "ordered", "fulfilled", "rejected"] | None = None,
    cost_centre_id: CostCentreId | None = None,
    item_id: ItemId | None = None,
    requester: Annotated[str | None, Field(description="Name or part of it")] = None,
    page: Page = 1,
) -> Row:
    """Search requisitions: what colleagues have asked the desk for, newest first."""
    return listing(
        db,
        "SELECT r.id, r.status, r.item_id, i.name AS item, r.quantity, r.requester_id, "
        "e.name AS requester, r.cost_centre_id, r.need_by, r.created_at "
        "FROM requisitions r JOIN items i ON i.id = r.item_id "
        "JOIN employees e ON e.id = r.requester_id",
        {
            "r.status = ?": status,
            "r.cost_centre_id = ?": cost_centre_id,
            "r.item_id = ?": item_id,
            "e.name LIKE ?": like(requester),
        },
        "r.created_at DESC, r.id",
        page,
    )


@tool(read_only=True)
def get_requisition(db: Database, requisition_id: RequisitionId) -> Row:
    """One requisition with its item, requester and the orders made for it."""
    requisition = fetch(db, "requisitions", requisition_id)
    orders = db.rows(
        "SELECT id, status, supplier_id, total_cents FROM purchase_orders "
        "WHERE requisition_id = ? ORDER BY created_at, id",
        requisition_id,
    )
    return requisition | {
        "item": fetch(db, "items", requisition["item_id"])["name"],
        "requester": fetch(db, "employees", requisition["requester_id"])["name"],
        "orders": euros(orders),
    }


@tool(read_only=False)
def reject_requisition(db: Database, requisition_id: RequisitionId, reason: Reason) -> Row:
    """Turn an open requisition down; the requester is told the reason."""
    open_requisition(db, requisition_id)
    db.run(
        "UPDATE requisitions SET status = 'rejected', decision_note = ? WHERE id = ?",
        reason,
        requisition_id,
    )
    return {"requisition_id": requisition_id, "status": "rejected"}


# --- orders --------------------------------------------------------------------------------------


@tool(read_only=True)
def search_orders(
    db: Database,
    supplier_id: SupplierId | None = None,
    cost_centre_id: CostCentreId | None = None,
    item_id: ItemId | None = None,
    status: Annotated[
        Literal["draft", "ordered", "partially_received", "received", "invoiced", "cancelled"]
        | None,
        Field(description="Status of the order"),
    ] = None,
    page: Page = 1,
) -> Row:
    """Search purchase orders, newest first."""
    return listing(
        db,
        "SELECT o.id, o.status, o.supplier_id, v.name AS supplier, o.cost_centre_id, "
        "o.requisition_id, o.total_cents, o.created_at, o.ordered_at, o.expected_on "
        "FROM purchase_orders o JOIN suppliers v ON v.id = o.supplier_id",
        {
            "o.supplier_id = ?": supplier_id,
            "o.cost_centre_id = ?": cost_centre_id,
            "EXISTS (SELECT 1 FROM purchase_order_lines l "
            "WHERE l.order_id = o.id AND l.item_id = ?)": item_id,
            "o.status = ?": status,
        },
        "o.created_at DESC, o.id",
        page,
    )


@tool(read_only=True)
def get_order(db: Database, order_id: OrderId) -> Row:
    """One order: lines, approvals, shipments, receipts, commitments and invoices."""
    order = fetch(db, "purchase_orders", order_id)
    order["lines"] = db.rows(
        "SELECT l.line_no, l.item_id, i.name AS item, l.quantity, l.unit_price_cents, "
        "l.received, l.returned FROM purchase_order_lines l JOIN items i ON i.id = l.item_id "
        "WHERE l.order_id = ? ORDER BY l.line_no",
        order_id,
    )
    for part, columns in {
        "approvals": "id, approver_id, amount_cents, status, requested_at, decided_at",
        "shipments": "tracking, carrier, status, eta, delivered_at",
        "goods_receipts": "id, line_no, quantity, delivery_note, received_at",
        "returns": "id, line_no, quantity, reason, status, created_at",
        "commitments": "id, line_no, account_code, amount_cents, status, booked_at",
        "invoices": "id, supplier_reference, total_cents, status",
    }.items():
        order[part] = db.rows(
            f"SELECT {columns} FROM {part} WHERE order_id = ? ORDER BY 1",
            order_id,
        )
    answer: Row = euros(order)
    return answer


@tool(read_only=False)
def create_order(
    db: Database,
    supplier_id: SupplierId,
    cost_centre_id: CostCentreId,
    deliver_to: WarehouseId,
    items: Annotated[list[OrderItem], Field(min_length=1, max_length=20)],
    requisition_id: RequisitionId | None = None,
) -> Row:
    """Draft an order at the supplier's current prices. It binds nobody until it is submitted.

    An order for a requisition has that requisition's item (or its replacement), quantity, cost
    centre and place of delivery.
    """
    supplier = fetch(db, "suppliers", supplier_id)
    fetch(db, "cost_centres", cost_centre_id)
    fetch(db, "warehouses", deliver_to)
    require_portal(supplier)
    if len({item.item_id for item in items}) < len(items):
        raise ToolError("DUPLICATE_ITEM", "each item may stand on an order once")
    offers = [offer_for(db, supplier, item.item_id, item.quantity) for item in items]
    if requisition_id is not None:
        require_match(db, requisition_id, (items, cost_centre_id, deliver_to))
    goods = sum(o["price_cents"] * i.quantity for o, i in zip(offers, items, strict=True))
    require_minimum(supplier, goods)
    shipping = shipping_cents(supplier, goods)
    lead = timedelta(days=max(offer["lead_days"] for offer in offers))
    order_id = new_id("order", "PO-")
    db.insert(
        "purchase_orders",
        id=order_id,
        supplier_id=supplier_id,
        cost_centre_id=cost_centre_id,
        deliver_to=deliver_to,
        requisition_id=requisition_id,
        status="draft",
        goods_cents=goods,
        shipping_cents=shipping,
        total_cents=goods + shipping,
        expected_on=(now() + lead).strftime("%Y-%m-%d"),
        created_at=timestamp(),
    )
    for line_no, (item, offer) in enumerate(zip(items, offers, strict=True), start=1):
        db.insert(
            "purchase_order_lines",
            order_id=order_id,
            line_no=line_no,
            item_id=item.item_id,
            quantity=item.quantity,
            unit_price_cents=offer["price_cents"],
        )
    return order_summary(db, order_id)


def order_summary(db: Database, order_id: str) -> Row:
    order = fetch(db, "purchase_orders", order_id)
    return {
        "order_id": order_id,
        "status": order["status"],
        "goods_eur": order["goods_cents"] / 100,
        "shipping_eur": order["shipping_cents"] / 100,
        "total_eur": order["total_cents"] / 100,
        "expected_on": order["expected_on"],
        "approval_needed": order["status"] == "draft" and approval_missing(db, order) is not None,
    }


def require_match(
    db: Database, requisition_id: str, order: tuple[list[OrderItem], str, str]
) -> None:
    """Raise unless the order is what its requisition asks for."""
    items, cost_centre_id, deliver_to = order
    wanted = open_requisition(db, requisition_id)
    drafted = db.scalar(
        "SELECT id FROM purchase_orders WHERE requisition_id = ? AND status = 'draft'",
        requisition_id,
    )
    if drafted is not None:
        raise ToolError(
            "REQUISITION_HAS_DRAFT", f"{requisition_id} already has the draft {drafted}"
        )
    item = fetch(db, "items", wanted["item_id"])
    item_id = item["replaced_by"] if item["status"] == "discontinued" else item["id"]
    expected = {
        "item_id": item_id,
        "quantity": wanted["quantity"],
        "cost_centre_id": wanted["cost_centre_id"],
        "deliver_to": wanted["deliver_to"],
    }
    given = {
        "item_id": items[0].item_id,
        "quantity": items[0].quantity,
        "cost_centre_id": cost_centre_id,
        "deliver_to": deliver_to,
    }
    if len(items) != 1 or given != expected:
        raise ToolError(
            "REQUISITION_MISMATCH", f"{requisition_id} asks for {expected}", expected=expected
        )


@tool(read_only=False)
def reprice_order(db: Database, order_id: OrderId) -> Row:
    """Take the supplier's current prices, shipping and delivery day into a draft."""
    order = fetch(db, "purchase_orders", order_id)
    require_status(order, "draft")
    supplier = fetch(db, "suppliers", order["supplier_id"])
    require_portal(supplier)
    goods, lead_days = 0, 0
    for line in db.rows("SELECT * FROM purchase_order_lines WHERE order_id = ?", order_id):
        offer = offer_for(db, supplier, line["item_id"], line["quantity"])
        goods += offer["price_cents"] * line["quantity"]
        lead_days = max(lead_days, offer["lead_days"])
        db.run(
            "UPDATE purchase_order_lines SET unit_price_cents = ? "
            "WHERE order_id = ? AND line_no = ?",
            offer["price_cents"],
            order_id,
            line["line_no"],
        )
    require_minimum(supplier, goods)
    shipping = shipping_cents(supplier, goods)
    db.run(
        "UPDATE purchase_orders SET goods_cents = ?, shipping_cents = ?, total_cents = ?, "
        "expected_on = ? WHERE id = ?",
        goods,
        shipping,
        goods + shipping,
        (now() + timedelta(days=lead_days)).strftime("%Y-%m-%d"),
        order_id,
    )
    return order_summary(db, order_id)


@tool(read_only=False)
def discard_draft(db: Database, order_id: OrderId) -> Row:
    """Throw away an order that was never submitted, with its approval requests."""
    require_status(fetch(db, "purchase_orders", order_id), "draft")
    db.run("DELETE FROM approvals WHERE order_id = ?", order_id)
    db.run("DELETE FROM purchase_order_lines WHERE order_id = ?", order_id)
    db.run("DELETE FROM purchase_orders WHERE id = ?", order_id)
    return {"order_id": order_id, "discarded": True}


def approval_missing(db: Database, order: Row) -> int | None:
    """The sum that an order needs an approval for but has none; None where it may go out.

    Orders of one day at one supplier for one cost centre count together, so that splitting an
    order does not avoid the approval.
    """
    same_day = db.scalar(
        "SELECT coalesce(sum(o.total_cents), 0) FROM purchase_orders o "
        "WHERE o.id <> ? AND o.supplier_id = ? AND o.cost_centre_id = ? "
        "AND o.status NOT IN ('draft', 'cancelled') AND substr(o.ordered_at, 1, 10) = ? "
        "AND NOT EXISTS (SELECT 1 FROM approvals a "
        "WHERE a.order_id = o.id AND a.status = 'approved')",
        order["id"],
        order["supplier_id"],
        order["cost_centre_id"],
        timestamp()[:10],
    )
    total: int = order["total_cents"] + same_day
    if total <= APPROVAL_FROM_CENTS:
        return None
    approved = db.scalar(
        "SELECT max(amount_cents) FROM approvals WHERE order_id = ? AND status = 'approved'",
        order["id"],
    )
    return None if approved is not None and approved >= order["total_cents"] else total


def entitled_approver(approvers: list[Row], approver_id: str, total_cents: int) -> Row:
    """The one among ``approvers`` (in order of responsibility) if it is theirs to decide."""
    chosen = next((row for row in approvers if row["employee_id"] == approver_id), None)
    if chosen is None:
        names = [f"{row['name']} ({row['employee_id']})" for row in approvers]
        raise ToolError("NOT_AN_APPROVER", f"may approve here: {', '.join(names)}")
    if chosen["absent_until"] is not None:
        raise ToolError(
            "APPROVER_ABSENT",
            f"{chosen['name']} is absent until {chosen['absent_until']}",
            absent_until=chosen["absent_until"],
        )
    if chosen["limit_cents"] < total_cents:
        raise ToolError(
            "APPROVER_LIMIT_TOO_LOW",
            f"{chosen['name']} approves up to {chosen['limit_cents'] / 100:.2f} EUR",
            limit_eur=chosen["limit_cents"] / 100,
        )
    responsible = next(
        row
        for row in approvers
        if row["absent_until"] is None and row["limit_cents"] >= total_cents
    )
    if responsible["employee_id"] != approver_id:
        raise ToolError("APPROVER_NOT_RESPONSIBLE", f"{responsible['name']} decides on this order")
    return chosen


@tool(read_only=False)
def request_approval(
    db: Database,
    order_id: OrderId,
    approver_id: Annotated[str, Field(description="Employee id of the approver")],
) -> Row:
    """Ask an approver of the cost centre to approve a draft. Approvers decide at set hours."""
    order = fetch(db, "purchase_orders", order_id)
    require_status(order, "draft")
    if approval_missing(db, order) is None:
        raise ToolError("APPROVAL_NOT_NEEDED", f"order {order_id} may be submitted as it is")
    require_budget(db, order["cost_centre_id"], order["total_cents"])
    approvers = db.rows(
        "SELECT a.*, e.name, e.absent_until FROM approvers a "
        "JOIN employees e ON e.id = a.employee_id "
        f"WHERE a.cost_centre_id = ? ORDER BY {RESPONSIBILITY}",
        order["cost_centre_id"],
    )
    chosen = entitled_approver(approvers, approver_id, order["total_cents"])
    if db.one("SELECT 1 FROM approvals WHERE order_id = ? AND status = 'requested'", order_id):
        raise ToolError("APPROVAL_PENDING", f"order {order_id} already waits for an approval")
    approval_id = new_id("approval", "AP-")
    db.insert(
        "approvals",
        id=approval_id,
        order_id=order_id,
        approver_id=approver_id,
        amount_cents=order["total_cents"],
        status="requested",
        requested_at=timestamp(),
    )
    return {"approval_id": approval_id, "approver": chosen["name"], "status": "requested"}


@tool(read_only=False)
def submit_order(db: Database, order_id: OrderId) -> Row:
    """Send a draft to the supplier. From then on it binds us and counts against the budget."""
    order = fetch(db, "purchase_orders", order_id)
    require_status(order, "draft")
    if order["requisition_id"] is not None:
        open_requisition(db, order["requisition_id"])
    supplier = fetch(db, "suppliers", order["supplier_id"])
    require_portal(supplier)
    for line in db.rows("SELECT * FROM purchase_order_lines WHERE order_id = ?", order_id):
        offer = offer_for(db, supplier, line["item_id"], line["quantity"])
        if offer["price_cents"] != line["unit_price_cents"]:
            raise ToolError(
                "PRICE_CHANGED",
                f"{line['item_id']} now costs {offer['price_cents'] / 100:.2f} EUR, the draft "
                f"says {line['unit_price_cents'] / 100:.2f} EUR; reprice the draft",
                item_id=line["item_id"],
                unit_price_eur=offer["price_cents"] / 100,
            )
    require_budget(db, order["cost_centre_id"], order["total_cents"])
    missing = approval_missing(db, order)
    if missing is not None:
        raise ToolError(
            "APPROVAL_REQUIRED",
            f"{missing / 100:.2f} EUR for {order['cost_centre_id']} at {supplier['name']} today "
            f"is above {APPROVAL_FROM_CENTS / 100:.2f} EUR and not approved",
            amount_eur=missing / 100,
        )
    db.run(
        "UPDATE purchase_orders SET status = 'ordered', ordered_at = ? WHERE id = ?",
        timestamp(),
        order_id,
    )
    if order["requisition_id"] is not None:
        db.run("UPDATE requisitions SET status = 'ordered' WHERE id = ?", order["requisition_id"])
    return order_summary(db, order_id)


@tool(read_only=False)
def cancel_order(db: Database, order_id: OrderId, reason: Reason) -> Row:
    """Cancel a placed order that has not been shipped. Frees its commitments and requisition."""
    order = fetch(db, "purchase_orders", order_id)
    require_status(order, "ordered")
    shipment = db.one("SELECT * FROM shipments WHERE order_id = ?", order_id)
    if shipment is not None:
        raise ToolError(
            "ORDER_SHIPPED",
            f"order {order_id} left with {shipment['carrier']} ({shipment['tracking']}); "
            "it can only be returned after delivery",
            tracking=shipment["tracking"],
        )
    require_portal(fetch(db, "suppliers", order["supplier_id"]))
    db.run(
        "UPDATE purchase_orders SET status = 'cancelled', cancel_reason = ? WHERE id = ?",
        reason,
        order_id,
    )
    db.run("UPDATE commitments SET status = 'released' WHERE order_id = ?", order_id)
    if order["requisition_id"] is not None:
        db.run("UPDATE requisitions SET status = 'open' WHERE id = ?", order["requisition_id"])
    return {"order_id": order_id, "status": "cancelled"}


@tool(read_only=False)
def book_commitment(
    db: Database,
    order_id: OrderId,
    postings: Annotated[
        list[Posting], Field(min_length=1, max_length=20, description="One for each order line")
    ],
) -> Row:
    """Book a placed order in the ledger as a commitment of its cost centre, line by line.

    Freight goes to account 5800 by itself.
    """
    order = fetch(db, "purchase_orders", order_id)
    require_status(order, "ordered", "partially_received", "received")
    if db.one("SELECT 1 FROM commitments WHERE order_id = ?", order_id):
        raise ToolError("ALREADY_BOOKED", f"order {order_id} is already booked as a commitment")
    lines = db.rows(
        "SELECT l.*, c.expense_account, c.capital_account FROM purchase_order_lines l "
        "JOIN items i ON i.id = l.item_id JOIN categories c ON c.id = i.category_id "
        "WHERE l.order_id = ? ORDER BY l.line_no",
        order_id,
    )
    if sorted(posting.line_no for posting in postings) != [line["line_no"] for line in lines]:
        raise ToolError("LINES_INCOMPLETE", f"name each of the {len(lines)} order lines once")
    accounts = {posting.line_no: posting.account_code for posting in postings}
    booked: list[tuple[int | None, str, int]] = []
    for line in lines:
        capital = line["capital_account"] is not None and (
            line["unit_price_cents"] > CAPITAL_FROM_CENTS
        )
        right = line["capital_account"] if capital else line["expense_account"]
        given = accounts[line["line_no"]]
        if given != right:
            raise ToolError(
                "WRONG_ACCOUNT",
                f"line {line['line_no']} ({line['item_id']}) cannot be charged to {given}",
                line_no=line["line_no"],
                category_accounts=[line["expense_account"], line["capital_account"]],
            )
        booked.append((line["line_no"], given, line["quantity"] * line["unit_price_cents"]))
    if order["shipping_cents"]:
        booked.append((None, FREIGHT_ACCOUNT, order["shipping_cents"]))
    for line_no, account_code, amount_cents in booked:
        db.insert(
            "commitments",
            id=new_id("commitment", "CM-"),
            order_id=order_id,
            line_no=line_no,
            cost_centre_id=order["cost_centre_id"],
            account_code=account_code,
            amount_cents=amount_cents,
            status="open",
            booked_at=timestamp(),
        )
    return {"order_id": order_id, "booked_eur": order["total_cents"] / 100}


# --- deliveries ----------------------------------------------------------------------------------


@tool(read_only=False)
def receive_goods(
    db: Database,
    order_id: OrderId,
    delivery_note: Annotated[str, Field(min_length=3, max_length=40, description="Its number")],
    lines: Annotated[list[ReceivedLine], Field(min_length=1, max_length=20)],
) -> Row:
    """Take a delivery of an order into the store it was sent to, as counted at the ramp."""
    order = fetch(db, "purchase_orders", order_id)
    require_status(order, "ordered", "partially_received")
    shipments = db.rows("SELECT * FROM shipments WHERE order_id = ? ORDER BY eta", order_id)
    if not any(shipment["status"] == "delivered" for shipment in shipments):
        eta = shipments[0]["eta"] if shipments else None
        raise ToolError(
            "NOT_DELIVERED",
            f"the carrier has delivered nothing of order {order_id} yet"
            + (f"; expected at {eta}" if eta else ""),
            eta=eta,
        )
    for item in lines:
        line = order_line(db, order_id, item.line_no)
        missing = line["quantity"] - line["received"]
        if item.quantity > missing:
            raise ToolError(
                "OVER_DELIVERY",
                f"line {item.line_no} has {missing} units outstanding, not {item.quantity}",
                outstanding=missing,
            )
        db.run(
            "UPDATE purchase_order_lines SET received = received + ? "
            "WHERE order_id = ? AND line_no = ?",
            item.quantity,
            order_id,
            item.line_no,
        )
        db.insert(
            "goods_receipts",
            id=new_id("receipt", "GR-"),
            order_id=order_id,
            line_no=item.line_no,
            quantity=item.quantity,
            delivery_note=delivery_note,
            received_at=timestamp(),
        )
        move_stock(
            db,
            line["item_id"],
            order["deliver_to"],
            item.quantity,
            kind="receipt",
            reference=order_id,
        )
    complete = not db.scalar(
        "SELECT count(*) FROM purchase_order_lines WHERE order_id = ? AND received < quantity",
        order_id,
    )
    status = "received" if complete else "partially_received"
    db.run("UPDATE purchase_orders SET status = ? WHERE id = ?", status, order_id)
    return {"order_id": order_id, "status": status}


@tool(read_only=False)
def return_goods(
    db: Database,
    order_id: OrderId,
    line_no: Annotated[int, Field(ge=1, description="Line number on the order")],
    quantity: Quantity,
    reason: Reason,
) -> Row:
    """Send faulty goods of a received order back to the supplier, within 30 days of receipt."""
    order = fetch(db, "purchase_orders", order_id)
    require_status(order, "partially_received", "received", "invoiced")
    line = order_line(db, order_id, line_no)
    left = line["received"] - line["returned"]
    if quantity > left:
        raise ToolError("NOT_RECEIVED", f"only {left} units of line {line_no} are here to return")
    last = db.scalar(
        "SELECT max(received_at) FROM goods_receipts WHERE order_id = ? AND line_no = ?",
        order_id,
        line_no,
    )
    if datetime.fromisoformat(last) + timedelta(days=RETURN_DAYS) < now():
        raise ToolError(
            "RETURN_WINDOW_CLOSED",
            f"line {line_no} was received on {last[:10]}; returns are taken for {RETURN_DAYS} days",
            received_at=last,
        )
    return_id = new_id("return", "RT-")
    db.insert(
        "returns",
        id=return_id,
        order_id=order_id,
        line_no=line_no,
        quantity=quantity,
        reason=reason,
        status="announced",
        created_at=timestamp(),
    )
    db.run(
        "UPDATE purchase_order_lines SET returned = returned + ? "
        "WHERE order_id = ? AND line_no = ?",
        quantity,
        order_id,
        line_no,
    )
    move_stock(
        db, line["item_id"], order["deliver_to"], -quantity, kind="return", reference=return_id
    )
    return {"return_id": return_id, "order_id": order_id, "quantity": quantity}


# --- invoices ------------------------------------------------------------------------------------


def differences(db: Database, invoice: Row) -> list[Row]:
    """Where an invoice departs from its order and from what was received: the three-way match."""
    if invoice["order_id"] is None:
        return [{"reason": "not_ordered", "text": "the invoice names no order of ours"}]
    order = fetch(db, "purchase_orders", invoice["order_id"])
    found = []
    twin = db.scalar(
        "SELECT id FROM invoices WHERE order_id = ? AND id <> ? AND status IN ('booked', 'paid')",
        order["id"],
        invoice["id"],
    )
    if twin is not None:
        found.append({"reason": "duplicate", "text": f"{order['id']} was invoiced with {twin}"})
    for line in db.rows("SELECT * FROM invoice_lines WHERE invoice_id = ?", invoice["id"]):
        ordered = db.one(
            "SELECT * FROM purchase_order_lines WHERE order_id = ? AND item_id = ?",
            order["id"],
            line["item_id"],
        )
        if ordered is None:
            text = f"{line['item_id']} is not on order {order['id']}"
            found.append({"reason": "not_ordered", "text": text})
            continue
        kept = ordered["received"] - ordered["returned"]
        if line["quantity"] > kept:
            text = f"{line['item_id']}: {line['quantity']} invoiced, {kept} received and kept"
            found.append({"reason": "quantity", "text": text})
        if line["unit_price_cents"] > ordered["unit_price_cents"] * (1 + PRICE_TOLERANCE):
            text = (
                f"{line['item_id']}: {line['unit_price_cents'] / 100:.2f} EUR invoiced, "
                f"{ordered['unit_price_cents'] / 100:.2f} EUR ordered"
            )
            found.append({"reason": "price", "text": text})
    if invoice["shipping_cents"] > order["shipping_cents"] * (1 + PRICE_TOLERANCE):
        text = (
            f"shipping: {invoice['shipping_cents'] / 100:.2f} EUR invoiced, "
            f"{order['shipping_cents'] / 100:.2f} EUR ordered"
        )
        found.append({"reason": "price", "text": text})
    return found


def waiting_invoice(db: Database, invoice_id: str) -> Row:
    invoice = fetch(db, "invoices", invoice_id)
    if invoice["status"] != "received":
        code = "INVOICE_DISPUTED" if invoice["status"] == "disputed" else "INVOICE_ALREADY_BOOKED"
        raise ToolError(code, f"invoice {invoice_id} is {invoice['status']}")
    return invoice


@tool(read_only=True)
def search_invoices(
    db: Database,
    supplier_id: SupplierId | None = None,
    status: Literal["received", "booked", "paid", "disputed"] | None = None,
    order_id: OrderId | None = None,
    due_to: Annotated[str | None, Field(description="Due on or before, YYYY-MM-DD")] = None,
    page: Page = 1,
) -> Row:
    """Search supplier invoices by due date. 'received' means neither booked nor disputed yet."""
    return listing(
        db,
        "SELECT n.id, n.status, n.supplier_id, v.name AS supplier, n.supplier_reference, "
        "n.order_id, n.total_cents, n.invoice_date, n.due_on "
        "FROM invoices n JOIN suppliers v ON v.id = n.supplier_id",
        {
            "n.supplier_id = ?": supplier_id,
            "n.status = ?": status,
            "n.order_id = ?": order_id,
            "n.due_on <= ?": due_to,
        },
        "n.due_on, n.id",
        page,
    )


@tool(read_only=True)
def get_invoice(db: Database, invoice_id: InvoiceId) -> Row:
    """One invoice with its lines. Compare with the order and its receipts before booking it."""
    invoice = fetch(db, "invoices", invoice_id)
    invoice["lines"] = db.rows(
        "SELECT n.line_no, n.item_id, i.name AS item, n.quantity, n.unit_price_cents "
        "FROM invoice_lines n JOIN items i ON i.id = n.item_id "
        "WHERE n.invoice_id = ? ORDER BY n.line_no",
        invoice_id,
    )
    answer: Row = euros(invoice)
    return answer


def post_charges(db: Database, entry_id: str, invoice: Row, commitments: list[Row]) -> None:
    """Debit what each commitment's line was invoiced at, credit the supplier."""
    charges = {
        row["line_no"]: row["quantity"] * row["unit_price_cents"]
        for row in db.rows(
            "SELECT l.line_no, n.quantity, n.unit_price_cents FROM invoice_lines n "
            "JOIN purchase_order_lines l ON l.order_id = ? AND l.item_id = n.item_id "
            "WHERE n.invoice_id = ?",
            invoice["order_id"],
            invoice["id"],
        )
    } | {None: invoice["shipping_cents"]}
    written = 0
    for commitment in commitments:
        amount_cents = charges.get(commitment["line_no"], 0)
        if amount_cents:
            written += 1
            db.insert(
                "journal_lines",
                entry_id=entry_id,
                line_no=written,
                account_code=commitment["account_code"],
                cost_centre_id=commitment["cost_centre_id"],
                debit_cents=amount_cents,
            )
    db.insert(
        "journal_lines",
        entry_id=entry_id,
        line_no=written + 1,
        account_code=PAYABLES_ACCOUNT,
        credit_cents=invoice["total_cents"],
    )


@tool(read_only=False)
def book_invoice(db: Database, invoice_id: InvoiceId) -> Row:
    """Book an invoice that matches its order and the goods received; it is then due for payment.

    Charges the accounts of the order's commitments and releases them.
    """
    invoice = waiting_invoice(db, invoice_id)
    found = differences(db, invoice)
    if found:
        code = (
            "DUPLICATE_INVOICE"
            if any(item["reason"] == "duplicate" for item in found)
            else "INVOICE_MISMATCH"
        )
        texts = "; ".join(item["text"] for item in found)
        raise ToolError(code, f"{invoice_id} cannot be booked: {texts}", differences=found)
    order = fetch(db, "purchase_orders", invoice["order_id"])
    commitments = db.rows(
        "SELECT * FROM commitments WHERE order_id = ? AND status = 'open' "
        "ORDER BY line_no IS NULL, line_no",
        order["id"],
    )
    if not commitments:
        raise ToolError("COMMITMENT_MISSING", f"order {order['id']} was never booked; do it first")
    entry_id = new_id("entry", "JE-")
    supplier = fetch(db, "suppliers", invoice["supplier_id"])
    db.insert(
        "journal_entries",
        id=entry_id,
        period=current_period(),
        kind="invoice",
        reference=invoice_id,
        text=f"{supplier['name']} {invoice['supplier_reference']}",
        posted_at=timestamp(),
    )
    post_charges(db, entry_id, invoice, commitments)
    db.run("UPDATE commitments SET status = 'released' WHERE order_id = ?", order["id"])
    db.run("UPDATE purchase_orders SET status = 'invoiced' WHERE id = ?", order["id"])
    db.run("UPDATE invoices SET status = 'booked' WHERE id = ?", invoice_id)
    return {"entry_id": entry_id, "invoice_id": invoice_id, "status": "booked"}


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
