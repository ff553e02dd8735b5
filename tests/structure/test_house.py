"""Imports flow one way, there are no cycles, and nothing grows too large."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PACKAGES = ["snapshots", "environments", "hub"]
"""A package imports only those before it."""

ORDER = {
    "snapshots": [
        "errors", "pages", "rows", "shapes", "patch", "changeset", "capture", "recording", "policy",
        "vfs", "branch", "workspace", "deltas", "records", "nodes", "btree", "compare", "store",
    ],
    "environments": [
        "errors", "names", "whole", "recent", "keepable", "spec", "authoring", "trajectory", "chat",
        "faults", "horizons", "advantages", "llm", "documents", "assertions", "complaints",
        "datafiles", "catalogue", "archives", "sampling", "scaffold", "runtimes",
        "sandbox", "verifier", "journal", "users", "timeline", "unhurried", "opened", "joint",
        "world", "environment", "injection", "episode", "record", "parquet", "oracle", "notebook",
        "replay", "comparison", "check", "importers", "exporters", "evaluation", "synthesis",
    ],
    "hub": [
        "settings", "wire", "training", "errors", "data_dir",
        "supply", "judging", "telemetry", "auth", "edge", "ids",
        "turns", "leases", "admission", "ledger", "curriculum", "trajectories",
        "episodes", "seats", "tending", "groups", "tenancy",
        "mcp_server", "api", "app", "http_protocol", "server", "client", "demo", "cli",
    ],
}  # fmt: skip
"""Inside a package a module imports only modules that stand before it (a folder is one module)."""

MODULE_LINES, MODULE_LINES_HARD, FUNCTION_LINES, PARAMETERS = 400, 800, 60, 6

RATCHET: dict[str, int] = {"environments.episode": 433}
"""What is over a budget today, with its size. Entries may shrink or go, never grow or come."""

COMMANDS = "hub.cli"
"""Parameters of a command are its options; each stands for itself."""

DATA = ".blueprints."
"""Modules that hold large literals and no logic may be as long as they need."""

PUBLISHED_ONLY = {"packs"}
"""Folders whose code is data to us: it runs in the guest and is imported by nobody."""


def modules() -> Iterator[Path]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if not PUBLISHED_ONLY & set(path.relative_to(ROOT).parts):
                yield path


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in modules()}


@cache
def tree(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text())


@cache
def imports(name: str) -> set[str]:
    """The modules of ours that ``name`` imports, wherever in the file."""
    found: set[str] = set()
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return {target for target in found if target in MODULES and target != name}


def test_the_lists_name_what_is_there() -> None:
    for package in PACKAGES:
        there = {name.split(".")[1] for name in MODULES if name.startswith(f"{package}.")}
        assert there <= set(ORDER[package]), f"give these a place in ORDER: {sorted(there)}"


@pytest.mark.parametrize("name", sorted(MODULES))
def test_imports_flow_one_way(name: str) -> None:
    package, _, inside = name.partition(".")
    place = inside.split(".")[0] if inside else ""
    for target in imports(name):
        target_package, _, target_inside = target.partition(".")
        rank, target_rank = PACKAGES.index(package), PACKAGES.index(target_package)
        assert target_rank <= rank, f"{name} imports {target}, which stands after it"
        if target_rank < rank or not place:
            continue
        assert target_inside, f"{name} imports its own package's facade: import the sibling"
        target_place = target_inside.split(".")[0]
        order = ORDER[package]
        assert order.index(target_place) <= order.index(place), f"{name} imports later {target}"


def test_no_cycles() -> None:
    graph = {name: imports(name) for name in MODULES}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        if name in trail:
            cycle = " -> ".join((*trail[trail.index(name) :], name))
            pytest.fail(f"import cycle: {cycle}")
        if name not in done:
            for target in sorted(graph[name]):
                visit(target, (*trail, name))
            done.add(name)

    for name in sorted(graph):
        visit(name, ())


def over_budget() -> dict[str, int]:
    found: dict[str, int] = {}
    for name, path in MODULES.items():
        if DATA in name:
            continue
        lines = len(path.read_text().splitlines())
        assert lines <= MODULE_LINES_HARD, f"{name} has {lines} lines"
        if lines > MODULE_LINES:
            found[name] = lines
        for node in ast.walk(tree(name)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                signature = node.args
                count = len([*signature.posonlyargs, *signature.args, *signature.kwonlyargs])
                if signature.args and signature.args[0].arg in {"self", "cls"}:
                    count -= 1
                if length > FUNCTION_LINES:
                    found[f"{name}:{node.name} lines"] = length
                if count > PARAMETERS and not name.startswith(COMMANDS):
                    found[f"{name}:{node.name} parameters"] = count
    return found


def test_budgets() -> None:
    found = over_budget()
    for what, size in found.items():
        assert size <= RATCHET.get(what, 0), f"{what}: {size} is over budget"
    gone = [what for what in RATCHET if what not in found]
    assert not gone, f"within budget now, take them off RATCHET: {gone}"


def test_only_settings_reads_the_process_environment() -> None:
    for name in MODULES:
        if name == "hub.settings":
            continue
        for node in ast.walk(tree(name)):
            reads = isinstance(node, ast.Attribute) and (
                node.attr in {"environ", "getenv"}
                and isinstance(node.value, ast.Name)
                and node.value.id == "os"
            )
            assert not reads, f"{name}:{node.lineno} reads the process environment"  # type: ignore[attr-defined]


def test_nothing_new_at_the_top() -> None:
    allowed = {"snapshots", "environments", "hub", "deploy", "tests", "docs"}
    hidden = (path for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith("."))
    built = {"build", "dist", "node_modules"}
    # a reader who follows the README has a pack of their own here
    ours = {path.name for path in hidden if not (path / "environment.toml").is_file()}
    extra = ours - allowed - built
    assert not extra, f"top-level folders are fixed: {sorted(extra)}"


def test_every_module_says_what_it_is_for() -> None:
    without = [name for name in MODULES if not ast.get_docstring(tree(name))]
    assert not without, f"no docstring: {without}"


def test_order_has_no_duplicates() -> None:
    for order in ORDER.values():
        assert len(set(order)) == len(order)
    assert len(set(itertools.chain(PACKAGES))) == len(PACKAGES)
