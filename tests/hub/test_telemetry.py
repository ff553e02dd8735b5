"""Metrics stay small whatever packs do, and logs are in nobody's way."""

from __future__ import annotations

import errno
import io
import logging
import sys

import pytest
import structlog

from hub.telemetry import MAX_CODES, Metrics, configure_logging, logger


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


class Full(io.TextIOBase):
    """Standard error on a full disk."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_log_that_cannot_be_written_fails_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    root, before = logging.getLogger(), structlog.get_config()
    monkeypatch.setattr(root, "handlers", list(root.handlers))
    monkeypatch.setattr(root, "level", root.level)
    monkeypatch.setattr(sys, "stderr", Full())
    try:
        configure_logging("info", "json")
        logger("hub.tests").warning("fault")
        root.warning("fault")
    finally:
        structlog.configure(**before)
