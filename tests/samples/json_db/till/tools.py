"""The tools of a till, over the whole database as one document."""

from environments.authoring import State, ToolError, new_id, tool


@tool(read_only=True)
def find_user(state: State, name: str) -> str:
    """The id of the user with a name."""
    for key, user in state["users"].items():
        if user["name"].lower() == name.lower():
            return key
    raise ToolError("NOT_FOUND", f"nobody is called {name}")


@tool(read_only=False)
def cancel_order(state: State, order_id: str) -> dict:
    """Cancel an open order and pay it back."""
    order = state["orders"][order_id]
    if order["status"] != "open":
        raise ToolError("NOT_OPEN", f"{order_id} is {order['status']}")
    order["status"] = "cancelled"
    paid = sum(state["prices"][item["sku"]] * item["count"] for item in order["items"])
    state["users"][order["user"]]["balance"] += paid
    return order


@tool(read_only=False)
def note(state: State, text: str) -> dict:
    """Write something into the log."""
    state["log"].append({"id": new_id("note"), "text": text})
    state["next"] += 1
    state.setdefault("extra", {})["last"] = text
    return state["log"][-1]
