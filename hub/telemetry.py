"""What the hub tells its operator: JSON logs with episode and call ids, and Prometheus metrics."""

from __future__ import annotations

import io
import logging
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, TextIO, cast

import msgspec
import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import (
    GaugeMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from hub.settings import LogFormat, LogLevel

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LATENCY_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)

CODE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
MAX_CODES = 300

Readings = dict[str, dict[tuple[tuple[str, str], ...], float]]
"""Gauges: name -> labels -> value."""


CALL: ContextVar[tuple[str, str, int] | None] = ContextVar("call", default=None)
"""The call that is being served: the episode's id, the hub's run and the number of the call in it.
Every line that is logged meanwhile names it."""


def configure_logging(level: LogLevel, form: LogFormat, to: TextIO | None = None) -> None:
    """Log to ``to`` (standard error by default), one JSON object a line.

    Library logs (uvicorn, asyncio) join at warning and above in the same form.
    """
    stream = to or cast("TextIO", _StandardError())
    shared: list[Any] = [
        _name_call,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    renderer: Any = (
        structlog.processors.JSONRenderer(serializer=_serialise)
        if form == "json"
        else structlog.dev.ConsoleRenderer(colors=stream.isatty())
    )
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)


def _name_call(_: Any, __: str, event: dict[str, Any]) -> dict[str, Any]:
    call = CALL.get()
    if call is not None:
        episode_id, run, number = call
        event = {"episode_id": episode_id, "call_id": f"{run}-{number}", **event}
    return event


class _StandardError(io.TextIOBase):
    """Whatever standard error is when something is written to it.

    Where nothing can be written any more (a full disk, a reader that has gone) lines are lost: a
    step that is in the ledger must not be answered as a failure for want of its log line.
    """

    def write(self, text: str) -> int:
        with suppress(OSError):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            sys.stderr.flush()

    def isatty(self) -> bool:
        return sys.stderr.isatty()


def _serialise(event: dict[str, Any], **_: Any) -> str:
    return msgspec.json.encode(event, enc_hook=str).decode()


def logger(name: str) -> Any:
    """A structlog logger with its module's name bound.

    It looks up how it is configured each time it is used; ``.bind()`` gives one that does not.
    """
    return structlog.get_logger(component=name)


class Metrics:
    """The hub's metrics, in a registry of their own (several hubs may live in one process)."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self._calls = Counter(
            "envhub_calls_total",
            "Tool calls answered, by whose fault it was where they failed",
            ("environment", "outcome"),
            registry=self.registry,
        )
        self._latency = Histogram(
            "envhub_call_seconds",
            "From a call's arrival at its episode to its durable record",
            ("environment",),
            buckets=LATENCY_BUCKETS,
            registry=self.registry,
        )
        self._faults = Counter(
            "envhub_faults_total",
            "Faults by kind (agent, environment, infrastructure) and code",
            ("kind", "code"),
            registry=self.registry,
        )
        self._episodes = Counter(
            "envhub_episodes_total",
            "Episodes by what befell them: created, resumed, forked, scored, closed",
            ("event",),
            registry=self.registry,
        )
        self._rewards = Histogram(
            "envhub_reward",
            "Rewards given",
            ("environment",),
            buckets=(0.0, 0.25, 0.5, 0.75, 1.0),
            registry=self.registry,
        )
        self._codes: set[str] = set()
        self._call_children: dict[tuple[str, str], Callable[[], None]] = {}
        self._latency_children: dict[str, Callable[[float], None]] = {}

    def call(self, environment: str, outcome: str, seconds: float) -> None:
        """One call was answered; ``outcome`` is ``ok`` or the kind of its fault."""
        # labels() costs more than the increment: on this path its results are kept
        key = (environment, outcome)
        count = self._call_children.get(key)
        if count is None:
            count = self._call_children[key] = self._calls.labels(*key).inc
        observe = self._latency_children.get(environment)
        if observe is None:
            observe = self._latency_children[environment] = self._latency.labels(
                environment
            ).observe
        count()
        observe(seconds)

    def fault(self, kind: str, code: str) -> None:
        """A pack may make up codes; only so many of them become labels."""
        if code not in self._codes:
            if len(self._codes) >= MAX_CODES or not CODE.fullmatch(code):
                code = "OTHER"
            self._codes.add(code)
        self._faults.labels(kind, code).inc()

    def episode(self, event: str, count: int = 1) -> None:
        self._episodes.labels(event).inc(count)

    def reward(self, environment: str, value: float) -> None:
        self._rewards.labels(environment).observe(value)

    def watch(self, readings: Callable[[], Readings]) -> None:
        """Export gauges that are cheaper to read at a scrape than to keep."""
        self.registry.register(_Watched(readings))

    def render(self) -> bytes:
        """The text exposition format."""
        return generate_latest(self.registry)


class _Watched(Collector):
    def __init__(self, readings: Callable[[], Readings]) -> None:
        self._readings = readings

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        for name, values in self._readings().items():
            names = tuple(label for label, _ in next(iter(values), ()))
            family = GaugeMetricFamily(name, name.replace("_", " "), labels=names)
            for labels, value in values.items():
                family.add_metric(tuple(text for _, text in labels), value)
            yield family
