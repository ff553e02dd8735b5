"""Tools of the corner shop; some of them misbehave on purpose."""

import os
from typing import Annotated

from pydantic import Field

from environments.authoring import Database, ToolError, new_id, timestamp, tool


@tool(read_only=True)
def list_products(db: Database) -> list[dict]:
    """All products with price and stock."""
    return db.rows("SELECT * FROM products ORDER BY sku")


@tool(read_only=False)
def order(
    db: Database,
    sku: Annotated[str, Field(description="Which product")],
    quantity: Annotated[int, Field(ge=1, description="How many")],
) -> dict:
    """Order a product from stock."""
    product = db.one("SELECT * FROM products WHERE sku = ?", sku)
    if product is None:
        raise ToolError("NO_SUCH_PRODUCT", f"there is no product {sku}", sku=sku)
    db.run("UPDATE products SET stock = max(stock - ?, 0) WHERE sku = ?", quantity, sku)
    if product["stock"] < quantity:
        raise ToolError("OUT_OF_STOCK", f"{sku} has {product['stock']} in stock", sku=sku)
    order_id = new_id("order")
    price = product["price_cents"] * quantity
    db.insert(
        "orders", id=order_id, sku=sku, quantity=quantity, price_cents=price, ordered_at=timestamp()
    )
    return {"order_id": order_id, "price_cents": price}


@tool(read_only=False)
def break_down(db: Database) -> dict:
    """Write something, then raise."""
    db.run("UPDATE products SET stock = 0")
    raise RuntimeError("the till is on fire")


@tool(read_only=False)
def leave(db: Database) -> dict:
    """Write something, then end the process."""
    db.run("UPDATE products SET stock = 0")
    os._exit(3)


@tool(read_only=True)
def hang() -> None:
    """Never answer."""
    while True:
        pass


@tool(read_only=True)
def recite(length: Annotated[int, Field(ge=0)]) -> str:
    """Answer a long text."""
    return "tea " * length
