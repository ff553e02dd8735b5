"""The three systems of purchasing, alone and as a world: their rules and the traps of its tasks."""

from __future__ import annotations

from typing import Any

import pytest

from environments.check import check_pack
from environments.environment import Environment, Environments
from environments.episode import Episode
from environments.oracle import play_oracle

pytestmark = pytest.mark.anyio

SYSTEMS = ("inventory", "supplier", "accounting")


@pytest.fixture
async def purchasing(shipped: Environments) -> Environment:
    return await shipped.get("purchasing")


class Buyer:
    """An episode spoken to in fewer words."""

    def __init__(self, episode: Episode) -> None:
        self.episode = episode

    async def do(self, tool: str, **arguments: Any) -> Any:
        step = await self.episode.call(tool, arguments)
        assert step.error is None, step.error
        return step.result

    async def refused(self, tool: str, **arguments: Any) -> str:
        """The code of the agent's error; the call must have changed nothing."""
        before = self.episode.branch.encode()
        step = await self.episode.call(tool, arguments)
        assert step.error is not None, f"{tool} was not refused"
        assert step.error.kind == "agent"
        assert self.episode.branch.encode() == before
        return step.error.code

    async def score(self, answer: str | None = None) -> float | None:
        return (await self.episode.score(answer)).value


async def on_task(environment: Environment, task: str | None = None) -> Buyer:
    return Buyer(await Episode.start(environment, task=task, horizon=100))


@pytest.mark.parametrize("name", [*SYSTEMS, "purchasing"])
async def test_each_passes_its_check(shipped: Environments, name: str) -> None:
    report = await check_pack(shipped.catalogue.get(name).path)
    assert report.passed, [found for found in report.findings if not found.passed and found.hard]


async def test_every_task_of_the_world_needs_more_than_one_system(purchasing: Environment) -> None:
    tasks = purchasing.pack.tasks.values()
    assert len(tasks) == 8
    for task in tasks:
        systems = {call.tool.partition("__")[0] for call in task.oracle} & set(SYSTEMS)
        assert len(systems) >= 2, task.id


async def test_the_systems_agree_on_what_was_there_before(purchasing: Environment) -> None:
    """What one system says of an order the others say too, by its number."""
    buyer = await on_task(purchasing)
    order = await buyer.do("supplier__get_order", order_id="PO-YH4Q08Q5")
    taken_in = await buyer.do("inventory__list_receipts", order_reference="PO-YH4Q08Q5")
    booked = await buyer.do("accounting__search_commitments", order_reference="PO-YH4Q08Q5")
    assert sum(row["quantity"] for row in taken_in["results"]) == order["lines"][0]["quantity"]
    assert sum(row["amount_eur"] for row in booked["results"]) == order["total_eur"]


@pytest.mark.parametrize(
    ("number", "changed"),
    [
        (4, {"supplier_id": "V-1007"}),
        (4, {"buyer_reference": ""}),
        (6, {"cost_centre_id": "CC-4120"}),
        (6, {"order_reference": "PO-RPYS0CM4"}),
        (7, {"status": "rejected"}),
    ],
)
async def test_what_is_carried_wrong_from_system_to_system_fails(
    purchasing: Environment, number: int, changed: dict[str, Any]
) -> None:
    buyer = await on_task(purchasing, "keyboards-out-of-production")
    assert buyer.episode.task is not None
    order = ""
    for index, call in enumerate(buyer.episode.task.oracle):
        arguments = {**call.arguments, **(changed if index == number else {})}
        told = {
            name: order if value == "${4.order_id}" else value for name, value in arguments.items()
        }
        result = await buyer.do(call.tool, **told)
        order = result["order_id"] if index == 4 else order
    assert await buyer.score() == 0.0


async def test_an_order_binds_at_once_and_takes_what_is_on_offer(purchasing: Environment) -> None:
    buyer = await on_task(purchasing)
    wanted = {"supplier_id": "V-1050", "item_id": "PH-0760"}
    before = await buyer.do("supplier__get_offer", **wanted)
    items = [{"item_id": "PH-0760", "quantity": 6}]
    order = await buyer.do(
        "supplier__place_order", supplier_id="V-1050", deliver_to="MUC", items=items
    )
    after = await buyer.do("supplier__get_offer", **wanted)
    assert before["available"] - after["available"] == 6
    await buyer.do("supplier__cancel_order", order_id=order["order_id"], reason="Not needed")
    again = await buyer.do("supplier__get_offer", **wanted)
    assert again["available"] == before["available"]
    code = await buyer.refused(
        "supplier__cancel_order", order_id=order["order_id"], reason="Not needed"
    )
    assert code == "ORDER_CANCELLED"


async def test_budgets_count_what_is_committed(purchasing: Environment) -> None:
    buyer = await on_task(purchasing)
    posting = {"account_code": "0670", "amount_eur": 1854.0, "text": "6 handhelds"}
    order = {"order_reference": "PO-TEST0001", "cost_centre_id": "CC-5300", "postings": [posting]}
    assert await buyer.refused("accounting__book_commitment", **order) == "BUDGET_EXCEEDED"
    give = {"to_cost_centre_id": "CC-5300", "amount_eur": 617.6, "reason": "Agreed by both heads"}
    other = {"from_cost_centre_id": "CC-6100", **give}
    assert await buyer.refused("accounting__transfer_budget", **other) == "TRANSFER_NOT_ALLOWED"
    await buyer.do("accounting__transfer_budget", from_cost_centre_id="CC-5100", **give)
    await buyer.do("accounting__book_commitment", **order)
    assert (await buyer.do("accounting__get_budget", cost_centre_id="CC-5300"))[
        "available_eur"
    ] == 0.0
    assert await buyer.refused("accounting__book_commitment", **order) == "ALREADY_BOOKED"


async def test_goods_leave_the_store_only_as_they_may(purchasing: Environment) -> None:
    buyer = await on_task(purchasing)
    back = {"order_reference": "PO-YH4Q08Q5", "item_id": "PR-0770", "warehouse_id": "HAM"}
    reason = {"reason": "Does not hold a charge"}
    code = await buyer.refused("inventory__send_back", quantity=11, **back, **reason)
    assert code == "NOT_RECEIVED"
    dock = {"item_id": "DK-1100", "quantity": 1, "employee_id": "E-2325"}
    assert await buyer.refused("inventory__issue_stock", warehouse_id="HAM", **dock) == "WRONG_SITE"
    assert (
        await buyer.refused("inventory__issue_stock", warehouse_id="MUC", **dock) == "OUT_OF_STOCK"
    )


async def test_the_switches_come_when_the_suppliers_clock_says_so(purchasing: Environment) -> None:
    buyer = await on_task(purchasing, "switches-arriving-at-noon")
    assert (await buyer.do("supplier__get_order", order_id="PO-RPYS0CM3"))["status"] == "shipped"
    await buyer.do("wait", seconds=15300)
    assert (await buyer.do("supplier__get_order", order_id="PO-RPYS0CM3"))["status"] == "delivered"
    await buyer.do(
        "inventory__receive_goods",
        order_reference="PO-RPYS0CM3",
        item_id="NW-2408",
        warehouse_id="HAM",
        quantity=4,
        delivery_note="GL-55120",
    )
    piotrs = (await buyer.do("inventory__find_employees", name="Piotr"))["results"]
    assert len({row["site"] for row in piotrs}) == 2, "one of them works elsewhere"
    give = {"item_id": "NW-2408", "warehouse_id": "HAM", "quantity": 2, "employee_id": "E-2261"}
    await buyer.do("inventory__issue_stock", **give)
    assert await buyer.score() == 1.0


async def test_a_question_is_answered_without_touching_anything(purchasing: Environment) -> None:
    buyer = await on_task(purchasing, "what-it-still-waits-for")
    run = await play_oracle(buyer.episode)
    assert await buyer.score(run.answer) == 1.0
    assert await buyer.score("2648.00") == 0.0
    await buyer.do(
        "accounting__release_commitment", order_reference="PO-EM6NRMG2", reason="By mistake"
    )
    assert await buyer.score(run.answer) == 0.0
