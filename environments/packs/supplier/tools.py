"""Tools of the suppliers' portals: offers, orders, shipments and returns.

Amounts are stored as net euro cents (``*_cents``) and shown to the agent as euros (``*_eur``).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from environments.authoring import Database, Row, ToolError, new_id, now, timestamp, tool

PAGE_SIZE = 20
RETURN_DAYS = 30

Page = Annotated[int, Field(ge=1, description="Page of the result, from 1; 20 rows a page")]
ItemId = Annotated[str, Field(description="Item id, e.g. 'LT-1405'")]
SupplierId = Annotated[str, Field(description="Supplier id, e.g. 'V-1015'")]
OrderId = Annotated[str, Field(description="Order id, e.g. 'PO-8M2K4TQX'")]
Quantity = Annotated[int, Field(ge=1, le=10_000, description="Number of units")]
Reason = Annotated[str, Field(min_length=5, max_length=300, description="Why, in a sentence")]


class OrderItem(BaseModel):
    """One position of a new order."""

    item_id: ItemId
    quantity: Quantity


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
        word = table.removesuffix("s")
        raise ToolError(f"{word.upper()}_NOT_FOUND", f"there is no {word} {key!r}", id=key)
    return row


def article(db: Database, item_id: str) -> Row:
    row = db.one("SELECT * FROM articles WHERE item_id = ?", item_id)
    if row is None:
        raise ToolError("ITEM_NOT_FOUND", f"no supplier knows an item {item_id!r}", id=item_id)
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
            f"the portal of {supplier['name']} is down ({supplier['portal_notice']}); "
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
    name = article(db, item_id)["name"]
    offer = db.one(
        "SELECT * FROM offers WHERE supplier_id = ? AND item_id = ?", supplier["id"], item_id
    )
    if offer is None:
        raise ToolError("NOT_OFFERED", f"{supplier['name']} does not list {name}")
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


def quote(supplier: Row, offer: Row, quantity: int) -> Row:
    """What so many units cost at a supplier today, and when they would come."""
    goods = offer["price_cents"] * quantity
    shipping = shipping_cents(supplier, goods)
    return {
        "supplier_id": supplier["id"],
        "supplier": supplier["name"],
        "quantity": quantity,
        "unit_price_eur": offer["price_cents"] / 100,
        "goods_eur": goods / 100,
        "shipping_eur": shipping / 100,
        "total_eur": (goods + shipping) / 100,
        "minimum_order_eur": supplier["minimum_order_cents"] / 100,
        "minimum_quantity": offer["minimum_quantity"],
        "pack_size": offer["pack_size"],
        "available": offer["available"],
        "delivery_on": (now() + timedelta(days=offer["lead_days"])).strftime("%Y-%m-%d"),
    }


# --- looking -----------------------------------------------------------------------------------


@tool(read_only=True)
def search_suppliers(
    db: Database,
    query: Annotated[str | None, Field(description="Words of name, city or country")] = None,
    item_id: Annotated[str | None, Field(description="Lists this item")] = None,
    page: Page = 1,
) -> Row:
    """Search suppliers; shows terms, status and whether their portal is up."""
    words = None if query is None else "%" + "%".join(query.split()) + "%"
    return listing(
        db,
        "SELECT * FROM suppliers v",
        {
            "(v.name || ' ' || v.city || ' ' || v.country) LIKE ?": words,
            "EXISTS (SELECT 1 FROM offers o WHERE o.supplier_id = v.id AND o.item_id = ?)": item_id,
        },
        "v.id",
        page,
    )


@tool(read_only=True)
def get_offer(
    db: Database, supplier_id: SupplierId, item_id: ItemId, quantity: Quantity = 1
) -> Row:
    """Ask a supplier for its current price and terms for so many units of an item.

    Answers SUPPLIER_UNAVAILABLE with ``retry_after_seconds`` while the portal is down.
    """
    supplier = fetch(db, "suppliers", supplier_id)
    require_portal(supplier)
    return quote(supplier, offer_for(db, supplier, item_id, quantity), quantity)


@tool(read_only=True)
def compare_offers(db: Database, item_id: ItemId, quantity: Quantity) -> Row:
    """What every supplier that lists an item asks for so many units, delivered.

    Does not judge who may be ordered from: check status, minimum order, pack size, units
    available and delivery day. A supplier whose portal is down gives no price until it is back.
    """
    name = article(db, item_id)["name"]
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
    return {"item_id": item_id, "item": name, "as_of": timestamp(), "offers": offers}


@tool(read_only=True)
def search_orders(
    db: Database,
    supplier_id: SupplierId | None = None,
    item_id: ItemId | None = None,
    buyer_reference: Annotated[str | None, Field(description="e.g. 'PR-26-0113'")] = None,
    status: Literal["ordered", "shipped", "delivered", "cancelled"] | None = None,
    page: Page = 1,
) -> Row:
    """Search our orders, newest first."""
    return listing(
        db,
        "SELECT o.id, o.status, o.supplier_id, v.name AS supplier, o.deliver_to, "
        "o.buyer_reference, o.total_cents, o.ordered_at, o.expected_on "
        "FROM orders o JOIN suppliers v ON v.id = o.supplier_id",
        {
            "o.supplier_id = ?": supplier_id,
            "EXISTS (SELECT 1 FROM order_lines l "
            "WHERE l.order_id = o.id AND l.item_id = ?)": item_id,
            "o.buyer_reference = ?": buyer_reference,
            "o.status = ?": status,
        },
        "o.ordered_at DESC, o.id",
        page,
    )


@tool(read_only=True)
def get_order(db: Database, order_id: OrderId) -> Row:
    """One order with its lines, shipments and returns."""
    order = fetch(db, "orders", order_id)
    order["supplier"] = fetch(db, "suppliers", order["supplier_id"])["name"]
    order["lines"] = db.rows(
        "SELECT l.line_no, l.item_id, a.name AS item, l.quantity, l.unit_price_cents, l.returned "
        "FROM order_lines l JOIN articles a ON a.item_id = l.item_id "
        "WHERE l.order_id = ? ORDER BY l.line_no",
        order_id,
    )
    for part in ("shipments", "returns"):
        order[part] = db.rows(f"SELECT * FROM {part} WHERE order_id = ? ORDER BY 1", order_id)
    answer: Row = euros(order)
    return answer


# --- ordering ----------------------------------------------------------------------------------


@tool(read_only=False)
def place_order(
    db: Database,
    supplier_id: SupplierId,
    deliver_to: Annotated[Literal["HAM", "BRE", "MUC"], Field(description="Store")],
    items: Annotated[list[OrderItem], Field(min_length=1, max_length=20)],
    buyer_reference: Annotated[str, Field(max_length=40, description="Our request, if any")] = "",
) -> Row:
    """Order at the supplier's current prices. It binds us at once."""
    supplier = fetch(db, "suppliers", supplier_id)
    require_portal(supplier)
    if len({item.item_id for item in items}) < len(items):
        raise ToolError("DUPLICATE_ITEM", "each item may stand on an order once")
    offers = [offer_for(db, supplier, item.item_id, item.quantity) for item in items]
    goods = sum(o["price_cents"] * i.quantity for o, i in zip(offers, items, strict=True))
    if goods < supplier["minimum_order_cents"]:
        raise ToolError(
            "BELOW_MINIMUM_ORDER",
            f"{supplier['name']} takes orders from {supplier['minimum_order_cents'] / 100:.2f} EUR "
            f"goods value, this one is {goods / 100:.2f} EUR",
            minimum_order_eur=supplier["minimum_order_cents"] / 100,
            goods_eur=goods / 100,
        )
    shipping = shipping_cents(supplier, goods)
    lead = timedelta(days=max(offer["lead_days"] for offer in offers))
    order_id = new_id("order", "PO-")
    db.insert(
        "orders",
        id=order_id,
        supplier_id=supplier_id,
        deliver_to=deliver_to,
        buyer_reference=buyer_reference,
        status="ordered",
        goods_cents=goods,
        shipping_cents=shipping,
        total_cents=goods + shipping,
        expected_on=(now() + lead).strftime("%Y-%m-%d"),
        ordered_at=timestamp(),
    )
    for line_no, (item, offer) in enumerate(zip(items, offers, strict=True), start=1):
        db.insert(
            "order_lines",
            order_id=order_id,
            line_no=line_no,
            item_id=item.item_id,
            quantity=item.quantity,
            unit_price_cents=offer["price_cents"],
        )
        db.run(
            "UPDATE offers SET available = available - ? WHERE supplier_id = ? AND item_id = ?",
            item.quantity,
            supplier_id,
            item.item_id,
        )
    return {
        "order_id": order_id,
        "supplier": supplier["name"],
        "goods_eur": goods / 100,
        "shipping_eur": shipping / 100,
        "total_eur": (goods + shipping) / 100,
        "expected_on": (now() + lead).strftime("%Y-%m-%d"),
    }


@tool(read_only=False)
def cancel_order(db: Database, order_id: OrderId, reason: Reason) -> Row:
    """Cancel an order that has not been shipped; its units are on offer again."""
    order = fetch(db, "orders", order_id)
    if order["status"] != "ordered":
        raise ToolError(
            f"ORDER_{order['status'].upper()}",
            f"order {order_id} is {order['status']}",
            order_id=order_id,
        )
    require_portal(fetch(db, "suppliers", order["supplier_id"]))
    db.run(
        "UPDATE orders SET status = 'cancelled', cancel_reason = ? WHERE id = ?", reason, order_id
    )
    db.run(
        "UPDATE offers SET available = available + (SELECT l.quantity FROM order_lines l "
        "WHERE l.order_id = ? AND l.item_id = offers.item_id) "
        "WHERE supplier_id = ? AND item_id IN "
        "(SELECT item_id FROM order_lines WHERE order_id = ?)",
        order_id,
        order["supplier_id"],
        order_id,
    )
    return {"order_id": order_id, "status": "cancelled"}


@tool(read_only=False)
def announce_return(
    db: Database,
    order_id: OrderId,
    line_no: Annotated[int, Field(ge=1, description="Line number on the order")],
    quantity: Quantity,
    reason: Reason,
) -> Row:
    """Announce that faulty goods of a delivered order come back, within 30 days of delivery."""
    order = fetch(db, "orders", order_id)
    if order["status"] != "delivered":
        raise ToolError("NOT_DELIVERED", f"order {order_id} is {order['status']}")
    line = db.one("SELECT * FROM order_lines WHERE order_id = ? AND line_no = ?", order_id, line_no)
    if line is None:
        raise ToolError("ORDER_LINE_NOT_FOUND", f"order {order_id} has no line {line_no}")
    if quantity > line["quantity"] - line["returned"]:
        raise ToolError("MORE_THAN_ORDERED", f"{line['quantity']} were ordered on line {line_no}")
    last = db.scalar(
        "SELECT max(delivered_at) FROM shipments WHERE order_id = ? AND status = 'delivered'",
        order_id,
    )
    if last is None or datetime.fromisoformat(last) + timedelta(days=RETURN_DAYS) < now():
        raise ToolError("RETURN_WINDOW_CLOSED", f"returns are taken for {RETURN_DAYS} days")
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
        "UPDATE order_lines SET returned = returned + ? WHERE order_id = ? AND line_no = ?",
        quantity,
        order_id,
        line_no,
    )
    return {"return_id": return_id, "order_id": order_id, "quantity": quantity}
