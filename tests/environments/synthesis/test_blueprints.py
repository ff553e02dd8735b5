"""Blueprints mean the same by SQL and in the tools: what their rules accept is done, what one rule
refuses is refused with its code."""

from __future__ import annotations

import random
import sys
from datetime import date
from string import Formatter
from types import ModuleType
from typing import Any

import apsw
import pytest

from environments.authoring import (
    CallContext,
    Database,
    Tool,
    ToolError,
    call_context,
    declared_tools,
)
from environments.synthesis.blueprint import Action, Need
from environments.synthesis.blueprints import blueprints
from environments.synthesis.offline.candidates import bindings, rules_of
from environments.synthesis.offline.compose import Design, compose
from environments.synthesis.offline.fabricate import fabricate
from environments.synthesis.offline.render import render_schema
from environments.synthesis.offline.render_tools import render_tools

TRIED = 3


def tools_of(design: Design) -> dict[str, Tool]:
    """The tools of a design, in this process."""
    module = ModuleType("tools")
    sys.modules["tools"] = module  # where pydantic looks up annotations
    exec(compile(render_tools(design), "tools.py", "exec"), module.__dict__)
    return declared_tools(vars(module).values())


class Place:
    """The tools of a design in this process, on a database in memory."""

    def __init__(self, design: Design) -> None:
        self.design = design
        self.rows = fabricate(design, render_schema(design))
        self.tools = tools_of(design)
        clock = date.toordinal(design.today) - date(1970, 1, 1).toordinal()
        self.clock_ms = clock * 86_400_000 + 9 * 3_600_000

    def call(self, action: Action, binding: dict[str, Any]) -> str:
        """The code of the error it answers; none if it does what it should."""
        connection = apsw.Connection(":memory:")
        connection.deserialize("main", self.rows.serialize())
        arguments = {
            f"{take.name}_id" if take.entity else take.name: binding[take.name]
            for take in action.takes
            if not take.via
        }
        for take in action.takes:
            if take.kind is not None and take.kind.sort == "flag":
                arguments[take.name] = bool(arguments[take.name])
        with call_context(CallContext(self.clock_ms, 1)):
            try:
                self.tools[action.name](Database(connection), arguments)
            except ToolError as error:
                return error.code
        return ""


@pytest.mark.parametrize("domain", blueprints())
def test_rules_mean_the_same_by_sql_and_in_the_tools(domain: str) -> None:
    dice = random.Random(domain)
    done = 0
    for number in range(2):
        place = Place(compose(blueprints()[domain], 2, number))
        for action in place.design.actions:
            for binding in bindings(place.design, place.rows, action, dice)[:TRIED]:
                assert place.call(action, binding) == "", (action.name, binding)
                done += 1
            for rule in rules_of(action):
                assert isinstance(rule, Need)
                for binding in bindings(place.design, place.rows, action, dice, rule)[:1]:
                    assert place.call(action, binding) == rule.code, (action.name, binding)
    assert done > 20


@pytest.mark.parametrize("domain", blueprints())
def test_a_blueprint_is_as_large_as_they_are_said_to_be(domain: str) -> None:
    blueprint = blueprints()[domain]
    assert 5 <= len(blueprint.entities) <= 7
    assert 5 <= len(blueprint.actions) <= 11
    assert len(blueprint.features) >= 8
    parts = (blueprint, *blueprint.features)
    assert max(entity.rows[1] for part in parts for entity in part.entities) <= 80


@pytest.mark.parametrize("domain", blueprints())
def test_asking_for_an_action_names_all_it_takes(domain: str) -> None:
    blueprint = blueprints()[domain]
    for part in (blueprint, *blueprint.features):
        for action in part.actions:
            given = {take.name for take in action.takes if not take.via}
            assert action.asks
            for asked in action.asks:
                named = {name for _, name, _, _ in Formatter().parse(asked) if name is not None}
                assert named == given, action.name
