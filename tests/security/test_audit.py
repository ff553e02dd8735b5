"""What `make audit` makes of what pip-audit says; asked for real it needs a network."""

from __future__ import annotations

import json

import pytest

from tests.security.audit import CLEAN, FAILED, NOT_REACHABLE, VULNERABLE, verdict

SOUND = {"name": "sound", "version": "1.0", "vulns": []}
FLAWED = {"name": "flawed", "version": "1.0", "vulns": [{"id": "CVE-1", "fix_versions": ["1.1"]}]}
UNKNOWN = {"name": "unknown", "skip_reason": "not found on PyPI"}


@pytest.mark.parametrize(
    ("packages", "code", "says"),
    [
        ([SOUND], CLEAN, "0 known vulnerabilities in 1 of 1 packages"),
        ([SOUND, FLAWED], VULNERABLE, "flawed 1.0 has CVE-1 (fixed in: 1.1)"),
        ([SOUND, UNKNOWN], NOT_REACHABLE, "nothing could be learned about unknown"),
        ([FLAWED, UNKNOWN], VULNERABLE, "nothing could be learned about unknown"),
    ],
)
def test_a_report(
    packages: list[object], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verdict(0, json.dumps({"dependencies": packages}), "") == code
    assert says in capsys.readouterr().out


def test_no_report() -> None:
    assert verdict(1, "", "ERROR: Max retries exceeded with url: /pypi/x") == NOT_REACHABLE
    assert verdict(1, "", "error: unrecognized arguments") == FAILED
