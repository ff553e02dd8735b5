"""The procurement desk's rules and traps, as an agent at the desk meets them."""

from __future__ import annotations

from typing import Any

import pytest

from environments.environment import Environments
from environments.episode import Episode
from environments.oracle import play_oracle

pytestmark = pytest.mark.anyio

DESK = "procurement"
KESTREL, NORDLICHT_IT, ALSTERDATA = "V-1003", "V-1007", "V-1015"
PIXELKONTOR, TECHDISCOUNT, LABORA = "V-1019", "V-1021", "V-1030"
MEYERDIERKS, MESSHAUS = "V-1052", "V-1038"
LAPTOP, MONITOR, GLOVES, GAUGE = "LT-1432", "MN-2710", "SG-0412", "MI-0410"


async def begin(shipped: Environments, task: str | None = None) -> Episode:
    return await Episode.start(await shipped.get(DESK), task=task)


async def answer(episode: Episode, tool: str, **arguments: Any) -> Any:
    step = await episode.call(tool, arguments)
    assert step.error is None, step.error
    return step.result


async def refusal(episode: Episode, tool: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    step = await episode.call(tool, arguments)
    assert step.error is not None, step.result
    assert step.error.kind == "agent"
    return step.error.code, step.error.details


async def open_request(episode: Episode, item_id: str) -> dict[str, Any]:
    found = await answer(episode, "search_requisitions", item_id=item_id, status="open")
    assert found["total"] == 1, found
    return dict(await answer(episode, "get_requisition", requisition_id=found["results"][0]["id"]))


async def draft_for(episode: Episode, request: dict[str, Any], supplier_id: str) -> str:
    drafted = await answer(episode, "create_order", **order_for(request, supplier_id))
    return str(drafted["order_id"])


def order_for(request: dict[str, Any], supplier_id: str) -> dict[str, Any]:
    return {
        "supplier_id": supplier_id,
        "cost_centre_id": request["cost_centre_id"],
        "deliver_to": request["deliver_to"],
        "items": [{"item_id": request["item_id"], "quantity": request["quantity"]}],
        "requisition_id": request["id"],
    }


async def place(episode: Episode, order_id: str, *accounts: str) -> None:
    await answer(episode, "submit_order", order_id=order_id)
    postings = [{"line_no": n, "account_code": code} for n, code in enumerate(accounts, start=1)]
    await answer(episode, "book_commitment", order_id=order_id, postings=postings)


async def staff(episode: Episode, name: str, cost_centre_id: str) -> str:
    found = await answer(episode, "find_employees", name=name, cost_centre_id=cost_centre_id)
    assert found["total"] == 1, found
    return str(found["results"][0]["id"])


def agent_rows(episode: Episode, table: str, kind: str) -> list[dict[str, Any]]:
    changes = episode.changes(actor="agent").to_json()
    return list(changes.get(table, {}).get(kind, []))


# --- suppliers on the clock ----------------------------------------------------------------------


async def test_a_supplier_that_is_down_says_when_to_retry_and_comes_back_with_another_price(
    shipped: Environments,
) -> None:
    episode = await begin(shipped)
    request = {"supplier_id": KESTREL, "item_id": LAPTOP}
    code, details = await refusal(episode, "get_supplier_offer", **request)
    assert code == "SUPPLIER_UNAVAILABLE"
    offers = (await answer(episode, "compare_offers", item_id=LAPTOP, quantity=1))["offers"]
    silent = [offer for offer in offers if offer["portal"] == "down"]
    assert [offer["supplier_id"] for offer in silent] == [KESTREL]
    assert not any("price" in key for key in silent[0])
    await answer(episode, "wait", seconds=details["retry_after_seconds"] - 1)
    assert (await refusal(episode, "get_supplier_offer", **request))[0] == "SUPPLIER_UNAVAILABLE"
    await answer(episode, "wait", seconds=1)
    offer = await answer(episode, "get_supplier_offer", **request)
    assert (offer["unit_price_eur"], offer["total_eur"]) == (1365.0, 1374.9)
    assert not agent_rows(episode, "offers", "changed")
    assert not agent_rows(episode, "suppliers", "changed")


async def test_an_outage_may_last_longer_than_announced(shipped: Environments) -> None:
    episode = await begin(shipped)
    request = {"supplier_id": MESSHAUS, "item_id": GAUGE, "quantity": 2}
    announced = []
    for _ in range(2):
        code, details = await refusal(episode, "get_supplier_offer", **request)
        assert code == "SUPPLIER_UNAVAILABLE"
        announced.append(details["expected_back_at"])
        await answer(episode, "wait", seconds=details["retry_after_seconds"])
    assert announced == ["2026-03-02T09:30:00Z", "2026-03-02T13:15:00Z"]
    assert (await answer(episode, "get_supplier_offer", **request))["unit_price_eur"] == 1184.0


async def test_the_laptop_goes_neither_to_the_blocked_nor_the_dear_supplier(
    shipped: Environments,
) -> None:
    episode = await begin(shipped, "laptop-for-the-new-engineer")
    request = await open_request(episode, LAPTOP)
    code, _ = await refusal(episode, "create_order", **order_for(request, TECHDISCOUNT))
    assert code == "SUPPLIER_BLOCKED"
    order_id = await draft_for(episode, request, NORDLICHT_IT)
    code, details = await refusal(episode, "submit_order", order_id=order_id)
    assert code == "BUDGET_EXCEEDED"
    assert details["available_eur"] < details["needed_eur"]
    await answer(episode, "discard_draft", order_id=order_id)
    assert not episode.changes(actor="agent")


async def test_a_supplier_that_delivers_too_late_is_the_wrong_choice(shipped: Environments) -> None:
    episode = await begin(shipped, "laptop-for-the-new-engineer")
    request = await open_request(episode, LAPTOP)
    order_id = await draft_for(episode, request, PIXELKONTOR)
    late = (await answer(episode, "get_order", order_id=order_id))["expected_on"]
    assert late > request["need_by"]
    await place(episode, order_id, "0690")
    assert (await episode.score()).value == 0.0


# --- approvals -----------------------------------------------------------------------------------


async def test_orders_cannot_be_split_to_avoid_the_approval(shipped: Environments) -> None:
    episode = await begin(shipped)
    order = {"supplier_id": PIXELKONTOR, "cost_centre_id": "CC-5200", "deliver_to": "HAM"}
    first, drafted = [
        await answer(
            episode, "create_order", items=[{"item_id": MONITOR, "quantity": units}], **order
        )
        for units in (4, 3)
    ]
    assert not first["approval_needed"]
    await answer(episode, "submit_order", order_id=first["order_id"])
    assert drafted["total_eur"] < 2500
    code, details = await refusal(episode, "submit_order", order_id=drafted["order_id"])
    assert code == "APPROVAL_REQUIRED"
    assert details["amount_eur"] > 2500


async def test_only_the_responsible_approver_decides_and_only_at_the_set_hours(
    shipped: Environments,
) -> None:
    episode = await begin(shipped)
    order_id = await draft_for(episode, await open_request(episode, MONITOR), PIXELKONTOR)
    budget = await answer(episode, "get_budget", cost_centre_id="CC-5200")
    approver = {row["role"]: row["employee_id"] for row in budget["approvers"]}
    for person, expected in (
        (approver["manager"], "APPROVER_ABSENT"),
        (approver["director"], "APPROVER_NOT_RESPONSIBLE"),
        (await staff(episode, "Isabel Castro", "CC-5200"), "NOT_AN_APPROVER"),
    ):
        code, _ = await refusal(episode, "request_approval", order_id=order_id, approver_id=person)
        assert code == expected
    asked = {"order_id": order_id, "approver_id": approver["deputy"]}
    await answer(episode, "request_approval", **asked)
    assert (await refusal(episode, "request_approval", **asked))[0] == "APPROVAL_PENDING"
    await answer(episode, "wait", seconds=4 * 3600)
    order = await answer(episode, "get_order", order_id=order_id)
    assert [row["status"] for row in order["approvals"]] == ["approved"]
    # the price has fallen meanwhile: the draft is stale, the approval still covers it
    assert (await refusal(episode, "submit_order", order_id=order_id))[0] == "PRICE_CHANGED"
    repriced = await answer(episode, "reprice_order", order_id=order_id)
    assert repriced["total_eur"] < order["total_eur"]
    await answer(episode, "submit_order", order_id=order_id)


async def test_a_draft_thrown_away_after_its_approval_leaves_no_trace(
    shipped: Environments,
) -> None:
    episode = await begin(shipped)
    order_id = await draft_for(episode, await open_request(episode, MONITOR), PIXELKONTOR)
    deputy = await staff(episode, "Bjarne Holt", "CC-5200")
    await answer(episode, "request_approval", order_id=order_id, approver_id=deputy)
    await answer(episode, "wait", seconds=4 * 3600)
    await answer(episode, "discard_draft", order_id=order_id)
    assert not episode.changes(actor="agent")


# --- what may be ordered, and where it is charged ------------------------------------------------


async def test_padding_an_order_to_a_full_pack_is_not_what_was_asked(
    shipped: Environments,
) -> None:
    episode = await begin(shipped, "gloves-for-assembly")
    order = {"cost_centre_id": "CC-3100", "deliver_to": "BRE"}
    six = {"items": [{"item_id": GLOVES, "quantity": 6}]}
    ten = {"items": [{"item_id": GLOVES, "quantity": 10}]}
    code, details = await refusal(episode, "create_order", supplier_id=LABORA, **order, **six)
    assert (code, details["minimum_order_eur"]) == ("BELOW_MINIMUM_ORDER", 150.0)
    code, details = await refusal(episode, "create_order", supplier_id=MEYERDIERKS, **order, **six)
    assert (code, details["minimum_quantity"]) == ("BELOW_MINIMUM_QUANTITY", 10)
    drafted = await answer(episode, "create_order", supplier_id=MEYERDIERKS, **order, **ten)
    await place(episode, drafted["order_id"], "6825")
    assert (await episode.score()).value == 0.0


async def test_a_request_is_ordered_as_it_stands_and_as_the_replacement(
    shipped: Environments,
) -> None:
    episode = await begin(shipped)
    request = await open_request(episode, "KB-0200")
    code, details = await refusal(episode, "create_order", **order_for(request, ALSTERDATA))
    assert (code, details["replaced_by"]) == ("ITEM_DISCONTINUED", "KB-0220")
    right = request | {"item_id": details["replaced_by"]}
    for wrong in ({"quantity": 10}, {"cost_centre_id": "CC-6100"}, {"deliver_to": "BRE"}):
        code, _ = await refusal(episode, "create_order", **order_for(right | wrong, ALSTERDATA))
        assert code == "REQUISITION_MISMATCH"
    await draft_for(episode, right, ALSTERDATA)
    code, _ = await refusal(episode, "create_order", **order_for(right, ALSTERDATA))
    assert code == "REQUISITION_HAS_DRAFT"


async def test_the_unit_price_decides_between_asset_and_expense(shipped: Environments) -> None:
    episode = await begin(shipped)
    drafted = await answer(
        episode,
        "create_order",
        supplier_id=ALSTERDATA,
        cost_centre_id="CC-6100",
        deliver_to="HAM",
        items=[{"item_id": LAPTOP, "quantity": 1}, {"item_id": MONITOR, "quantity": 1}],
    )
    order_id = drafted["order_id"]
    right = [{"line_no": 1, "account_code": "0690"}, {"line_no": 2, "account_code": "0670"}]
    booking = {"order_id": order_id, "postings": right}
    assert (await refusal(episode, "book_commitment", **booking))[0] == "ORDER_NOT_PLACED"
    await answer(episode, "submit_order", order_id=order_id)
    for postings, expected in (
        ([{"line_no": n, "account_code": "0690"} for n in (1, 2)], "WRONG_ACCOUNT"),
        (right[:1], "LINES_INCOMPLETE"),
    ):
        code, _ = await refusal(episode, "book_commitment", order_id=order_id, postings=postings)
        assert code == expected
    before = await answer(episode, "get_budget", cost_centre_id="CC-6100")
    await answer(episode, "book_commitment", **booking)
    after = await answer(episode, "get_budget", cost_centre_id="CC-6100")
    assert before["available_eur"] == after["available_eur"]  # the order already counted
    assert (await refusal(episode, "book_commitment", **booking))[0] == "ALREADY_BOOKED"


async def test_budget_stays_within_its_division(shipped: Environments) -> None:
    episode = await begin(shipped)
    move = {"to_cost_centre_id": "CC-5300", "reason": "Handhelds for service"}
    for source, amount, expected in (
        ("CC-4110", 100.0, "TRANSFER_NOT_ALLOWED"),
        ("CC-5100", 90_000.0, "BUDGET_EXCEEDED"),
        ("CC-5300", 100.0, "SAME_COST_CENTRE"),
    ):
        code, _ = await refusal(
            episode, "transfer_budget", from_cost_centre_id=source, amount_eur=amount, **move
        )
        assert code == expected


# --- people, deliveries, returns, cancellations --------------------------------------------------


async def test_the_other_person_of_that_name_gets_nothing(shipped: Environments) -> None:
    episode = await begin(shipped, "headset-for-lena-in-service")
    found = await answer(episode, "find_employees", name="Lena Hartmann")
    assert found["total"] == 2
    other = await staff(episode, "Lena Hartmann", "CC-5400")
    headset = {"item_id": "HS-0060", "quantity": 1, "warehouse_id": "HAM"}
    await answer(episode, "issue_stock", employee_id=other, **headset)
    assert (await episode.score()).value == 0.0


async def test_reserved_units_are_not_handed_out(shipped: Environments) -> None:
    episode = await begin(shipped)
    stock = (await answer(episode, "get_item", item_id="DK-1100"))["stock"]
    hamburg = next(row for row in stock if row["warehouse_id"] == "HAM")
    assert hamburg["reserved"] > 0
    move = {"item_id": "DK-1100", "from_warehouse_id": "HAM", "to_warehouse_id": "MUC"}
    code, details = await refusal(episode, "transfer_stock", quantity=hamburg["on_hand"], **move)
    assert (code, details["free"]) == ("OUT_OF_STOCK", hamburg["free"])
    await answer(episode, "transfer_stock", quantity=hamburg["free"], **move)


async def test_goods_are_taken_in_once_and_not_before_they_come(shipped: Environments) -> None:
    episode = await begin(shipped)
    on_the_way = await answer(episode, "search_orders", item_id="NW-2408", status="ordered")
    assert on_the_way["total"] == 1
    order_id = on_the_way["results"][0]["id"]
    delivery = {"order_id": order_id, "delivery_note": "GL-55120"}
    four = {"lines": [{"line_no": 1, "quantity": 4}]}
    code, details = await refusal(episode, "receive_goods", **delivery, **four)
    assert (code, details["eta"]) == ("NOT_DELIVERED", "2026-03-02T12:15:00Z")
    await answer(episode, "wait", seconds=5 * 3600)
    five = {"lines": [{"line_no": 1, "quantity": 5}]}
    assert (await refusal(episode, "receive_goods", **delivery, **five))[0] == "OVER_DELIVERY"
    await answer(episode, "receive_goods", **delivery, **four)
    assert (await refusal(episode, "receive_goods", **delivery, **four))[0] == "PO_ALREADY_RECEIVED"


async def test_what_was_shipped_cannot_be_cancelled_and_old_goods_stay(
    shipped: Environments,
) -> None:
    episode = await begin(shipped)
    reason = {"reason": "No longer needed by the department"}
    desks = await answer(
        episode, "search_orders", supplier_id="V-1024", cost_centre_id="CC-6400", status="ordered"
    )
    codes = set()
    for row in desks["results"]:
        step = await episode.call("cancel_order", {"order_id": row["id"], **reason})
        codes.add(step.error.code if step.error else "")
    assert codes == {"", "ORDER_SHIPPED"}
    scanners = await answer(episode, "search_orders", supplier_id="V-1061", item_id="PR-0770")
    oldest = scanners["results"][-1]["id"]
    code, _ = await refusal(
        episode, "return_goods", order_id=oldest, line_no=1, quantity=1, **reason
    )
    assert code == "RETURN_WINDOW_CLOSED"


# --- invoices ------------------------------------------------------------------------------------


async def test_an_invoice_is_booked_once_in_balance_and_eats_its_commitment(
    shipped: Environments,
) -> None:
    episode = await begin(shipped)
    waiting = await answer(episode, "search_invoices", supplier_id="V-1012", status="received")
    outcome = {}
    for row in waiting["results"]:
        step = await episode.call("book_invoice", {"invoice_id": row["id"]})
        outcome[row["id"]] = step.error.code if step.error else "booked"
    assert sorted(outcome.values()) == ["DUPLICATE_INVOICE", "INVOICE_MISMATCH", "booked"]
    lines = agent_rows(episode, "journal_lines", "added")
    assert sum(row["debit_cents"] for row in lines) == sum(row["credit_cents"] for row in lines) > 0
    released = agent_rows(episode, "commitments", "changed")
    assert released
    assert {row["after"]["status"] for row in released} == {"released"}
    booked = next(key for key, value in outcome.items() if value == "booked")
    code, _ = await refusal(episode, "book_invoice", invoice_id=booked)
    assert code == "INVOICE_ALREADY_BOOKED"


async def test_listings_page_and_filter(shipped: Environments) -> None:
    episode = await begin(shipped)
    pages = [await answer(episode, "search_items", page=page) for page in (1, 2, 3, 4, 5)]
    ids = [row["id"] for page in pages for row in page["results"]]
    assert len(ids) == len(set(ids)) == pages[0]["total"]
    assert pages[0]["pages"] == 5
    low = await answer(episode, "list_stock", below_reorder_point=True)
    assert low["total"] > 0
    assert all(row["on_hand"] < row["reorder_point"] for row in low["results"])
    moves = await answer(episode, "list_stock_movements", item_id="HS-0060", warehouse_id="HAM")
    kept = (await answer(episode, "get_item", item_id="HS-0060"))["stock"]
    on_hand = next(row["on_hand"] for row in kept if row["warehouse_id"] == "HAM")
    assert sum(row["quantity"] for row in moves["results"]) == on_hand


async def test_every_oracle_earns_its_task(shipped: Environments) -> None:
    environment = await shipped.get(DESK)
    for task in environment.pack.tasks.values():
        episode = await Episode.start(environment, task=task.id)
        await play_oracle(episode)
        assert (await episode.score(task.answer)).value == 1.0, task.id
        await episode.close()
