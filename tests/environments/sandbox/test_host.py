from __future__ import annotations
import pytest
from tests.environments.sandbox.conftest import Make

pytestmark = pytest.mark.anyio


async def test_a_call_changes_the_branch_only_when_committed(make: Make) -> None:
    world = make()
    before = world.branch.head
    transition = await world.sandbox.call(
        world.pack, world.branch, world.moment, "take", {"sku": "a"}
    )
    assert transition.error is None, transition
    assert transition.result == {"left": 4}
    assert world.branch.head is before
    world.accept(transition)
    assert (await world.call("stock", sku="a")).result["on_hand"] == 4
