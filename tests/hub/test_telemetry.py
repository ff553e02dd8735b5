"""Metrics stay small whatever packs do."""

from __future__ import annotations

from hub.telemetry import MAX_CODES, Metrics


def codes(metrics: Metrics) -> set[str]:
    lines = metrics.render().decode().splitlines()
    return {line.split('code="')[1].split('"')[0] for line in lines if "faults_total{" in line}


def test_made_up_codes_do_not_become_labels_without_end() -> None:
    metrics = Metrics()
    metrics.fault("environment", "TOOL_CRASHED")
    for number in range(2000):
        metrics.fault("agent", f"CODE_{number}")
    metrics.fault("environment", "TOOL_CRASHED")
    assert len(codes(metrics)) <= MAX_CODES + 1
    assert 'code="TOOL_CRASHED",kind="environment"} 2.0' in metrics.render().decode()
    assert "OTHER" in codes(metrics)


def test_codes_that_are_none_are_told_as_other() -> None:
    metrics = Metrics()
    for code in ("lower", "A" * 100, "", 'A"} 1\nenvhub_calls_total 9', "Ä"):
        metrics.fault("agent", code)
    assert codes(metrics) == {"OTHER"}
