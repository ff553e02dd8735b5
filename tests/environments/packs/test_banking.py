"""The bank's rules and traps, as an agent at the desk meets them."""

from __future__ import annotations

from typing import Any

import pytest

from environments.environment import Environments
from environments.episode import Episode
from environments.oracle import play_oracle

pytestmark = pytest.mark.anyio

BANK = "banking"


async def begin(shipped: Environments, task: str | None = None) -> Episode:
    return await Episode.start(await shipped.get(BANK), task=task)


async def answer(episode: Episode, tool: str, **arguments: Any) -> Any:
    step = await episode.call(tool, arguments)
    assert step.error is None, step.error
    return step.result


async def refusal(episode: Episode, tool: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    step = await episode.call(tool, arguments)
    assert step.error is not None, step.result
    assert step.error.kind == "agent"
    return step.error.code, step.error.details


async def customer(episode: Episode, **search: str) -> dict[str, Any]:
    found = await answer(episode, "search_customers", **search)
    assert found["total"] == 1, found
    return dict(await answer(episode, "get_customer", customer_id=found["items"][0]["customer_id"]))


def account(of: dict[str, Any], name: str) -> dict[str, Any]:
    return next(dict(item) for item in of["accounts"] if item["name"] == name)


async def payee(episode: Episode, of: dict[str, Any], name: str, status: str = "verified") -> str:
    listed = await answer(episode, "list_payees", customer_id=of["customer_id"])
    return next(
        str(item["payee_id"])
        for item in listed["items"]
        if (item["name"], item["status"]) == (name, status)
    )


async def test_an_overdraft_says_what_is_available_and_what_is_missing(
    shipped: Environments,
) -> None:
    episode = await begin(shipped)
    conor = await customer(episode, name="Conor Hayes")
    current = account(conor, "Current account")
    assert current["balance_cents"] < 0 < current["held_cents"]
    available = current["balance_cents"] + current["overdraft_limit_cents"] - current["held_cents"]
    code, details = await refusal(
        episode,
        "send_payment",
        from_account_id=current["account_id"],
        payee_id=await payee(episode, conor, "Caherdavin Property"),
        amount_cents=available + 1,
    )
    assert code == "INSUFFICIENT_FUNDS"
    assert details["available_cents"] == available
    assert details["overdraft_limit_cents"] == current["overdraft_limit_cents"]
    assert details["shortfall_cents"] == 1
    assert not episode.changes()


async def test_a_payment_of_all_that_is_available_passes_and_the_books_balance(
    shipped: Environments,
) -> None:
    episode = await begin(shipped)
    conor = await customer(episode, name="Conor Hayes")
    current = account(conor, "Current account")
    paid = await answer(
        episode,
        "send_payment",
        from_account_id=current["account_id"],
        payee_id=await payee(episode, conor, "Caherdavin Property"),
        amount_cents=current["available_cents"],
    )
    assert paid["from"]["available_cents"] == 0
    changes = episode.changes().to_json()
    moved = [entry["amount_cents"] for entry in changes["entries"]["added"]]
    assert sum(moved) == 0
    assert sorted(moved) == sorted(
        row["after"]["balance_cents"] - row["before"]["balance_cents"]
        for row in changes["accounts"]["changed"]
    )
    assert len(changes["audit_log"]["added"]) == 1


async def test_what_was_paid_this_morning_counts_against_the_daily_limit(
    shipped: Environments,
) -> None:
    episode = await begin(shipped)
    rajesh = await customer(episode, name="Rajesh Menon")
    spent, limit = rajesh["paid_today_cents"], rajesh["daily_payment_limit_cents"]
    assert spent > 0
    payment = {
        "from_account_id": account(rajesh, "Premier account")["account_id"],
        "payee_id": await payee(episode, rajesh, "Ballsbridge Interiors"),
    }
    code, details = await refusal(
        episode, "send_payment", **payment, amount_cents=limit - spent + 1
    )
    assert (code, details["remaining_cents"]) == ("LIMIT_EXCEEDED", limit - spent)
    await answer(episode, "send_payment", **payment, amount_cents=limit - spent)
    code, details = await refusal(episode, "send_payment", **payment, amount_cents=1)
    assert (code, details["remaining_cents"]) == ("LIMIT_EXCEEDED", 0)


async def test_only_the_verified_payee_of_two_with_one_name_can_be_paid(
    shipped: Environments,
) -> None:
    episode = await begin(shipped)
    sean = await customer(episode, name="Sean O'Connor", city="Galway")
    code, details = await refusal(
        episode,
        "send_payment",
        from_account_id=account(sean, "Current account")["account_id"],
        payee_id=await payee(episode, sean, "Brophy Motors", "unverified"),
        amount_cents=100,
    )
    assert (code, details["name_check"]) == ("PAYEE_NOT_VERIFIED", "no_match")


async def test_a_name_that_does_not_match_cannot_be_confirmed(shipped: Environments) -> None:
    episode = await begin(shipped)
    lucia = await customer(episode, name="Lucia Moretti")
    sinead = await customer(episode, name="Sinéad Cullen")
    iban = account(sinead, "Current account")["iban"]
    added = await answer(
        episode, "add_payee", customer_id=lucia["customer_id"], name="Bernard Tuohy", iban=iban
    )
    assert (added["name_check"], added["registered_name"]) == ("no_match", None)
    confirm = {"payee_id": added["payee_id"], "registered_name": "Sinéad Cullen"}
    assert (await refusal(episode, "confirm_payee", **confirm))[0] == "PAYEE_NOT_CONFIRMABLE"
    again = {"customer_id": lucia["customer_id"], "name": "Sinéad Cullen", "iban": iban}
    assert (await refusal(episode, "add_payee", **again))[0] == "PAYEE_EXISTS"
    mistyped = iban[:-1] + str((int(iban[-1]) + 1) % 10)
    code, _ = await refusal(episode, "add_payee", **{**again, "iban": mistyped})
    assert code == "IBAN_INVALID"


async def test_the_dispute_window_closes_after_120_days(shipped: Environments) -> None:
    episode = await begin(shipped)
    adaeze = await customer(episode, name="Adaeze Okafor")
    charges = await answer(
        episode,
        "list_transactions",
        account_id=account(adaeze, "Current account")["account_id"],
        text="lumina apps",
    )
    newest, *_, oldest = [item["transaction_id"] for item in charges["items"]]
    code, details = await refusal(
        episode, "open_dispute", transaction_id=oldest, reason="not_received"
    )
    assert (code, details["closed_on"]) == ("DISPUTE_WINDOW_CLOSED", "2026-02-26")
    dispute = {"transaction_id": newest, "reason": "fraud"}
    code, details = await refusal(episode, "open_dispute", **dispute)
    assert code == "CARD_STILL_ACTIVE"
    await answer(episode, "freeze_card", card_id=details["card_id"], reason="suspected_fraud")
    opened = await answer(episode, "open_dispute", **dispute)
    code, details = await refusal(episode, "open_dispute", **dispute)
    assert (code, details["dispute_id"]) == ("DISPUTE_EXISTS", opened["dispute_id"])
    await answer(episode, "grant_provisional_credit", dispute_id=opened["dispute_id"])
    assert (await refusal(episode, "grant_provisional_credit", dispute_id=opened["dispute_id"]))[
        0
    ] == "PROVISIONAL_CREDIT_EXISTS"
    before = account(adaeze, "Current account")["balance_cents"]
    await answer(episode, "withdraw_dispute", dispute_id=opened["dispute_id"])
    after = await customer(episode, name="Adaeze Okafor")
    assert account(after, "Current account")["balance_cents"] == before


async def test_a_replaced_card_names_its_replacement(shipped: Environments) -> None:
    episode = await begin(shipped)
    darragh = await customer(episode, card_last4="4417")
    cards = await answer(episode, "list_cards", customer_id=darragh["customer_id"])
    ids = {card["last4"]: card["card_id"] for card in cards["items"]}
    for tool, reason in (("replace_card", "lost"), ("freeze_card", "misplaced")):
        code, details = await refusal(episode, tool, card_id=ids["4417"], reason=reason)
        assert (code, details["replacement_card_id"]) == ("CARD_ALREADY_REPLACED", ids["0526"])


async def test_a_court_order_is_not_for_the_desk_to_lift(shipped: Environments) -> None:
    episode = await begin(shipped)
    viktor = await customer(episode, name="Viktor Petrenko")
    frozen = account(viktor, "Current account")["account_id"]
    code, details = await refusal(
        episode,
        "transfer_between_accounts",
        from_account_id=frozen,
        to_account_id=account(viktor, "Easy Saver")["account_id"],
        amount_cents=200_000,
    )
    assert (code, details["freeze_reason"]) == ("ACCOUNT_FROZEN", "legal_order")
    code, _ = await refusal(episode, "unfreeze_account", account_id=frozen)
    assert code == "FREEZE_NOT_LIFTABLE"


async def test_the_midday_run_and_due_standing_orders_keep_the_books_balanced(
    shipped: Environments,
) -> None:
    episode = await begin(shipped)
    for _ in range(4):
        await answer(episode, "wait", seconds=86_400)
    changes = episode.changes(actor="environment").to_json()
    assert sum(entry["amount_cents"] for entry in changes["entries"]["added"]) == 0
    kinds = {row["kind"] for row in changes["transactions"]["added"]}
    assert kinds == {"credit", "standing_order"}
    assert not episode.changes(actor="agent")


WRONG_TARGETS = [
    pytest.param("freeze-mislaid-card", "Maria Kelly", id="Maria for Marie"),
    pytest.param("stop-the-lifeboat-gifts", "Siobhan Byrne-Walsh", id="Byrne-Walsh for Byrne"),
]


@pytest.mark.parametrize(("task", "name"), WRONG_TARGETS)
async def test_the_customer_of_similar_name_earns_nothing(
    shipped: Environments, task: str, name: str
) -> None:
    episode = await begin(shipped, task)
    wrong = (await customer(episode, name=name))["customer_id"]
    if task == "freeze-mislaid-card":
        card = (await answer(episode, "list_cards", customer_id=wrong))["items"][0]
        await answer(episode, "freeze_card", card_id=card["card_id"], reason="misplaced")
    else:
        orders = await answer(episode, "list_standing_orders", customer_id=wrong)
        gift = next(o for o in orders["items"] if o["receiver"] == "Coastal Lifeboat Appeal")
        await answer(episode, "cancel_standing_order", standing_order_id=gift["standing_order_id"])
    assert (await episode.score()).value == 0.0
    await play_oracle(episode)
    assert (await episode.score()).value == 0.0, "the right change does not undo the wrong one"


async def test_the_first_fee_asked_for_spends_the_only_refund_left(shipped: Environments) -> None:
    episode = await begin(shipped, "two-fees-one-refund")
    brendan = await customer(episode, name="Brendan Lynch")
    fees = await answer(episode, "list_fees", customer_id=brendan["customer_id"])
    ids = {fee["kind"]: fee["fee_id"] for fee in fees["items"] if fee["status"] == "charged"}
    assert (await refusal(episode, "refund_fee", fee_id=ids["stamp_duty"]))[0] == (
        "FEE_NOT_REFUNDABLE"
    )
    await answer(episode, "refund_fee", fee_id=ids["overdraft_surcharge"])
    code, _ = await refusal(episode, "refund_fee", fee_id=ids["unpaid_item"])
    assert code == "FEE_REFUND_LIMIT_REACHED"
    assert (await episode.score()).value == 0.0


async def test_moving_more_than_the_shortfall_earns_nothing(shipped: Environments) -> None:
    episode = await begin(shipped, "builder-needs-paying")
    eoin = await customer(episode, name="Eoin Gallagher")
    current, saver, notice = (
        account(eoin, name)["account_id"]
        for name in ("Current account", "Easy Saver", "Notice saver")
    )
    move = {"to_account_id": current, "amount_cents": 100_000}
    code, details = await refusal(
        episode, "transfer_between_accounts", from_account_id=notice, **move
    )
    assert (code, details["notice_days"]) == ("NOTICE_REQUIRED", 32)
    await answer(episode, "transfer_between_accounts", from_account_id=saver, **move)
    await answer(
        episode,
        "send_payment",
        from_account_id=current,
        payee_id=await payee(episode, eoin, "McGowan Builders Ltd"),
        amount_cents=240_000,
        reference="PORCH BALANCE",
    )
    assert (await episode.score()).value == 0.0


async def test_a_card_sent_to_the_old_address_earns_nothing(shipped: Environments) -> None:
    episode = await begin(shipped, "moved-and-lost-the-card")
    task = episode.task
    assert task is not None
    *_, move, replace = task.oracle
    await answer(episode, replace.tool, **replace.arguments)
    await answer(episode, move.tool, **move.arguments)
    assert (await episode.score()).value == 0.0
