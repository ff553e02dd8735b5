"""Node and the suite, installed once."""

from __future__ import annotations

import pytest

from tests.conformance.node import Node, NodeUnavailable, install


@pytest.fixture(scope="session")
def node() -> Node:
    try:
        return install()
    except NodeUnavailable as error:
        pytest.skip(str(error))
