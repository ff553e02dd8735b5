"""Every attack is held by the whole of the confinement, as root and as a user without powers; and
the suite can fail: without a layer, what that layer alone holds gets through.

``make evidence`` prints the whole table, attack by layer.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from environments.sandbox.confine.layers import RLIMITS
from tests.security.arena import Verdict
from tests.security.attacks import ATTACKS
from tests.security.suite import Run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the confinement is Linux's")
NOBODY = 65534
IDENTITIES = ("root", "nobody") if os.geteuid() == 0 else ("ourselves",)
Verdicts = dict[str, Verdict]


@pytest.fixture(scope="module")
def runs() -> Iterator[dict[str, Run]]:
    """The suite as everybody we can be, side by side."""
    options = {"root": (), "ourselves": (), "nobody": ("--user", str(NOBODY))}
    started = {identity: Run(*options[identity]) for identity in IDENTITIES}
    try:
        yield started
    finally:
        for run in started.values():
            run.close()


@pytest.fixture(scope="module", params=IDENTITIES)
def verdicts(request: pytest.FixtureRequest, runs: dict[str, Run]) -> Verdicts:
    return runs[request.param].verdicts()


def test_there_are_enough_attacks_and_each_has_a_name() -> None:
    names = {attack.name for attack in ATTACKS}
    assert len(names) == len(ATTACKS) >= 60


@pytest.mark.parametrize("attack", [attack.name for attack in ATTACKS])
def test_held(verdicts: Verdicts, attack: str) -> None:
    verdict = verdicts[attack]
    assert verdict.held, verdict.how


@pytest.mark.parametrize(
    ("without", "attacks"),
    [
        (RLIMITS, ("descriptors", "memory past Python", "threads")),
        (("landlock",), ("a secret by its path", "the answers to its own tasks")),
        (("seccomp",), ("a datagram", "modes", "fork")),
    ],
    ids=["rlimits", "landlock", "seccomp"],
)
def test_without_a_layer_something_gets_through(
    without: tuple[str, ...], attacks: tuple[str, ...]
) -> None:
    run = Run("--without", ",".join(without), "--only", f"^({'|'.join(attacks)})$")
    try:
        verdicts = run.verdicts()
    finally:
        run.close()
    assert set(attacks) == set(verdicts)
    for attack in attacks:
        assert not verdicts[attack].held
        assert verdicts[attack].how.startswith("BREACH"), verdicts[attack].how
