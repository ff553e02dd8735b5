"""Requests that schemathesis draws from the description, with what exists put in."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import hypothesis
import schemathesis
from schemathesis.core import NOT_SET
from schemathesis.generation import GenerationMode

from tests.security.request import Request

if TYPE_CHECKING:
    from tests.security.requests import Known

REAL = {
    "environment": ("shop",),
    "task": ("buy-tea", "last-cup"),
    "tool": ("order", "list_products", "recite", "break_down", "leave", "wait"),
    "name": ("shop", "one", "two"),
    "mark": ("m1", "start"),
}


class Draws:
    """Draws a few cases of some operations at a time; each is sent as it is, and again altered."""

    def __init__(
        self, description: dict[str, Any], chance: random.Random, known: Known, count: int
    ) -> None:
        self._chance = chance
        self._known = known
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            schema = schemathesis.openapi.from_dict(description)
            self._operations = [found.ok() for found in schema.get_all_operations()]
        chance.shuffle(self._operations)
        self._per_operation = max(2, min(40, count // (10 * len(self._operations))))
        self._cases = self._drawn()
        self._again: list[Any] = []

    def draw(self) -> Request:
        """The next request."""
        if self._chance.random() < 0.1:
            return self._sensible()
        if self._again and self._chance.random() < 0.7:
            return self._request(self._chance.choice(self._again))
        case = next(self._cases)
        self._again = [*self._again[-60:], case]
        return self._request(case)

    def _sensible(self) -> Request:
        """What makes sense, so that there is something to ask about."""
        task = {"environment": "shop", "task": "buy-tea"}
        order = {"tool": "order", "arguments": {"sku": "TEA-100", "quantity": 2}}
        made = "/v1/episodes"
        known = f"{made}/{self._chance.choice(self._known.episodes)}"
        what = [(made, task), ("/v1/groups", {**task, "size": 2}), (f"{known}/call", order)]
        what += [(f"{known}/marks", {"name": "m1"}), (f"{known}/score", {}), (f"{known}/fork", {})]
        target, body = self._chance.choice(what)
        return Request.of("rest", "POST", target, body)

    def _drawn(self) -> Iterator[Any]:
        for round_number, operation in enumerate(itertools.cycle(self._operations)):
            modes = [GenerationMode.POSITIVE] * 2
            if operation.method != "get" and operation.body:
                modes.append(GenerationMode.NEGATIVE)
            yield from self._cases_of(operation, self._chance.choice(modes), round_number)

    def _cases_of(self, operation: Any, mode: GenerationMode, seed: int) -> list[Any]:
        cases: list[Any] = []

        @hypothesis.seed(seed)
        @hypothesis.settings(
            max_examples=self._per_operation,
            database=None,
            deadline=None,
            suppress_health_check=list(hypothesis.HealthCheck),
            phases=[hypothesis.Phase.generate],
        )
        @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
        def keep(case: Any) -> None:
            cases.append(case)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # where nothing wrong could be said there are no cases
            with contextlib.suppress(hypothesis.errors.Unsatisfiable):
                keep()
        return cases

    def _request(self, case: Any) -> Request:
        path = case.path
        for name, value in (case.path_parameters or {}).items():
            kind = "group" if "/groups/" in path else name
            path = path.replace(f"{{{name}}}", quote(str(self._real(kind, value)), safe=""))
        query = {name: self._real(name, value) for name, value in (case.query or {}).items()}
        target = path + ("?" + urlencode(query, doseq=True, errors="replace") if query else "")
        body = case.body
        if body is NOT_SET:
            content = None
        elif isinstance(body, bytes):
            content = body
        else:
            content = json.dumps(self._with_real(body)).encode()
        return Request.of("rest", case.method.upper(), target, content)

    def _with_real(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._real(name, self._with_real(kept)) for name, kept in value.items()}
        if isinstance(value, list):
            return [self._with_real(kept) for kept in value]
        return value

    def _real(self, name: str, value: Any) -> Any:
        """Something that exists, more often than not."""
        if self._chance.random() < 0.25:
            return value
        if name == "group":
            return self._chance.choice(self._known.groups)
        if name in ("id", "episode"):
            return self._chance.choice(self._known.episodes)
        return self._chance.choice(REAL[name]) if name in REAL else value
