"""A small shop in real SQLite: play a run in it, and judge that run.

A run is SQL of the agent, or a list of steps: SQL, a call ``{"tool", "arguments", "sql", "error"}``
of the agent, or ``{"event": sql}``, which is what the world does. An ``answer`` may go with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pytest

from environments.assertions import (
    GATE_WEIGHT,
    Assertions,
    DatabaseState,
    Evidence,
    ProbeCall,
    ProbeResult,
    TableInfo,
    TraceStep,
    split,
)
from environments.spec import ChangePolicy, ToolSpec
from environments.trajectory import Change, Component, Step, StepError
from snapshots import Branch, Snapshot, Workspace

SCHEMA = """
CREATE TABLE users (id TEXT PRIMARY KEY NOT NULL, name TEXT, email TEXT);
CREATE TABLE orders (
  id TEXT PRIMARY KEY NOT NULL, user_id TEXT REFERENCES users(id), status TEXT NOT NULL,
  total REAL, note TEXT, tags TEXT, updated_at TEXT
);
CREATE TABLE lines (
  order_id TEXT NOT NULL, sku TEXT NOT NULL, quantity INTEGER NOT NULL,
  PRIMARY KEY (order_id, sku)
);
CREATE TABLE stock (sku TEXT PRIMARY KEY NOT NULL, on_hand INTEGER, reserved INTEGER);
CREATE TABLE log (id INTEGER PRIMARY KEY NOT NULL, what TEXT, order_id TEXT);
INSERT INTO users VALUES ('u_1', 'Ann Lee', 'ann@x.org'), ('u_3', 'Bo', 'bo@x.org');
INSERT INTO orders VALUES
  ('o_17', 'u_1', 'pending', 25.0, NULL, '["new"]', '2026-01-01'),
  ('o_18', 'u_3', 'pending', 99.5, 'Ring twice', '["old", "vip"]', '2026-01-01'),
  ('o_19', 'u_3', 'shipped', 10.0, NULL, NULL, '2026-01-01');
INSERT INTO lines VALUES ('o_17', 'LT-14', 1), ('o_18', 'LT-14', 2);
INSERT INTO stock VALUES ('LT-14', 7, 1), ('MS-02', 40, 0);
"""

TABLES = {
    "users": TableInfo(("id", "name", "email"), ("id",)),
    "orders": TableInfo(
        ("id", "user_id", "status", "total", "note", "tags", "updated_at"), ("id",)
    ),
    "lines": TableInfo(("order_id", "sku", "quantity"), ("order_id", "sku")),
    "stock": TableInfo(("sku", "on_hand", "reserved"), ("sku",)),
    "log": TableInfo(("id", "what", "order_id"), ("id",)),
}


def _tool(name: str, arguments: Mapping[str, str], *, read_only: bool) -> ToolSpec:
    schema = {
        "type": "object",
        "properties": {argument: {"type": kind} for argument, kind in arguments.items()},
        "required": list(arguments),
        "additionalProperties": False,
    }
    return ToolSpec(name=name, description=name, input_schema=schema, read_only=read_only)


TOOLS = {
    tool.name: tool
    for tool in (
        _tool("get_order", {"order_id": "string"}, read_only=True),
        _tool("check_stock", {"sku": "string"}, read_only=True),
        _tool("cancel_order", {"order_id": "string"}, read_only=False),
        _tool("add_lines", {"order_id": "string", "lines": "array"}, read_only=False),
    )
}


def run_probe(state: DatabaseState, call: ProbeCall) -> ProbeResult:
    """What the shop's read-only tools answer."""
    if call.tool == "check_stock":
        row = state.row("stock", {"sku": call.arguments["sku"]})
        return ProbeResult(result=row["on_hand"]) if row else ProbeResult("NOT_FOUND")
    order = state.row("orders", {"id": call.arguments["order_id"]})
    if order is None:
        return ProbeResult("NOT_FOUND")
    lines = sorted(state.rows("lines", {"order_id": order["id"]}), key=lambda line: line["sku"])
    return ProbeResult(result={"status": order["status"], "lines": lines})


class Shop:
    """Two connections on one database, so that its start and its end can be read at once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._one = Workspace(snapshot, allow_ddl=True)
        self._other = Workspace(snapshot, allow_ddl=True)

    def close(self) -> None:
        self._one.close()
        self._other.close()

    def judge(
        self,
        verifier: Mapping[str, Any],
        run: str | Sequence[str | Mapping[str, Any]] = "",
        answer: str | None = None,
        ignore: Mapping[str, Any] | None = None,
        probes: tuple[ProbeResult, ...] | None = None,
    ) -> dict[str, Component]:
        """The components by name. ``ignore`` is what a pack's ``[changes]`` says; ``probes`` stand
        for what the shop's tools answer."""
        policy = msgspec.convert(ignore or {}, ChangePolicy)
        branch = Branch(self.snapshot)
        steps = self._play(branch, run)
        changes, found = split(change for step in steps for change in step.changes)
        trace = [TraceStep.of(step, policy) for step in steps if step.tool]
        assertions = Assertions.parse(verifier, TABLES, TOOLS)
        with (
            self._one.mount(Branch(self.snapshot), read_only=True) as before,
            self._other.mount(branch, read_only=True) as after,
        ):
            final = DatabaseState(after.connection, TABLES)
            evidence = Evidence(
                changes=changes.filter(tables=policy.ignore_tables, columns=policy.ignore_columns),
                initial=DatabaseState(before.connection, TABLES),
                final=final,
                found=found,
                answer=answer,
                trace=tuple(trace),
                probes=tuple(run_probe(final, call) for call in assertions.probes)
                if probes is None
                else probes,
            )
            components = assertions.evaluate(evidence)
        assert len({component.name for component in components}) == len(components)
        return {component.name: component for component in components}

    def _play(self, branch: Branch, run: str | Sequence[str | Mapping[str, Any]]) -> list[Step]:
        given = [run] if isinstance(run, str) else run
        steps = []
        for index, entry in enumerate(given):
            entry = {"sql": entry} if isinstance(entry, str) else entry
            actor = "environment" if "event" in entry else "agent"
            with self._one.mount(branch, label=actor) as mounted:
                mounted.connection.execute(entry.get("event") or entry.get("sql", "")).fetchall()
            changes = mounted.changes
            error = entry.get("error")
            steps.append(
                Step(
                    index=index,
                    tool="" if actor == "environment" else entry.get("tool", "write"),
                    arguments=dict(entry.get("arguments", {})),
                    error=StepError(kind="agent", code=error, message=error) if error else None,
                    changes=(Change(actor=actor, changes=changes.to_json()),) if changes else (),
                    clock_ms=0,
                )
            )
        return steps


Judge = Callable[..., dict[str, Component]]


def check_case(judge: Judge, case: Mapping[str, Any]) -> None:
    """That the run to ``pass`` does, and the run to ``fail`` fails for the reason ``why``."""
    good = _judged(judge, case, "pass")
    assert {name: part.reason for name, part in good.items() if not part.passed} == {}
    assert not any(part.reason for part in good.values())
    assert _worth(good) == pytest.approx(1.0)

    bad = _judged(judge, case, "fail")
    reasons = "; ".join(f"{n}: {part.reason}" for n, part in bad.items() if not part.passed)
    assert case["why"] in reasons
    assert all(part.passed is not bool(part.reason) for part in bad.values())
    if "worth" in case:
        assert _worth(bad) == pytest.approx(case["worth"])


def _judged(judge: Judge, case: Mapping[str, Any], which: str) -> dict[str, Component]:
    run = case[which]
    if not isinstance(run, Mapping):
        run = {"run": run}
    return judge(case["verifier"], run.get("run", ""), run.get("answer"), case.get("ignore"))


def _worth(components: Mapping[str, Component]) -> float:
    """What a run earns as a fraction."""
    parts = components.values()
    if any(part.weight == GATE_WEIGHT and not part.passed for part in parts):
        return 0.0
    return sum(part.weight for part in parts if part.passed) / sum(part.weight for part in parts)
