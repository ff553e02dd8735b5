from __future__ import annotations

from collections.abc import Iterator

import pytest

from snapshots import Recipe, SnapshotStore
from tests.environments.assertions.shop import SCHEMA, Judge, Shop


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    shop = Shop(SnapshotStore(tmp_path_factory.mktemp("shop")).build(Recipe((SCHEMA,))))
    yield shop
    shop.close()


@pytest.fixture
def judge(shop: Shop) -> Judge:
    """``judge(verifier, run, answer)``: the components by name."""
    return shop.judge
