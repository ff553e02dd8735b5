"""Environments from blueprints: they pass the gate, differ, and come out the same again."""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from environments.catalogue import load_pack
from environments.check.gate import GATES
from environments.synthesis.blueprints import blueprints
from environments.synthesis.diversity import diversity
from environments.synthesis.erased import erased_tables, erased_tools, fingerprint
from environments.synthesis.makeup import Makeup
from environments.synthesis.offline.compose import Design, compose, feature_sets
from environments.synthesis.offline.fabricate import (
    FakerUnavailable,
    fabricate,
    people,
    violations,
)
from environments.synthesis.offline.making import Made
from environments.synthesis.offline.render import render_schema
from environments.synthesis.offline.running import (
    NOTES,
    Request,
    SynthesisRefused,
    report_of,
    synthesise,
)
from snapshots.shapes import read_shapes
from tests.environments.synthesis.test_blueprints import tools_of

DOMAINS = tuple(blueprints())
SOME = DOMAINS[:2]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Made]]:
    """One environment of some domains, made by two processes."""
    into = tmp_path_factory.mktemp("offline")
    return into, synthesise(Request(seed=5, domains=SOME), 2, into, jobs=2)


def test_what_is_made_has_passed_the_gate(run: tuple[Path, list[Made]]) -> None:
    into, made = run
    assert [each.problems for each in made] == [()] * len(made)
    for each in made:
        pack = load_pack(into / each.name)
        assert pack.digest == each.digest
        assert len(pack.tasks) == each.makeup.tasks >= 6
        assert {task.difficulty for task in pack.tasks.values()} >= {"easy", "medium"}
        assert each.makeup.tables >= 5
        assert each.makeup.tools >= 15


def test_what_is_made_says_what_the_gate_found(run: tuple[Path, list[Made]]) -> None:
    into, made = run
    for each in made:
        makeup = each.makeup
        tasks = load_pack(into / each.name).tasks.values()
        assert makeup.tools_called == len({call.tool for one in tasks for call in one.oracle})
        assert 0 < makeup.tables_changed <= makeup.tables
        assert len(makeup.gates) == GATES
        assert all(gate.passed for gate in makeup.gates if gate.hard)
        (covered,) = (gate for gate in makeup.gates if gate.name == "oracles cover the tools")
        assert covered.passed == (makeup.tools_called == makeup.tools)
        assert each.record.makeup is makeup


def test_oracles_of_an_environment_have_different_shapes(run: tuple[Path, list[Made]]) -> None:
    _, made = run
    for each in made:
        assert len(set(each.makeup.shapes)) == each.makeup.tasks


def test_the_same_again_by_one_process_after_an_interruption(
    run: tuple[Path, list[Made]], tmp_path: Path
) -> None:
    _, made = run
    request = Request(seed=5, domains=SOME)
    assert len(synthesise(request, 1, tmp_path, jobs=1)) == 1
    half = tmp_path / NOTES / "making-1"
    half.mkdir()
    (half / "schema.sql").write_text("CREATE TABLE")
    again = synthesise(request, 2, tmp_path, jobs=1)
    assert [each.digest for each in again] == [each.digest for each in made]
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != NOTES) == sorted(
        each.name for each in made
    )
    assert not list((tmp_path / NOTES).glob("making-*"))


def test_a_folder_holds_one_run(run: tuple[Path, list[Made]]) -> None:
    into, _ = run
    with pytest.raises(SynthesisRefused, match="another seed"):
        synthesise(Request(seed=6, domains=SOME), 2, into, jobs=1)
    with pytest.raises(SynthesisRefused, match="no blueprint of atlantis"):
        synthesise(Request(seed=6, domains=("atlantis",)), 2, into / "other", jobs=1)


def test_without_faker_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faker", None)
    people.cache_clear()
    with pytest.raises(FakerUnavailable, match=r"mcp-env-hub\[synth\]") as refused:
        synthesise(Request(seed=5, domains=SOME), 2, tmp_path, jobs=1)
    assert refused.value.kind == "infrastructure"
    assert not list(tmp_path.iterdir())


def test_instructions_name_no_ids(run: tuple[Path, list[Made]]) -> None:
    into, made = run
    for each in made:
        ids = {
            json.loads(line).get("id")
            for file in (into / each.name / "data").glob("*.jsonl")
            for line in file.read_text().splitlines()
            if line
        }
        texts = [task.instruction for task in load_pack(into / each.name).tasks.values()]
        assert not [key for key in ids if isinstance(key, str) for t in texts if key in t]


@pytest.mark.parametrize("domain", DOMAINS)
def test_rows_of_a_domain_keep_its_invariants(domain: str) -> None:
    blueprint = blueprints()[domain]
    for number in range(6):
        design = compose(blueprint, 3, number)
        rows = fabricate(design, render_schema(design))
        assert violations(design, rows) == []


def schema_of(design: Design) -> tuple[str, ...]:
    """The tables of a design with all names erased."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(render_schema(design))
        shapes = read_shapes(database)
        return erased_tables(database, {name: shape.columns for name, shape in shapes.items()})


def test_a_domain_gives_many_different_environments() -> None:
    for blueprint in blueprints().values():
        many = min(12, len(feature_sets(blueprint)))
        designs = [compose(blueprint, 1, number) for number in range(many)]
        assert len({fingerprint(schema_of(design)) for design in designs}) > many * 0.8


def test_domains_differ_once_their_names_are_erased() -> None:
    designs = [compose(blueprint, 1, 0) for blueprint in blueprints().values()]
    makeups = [
        Makeup(
            schema=schema_of(design),
            signatures=erased_tools(tool.spec for tool in tools_of(design).values()),
        )
        for design in designs
    ]
    found = diversity([(each.name, made) for each, made in zip(designs, makeups, strict=True)])
    assert max(found.nearest) < 0.6


def test_a_report_counts_what_passed(run: tuple[Path, list[Made]]) -> None:
    _, made = run
    report = report_of(made)
    assert report["passed"] == len(made)
    assert report["median"]["rows"] >= 100
    assert report["diversity"]["duplicates"] == ()
