"""docs/api.md says what the code says, and every example in it is run as one would type it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from hub.api.rest import PREFIX
from hub.api.routing import Route
from hub.client import Hub, SamplerSpec, asks
from hub.training import Schedule
from tests.end_to_end.api_reference import PAGE, curl, page, routes
from tests.hub.served import Served, served

ROUTES = [route for table in routes().values() for route in table]
TASK = ("procurement", "chairs-asked-for-twice")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("api") / "data") as hub:
        yield hub


@pytest.fixture(scope="module")
def description(running: Served) -> dict[str, Any]:
    with Hub(running.address) as hub:
        ask = asks.Ask(method="GET", path=f"{PREFIX}/openapi.json", answer=dict[str, Any])
        return hub.ask(ask)


def test_the_page_is_what_the_code_says() -> None:
    assert PAGE.read_text() == page(), "run `make reference`"


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_the_example_is_answered_as_described(
    route: Route, running: Served, description: dict[str, Any]
) -> None:
    with Hub(running.address) as hub:
        hub.ask(asks.keep_schedule("scaling", Schedule(fixed=5)))
        hub.ask(asks.keep_sampler("band", SamplerSpec()))
        episode = hub.episode(*TASK)
        episode.mark()
        identity = episode.id
        if "/groups/" in route.path:
            identity = hub.group(*TASK, size=2).id
        if route.content_type != "application/json":
            episode.close()
        answer = said(route, running.address, identity)
    schemas = description["components"]["schemas"]
    operation = description["paths"][PREFIX + route.path][route.method.lower()]
    content = operation["responses"][str(route.status)]["content"][route.content_type]
    jsonschema.validate(answer, {**content["schema"], "components": {"schemas": schemas}})


def said(route: Route, address: str, identity: str) -> Any:
    """What the example is answered; of lines and events the first."""
    line = curl(route).replace("ep-…", "$ID")
    if "$ID" in line.partition(" -d ")[2]:  # within the quotes of a shell
        line = line.replace("$ID", identity)
    follows = route.content_type == "text/event-stream"
    if follows:
        line = line.replace("/events", "/events?cursor=0") + " --max-time 1"
    done = subprocess.run(
        ["bash", "-c", line + " -w '\\n%{http_code}'"],
        env={"HUB": address, "ID": identity, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    body, _, status = done.stdout.rpartition("\n")
    assert status == str(route.status), done.stdout
    if follows:
        body = next(each for each in body.splitlines() if each.startswith("data: "))
        body = body.removeprefix("data: ")
    if route.content_type == "application/jsonl":
        body = body.splitlines()[0]
    return json.loads(body)
