"""Tokens come, go, expire and run out; what they hold open ends; their secrets are nowhere."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hub.app import App, Hub, gate_of
from hub.auth.gate import Gate
from hub.auth.principal import Principal
from hub.auth.quota import Limits, Quota
from hub.auth.tokens import PREFIX, TokenFile, Tokens
from hub.cli import main
from hub.client.exchange import Connection
from hub.data_dir import DataDir
from hub.errors import DataDirUnusable, HubExposed, QuotaExceeded, TokenExists, UnknownToken
from hub.settings import Settings, SettingsInvalid
from tests.environments.sandbox.conftest import until
from tests.hub.auth.asking import Asking
from tests.hub.auth.conftest import Bearer
from tests.hub.conftest import PACKS
from tests.hub.mcp_server.conftest import request

pytestmark = pytest.mark.anyio


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


# --- the file --------------------------------------------------------------------------------


def test_a_secret_is_told_once_and_kept_nowhere(tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "tokens.json")
    secret = file.create("ann", "acme", ["play"])
    assert secret.startswith(PREFIX)
    assert len(secret) == len(PREFIX) + 43
    kept = file.path.read_text()
    assert secret.removeprefix(PREFIX) not in kept
    assert file.path.stat().st_mode & 0o777 == 0o600
    found = Tokens(file).find(secret.encode())
    assert found is not None
    assert (found.tenant, found.sees_all) == ("acme", False)
    assert secret not in repr(found) + repr(file.read())
    with pytest.raises(TokenExists):
        file.create("ann", "other", ["play"])
    with pytest.raises(UnknownToken, match="'bob'"):
        file.revoke("bob")


def test_a_file_that_cannot_be_read_lets_nobody_in_and_throws_nobody_out(tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "tokens.json")
    secret = file.create("ann", "acme", ["play"]).encode()
    tokens = Tokens(file)
    file.path.write_text("{}}")
    assert not tokens.refresh()
    assert tokens.find(secret) is not None
    with pytest.raises(DataDirUnusable):
        Tokens(file)
    file.path.unlink()
    assert tokens.refresh()
    assert tokens.find(secret) is None
    assert tokens.configured, "whoever deletes the file does not open the hub that runs"


def test_a_file_that_cannot_be_read_closes_an_open_hub(tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "tokens.json")
    gate = Gate(Tokens(file))
    assert gate.open
    file.path.write_text("{}}")
    gate._tokens.refresh()
    assert not gate.open


@pytest.mark.parametrize("digest", ["zz", "z" * 64, "é" * 64])
def test_a_digest_that_is_none_is_a_file_that_cannot_be_read(tmp_path: Path, digest: str) -> None:
    file = TokenFile(tmp_path / "tokens.json")
    secret = file.create("ann", "acme", ["play"]).encode()
    tokens = Tokens(file)
    (kept,) = file.read()
    file.path.write_text(file.path.read_text().replace(kept.digest, digest))
    assert not tokens.refresh()
    assert tokens.find(secret) is not None


@pytest.mark.parametrize("name", ["tokens.lock", "tokens.new"])
def test_a_link_beside_the_tokens_is_not_followed(tmp_path: Path, name: str) -> None:
    other, data = tmp_path / "other", tmp_path / "data"
    other.write_text("another's")
    data.mkdir()
    if os.geteuid() == 0:  # or whose hub it is could have root give it any file
        os.chown(data, 65534, 65534)
    before = other.stat()
    (data / name).symlink_to(other)
    file = TokenFile(data / "tokens.json")
    if name == "tokens.lock":
        with pytest.raises(DataDirUnusable, match=r"tokens\.lock cannot be written"):
            file.create("ann", "ann", ["play"])
    else:
        file.create("ann", "ann", ["play"])
        assert not file.path.is_symlink()
    after = other.stat()
    assert (after.st_uid, after.st_size, after.st_mtime_ns) == (
        before.st_uid, before.st_size, before.st_mtime_ns
    )  # fmt: skip


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files for others")
def test_what_root_makes_is_the_hubs_to_read(tmp_path: Path) -> None:
    os.chown(tmp_path, 65534, 65534)
    TokenFile(tmp_path / "tokens.json").create("ann", "ann", ["play"])
    assert {each.stat().st_uid for each in tmp_path.iterdir()} == {65534}


def test_a_token_keeps_what_it_has_used_when_others_come_and_go(tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "tokens.json")
    secret = file.create("ann", "acme", ["play"], limits=Limits(calls_per_second=1)).encode()
    tokens = Tokens(file)
    ann = tokens.find(secret)
    file.create("bob", "acme", ["play"])
    assert tokens.refresh()
    assert tokens.find(secret) is ann
    assert not tokens.refresh()
    file.revoke("ann")
    assert ann is not None
    assert not ann.ended.is_set()
    tokens.refresh()
    assert ann.ended.is_set()


def test_a_token_expires(tmp_path: Path) -> None:
    file, clock = TokenFile(tmp_path / "tokens.json"), Clock()
    secret = file.create("ann", "acme", ["play"], expires=1010).encode()
    tokens = Tokens(file, clock=clock)
    assert tokens.find(secret) is not None
    clock.now = 1010
    assert tokens.find(secret) is None


async def test_the_command_line_makes_lists_and_revokes(
    app: App, guarded: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    def envhub(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["token", *words, "--data-dir", str(guarded.settings.data_dir)])
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    options = ("--scopes", "play,train", "--expires-days", "2", "--bytes", "90000")
    code, secret, beside = envhub("create", "cli", *options)
    secret = secret.strip()
    assert (code, secret[:3]) == (0, PREFIX), beside
    assert secret not in beside
    asking = Asking(app, secret)
    assert (await asking.ask("GET", "/v1/schedules")).status == 200, "the hub took it at once"
    _, listed, _ = envhub("list")
    assert "cli" in listed
    assert secret not in listed
    assert envhub("create", "worse", "--scopes", "fly")[0] == 2
    assert envhub("create", "cli")[0] == 1
    assert envhub("revoke", "cli")[0] == 0
    guarded.gate._tokens.refresh()
    assert (await asking.ask("GET", "/v1/schedules")).status == 401
    code, _, beside = envhub("revoke", "cli")
    assert (code, "there is no token" in beside) == (1, True)


# --- a hub that asks for none ----------------------------------------------------------------


async def test_a_hub_others_can_reach_does_not_start_without_tokens(tmp_path: Path) -> None:
    shop = Settings(data_dir=tmp_path, packs=(PACKS / "shop",), shipped=False)
    for host in ("0.0.0.0", "::", "10.0.0.7", "hub.example", "127.0.0.1.example", ""):
        exposed = msgspec.structs.replace(shop, host=host)
        with pytest.raises(HubExposed) as refused:
            async with Hub.open(exposed):
                pass
        for way in ("envhub token create", "proxy", "ENVHUB_OAUTH_ISSUER", "127.0.0.1"):
            assert way in refused.value.hint
    for host in ("127.0.0.1", "127.0.0.9", "::1", "localhost"):
        assert gate_of(msgspec.structs.replace(shop, host=host), DataDir(tmp_path)).open
    TokenFile(tmp_path / "tokens.json").create("ann", "ann", ["play"])
    async with Hub.open(exposed) as hub:
        assert not hub.gate.open


async def test_the_first_token_closes_a_hub_that_runs(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, packs=(PACKS / "shop",), shipped=False)
    async with Hub.open(settings) as hub:
        app = App(hub)
        begun = await Asking(app).made("/v1/episodes", {"environment": "shop"})
        path = f"/v1/episodes/{begun['id']}"
        secret = TokenFile(tmp_path / "tokens.json").create("me", "local", ["rollout"])
        await until(lambda: not hub.gate.open)
        assert (await Asking(app).ask("GET", path)).status == 401
        assert (await Asking(app, secret).ask("GET", path)).status == 200, "it is the owner's"
        TokenFile(tmp_path / "tokens.json").revoke("me")
    async with Hub.open(settings) as hub:
        assert not hub.gate.open, "a hub without any token left is no open hub"


async def test_what_is_anns_is_anns_after_a_restart(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, packs=(PACKS / "shop",), shipped=False)
    file = TokenFile(tmp_path / "tokens.json")
    ann, bob = (file.create(name, name, ["play", "rollout", "train"]) for name in ("ann", "bob"))
    shop = {"environment": "shop", "task": "buy-tea"}
    async with Hub.open(settings) as hub:
        asking = Asking(App(hub), ann)
        live = (await asking.made("/v1/episodes", shop))["id"]
        group = (await asking.made("/v1/groups", {**shop, "size": 2}))["id"]
        await asking.made("/v1/schedules/mine", {"fixed": 3}, "PUT")
        session = await asking.session("/environments/shop/mcp")
    async with Hub.open(settings) as hub:
        app = App(hub)
        for path in (f"/v1/episodes/{live}", f"/v1/groups/{group}", "/v1/schedules/mine"):
            assert (await Asking(app, ann).ask("GET", path)).status == 200, path
            assert (await Asking(app, bob).ask("GET", path)).status == 404, path
        for secret, status in ((bob, 404), (ann, 200)):
            ping = await Asking(app, secret).rpc(
                "/environments/shop/mcp", "ping", mcp_session_id=session
            )
            assert ping.status == status


# --- what ends with a token ------------------------------------------------------------------


async def test_what_a_revoked_token_holds_open_ends(
    app: App, guarded: Hub, bearer: Bearer, file: TokenFile
) -> None:
    asking = bearer("leaving", "train", "play")
    events = asyncio.ensure_future(asking.ask("GET", "/v1/events", pieces=1_000_000))
    await until(lambda: asking.sent > 0)
    file.revoke("leaving")
    guarded.gate._tokens.refresh()
    assert (await events).status == 200
    assert (await asking.ask("GET", "/v1/environments")).status == 401


async def test_what_an_expired_token_holds_open_ends() -> None:
    clock = Clock()
    gate = Gate(None, clock=clock)  # type: ignore[arg-type]
    ends = Principal("ann", "acme", ["train"], expires=clock.now + 0.01)
    first = {"type": "http.request", "body": b""}

    async def receive() -> Any:
        if asked:
            await asyncio.Event().wait()
        asked.append(1)
        return first

    asked: list[int] = []
    receiving = gate.receiving(ends, receive)
    assert await receiving() == first
    assert await receiving() == {"type": "http.disconnect"}


# --- limits ----------------------------------------------------------------------------------


def test_calls_come_back_with_time_and_a_batch_is_owed() -> None:
    clock = Clock()
    quota = Quota(Limits(calls_per_second=2), clock)
    quota.call()
    quota.call()
    with pytest.raises(QuotaExceeded) as refused:
        quota.call()
    assert refused.value.details == {"limit": "calls_per_second", "retry_after_seconds": 1}
    clock.now += 0.5
    quota.call(9)  # one is there: the rest is owed
    with pytest.raises(QuotaExceeded) as refused:
        quota.call()
    assert refused.value.details["retry_after_seconds"] == 5
    clock.now += 4.5
    quota.call()
    clock.now += 1e6
    for _ in range(2):
        quota.call()
    with pytest.raises(QuotaExceeded):
        quota.call()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/episodes", {"environment": "shop"}),
        ("/environments/shop/mcp", request("tools/list")),
    ],
)
async def test_too_many_calls_are_429_with_the_limits_name(
    bearer: Bearer, path: str, body: Any
) -> None:
    asking = bearer(f"hasty{path.count('/')}", calls_per_second=1)
    assert (await asking.ask("POST", path, body)).status in (200, 201)
    refused = await asking.ask("POST", path, body)
    assert refused.status == 429
    assert int(refused.headers["retry-after"]) >= 1
    error = refused.json["error"]
    error = error if isinstance(error["code"], str) else error["data"]
    assert error["code"] == "QUOTA_EXCEEDED"
    assert error["details"]["limit"] == "calls_per_second"
    assert (await asking.ask("GET", "/healthz")).status == 200


async def test_a_batch_counts_as_many(bearer: Bearer) -> None:
    asking = bearer("batching", calls_per_second=4)
    body = {"calls": [{"episode": "ep-1", "tool": "wait"}] * 10}
    assert (await asking.ask("POST", "/v1/episodes/batch/call", body)).status == 200
    refused = await asking.ask("GET", "/v1/environments")
    assert refused.status == 429
    assert int(refused.headers["retry-after"]) >= 1


async def test_a_tenant_holds_no_more_episodes_than_its_token_allows(bearer: Bearer) -> None:
    shop = {"environment": "shop"}
    asking, other = bearer("few", episodes=2), bearer("many")
    first = await asking.made("/v1/episodes", shop)
    await asking.made("/v1/episodes", shop)
    for path, body in (
        ("/v1/episodes", shop),
        (f"/v1/episodes/{first['id']}/fork", {}),
        ("/v1/groups", {**shop, "task": "buy-tea", "size": 2}),
        ("/v1/episodes/batch", {"episodes": [shop]}),
    ):
        refused = await asking.ask("POST", path, body)
        error = refused.json["results"][0]["error"] if "batch" in path else refused.json["error"]
        assert (error["code"], error["details"]["limit"]) == ("QUOTA_EXCEEDED", "episodes"), path
    order = {"name": "order", "arguments": {"sku": "TEA-100", "quantity": 1}}
    seat = await asking.ask(
        "POST", "/environments/shop/mcp", request("tools/call", order), query="seat=full"
    )
    assert b"QUOTA_EXCEEDED" in seat.body
    await other.made("/v1/episodes", shop)
    # what is parked is not held, and is not taken up again where that would be too many
    await asking.made(f"/v1/episodes/{first['id']}/park", {})
    third = await asking.made("/v1/episodes", shop)
    refused = await asking.ask("GET", f"/v1/episodes/{first['id']}")
    assert (refused.status, refused.json["error"]["code"]) == (429, "QUOTA_EXCEEDED")
    await asking.made(f"/v1/episodes/{third['id']}/close", {})
    assert (await asking.ask("GET", f"/v1/episodes/{first['id']}")).status == 200


async def test_many_at_once_do_not_slip_through(bearer: Bearer) -> None:
    asking = bearer("crowd", episodes=3)
    body = {"episodes": [{"environment": "shop"}] * 20}
    results = (await asking.made("/v1/episodes/batch", body))["results"]
    assert sum("episode" in each for each in results) == 3


async def test_bytes_run_out_by_what_is_sent_answered_and_written(bearer: Bearer) -> None:
    asking = bearer("talkative", bytes_per_day=9_000)
    episode = await asking.made("/v1/episodes", {"environment": "shop"})
    call = f"/v1/episodes/{episode['id']}/call"
    order = {"tool": "order", "arguments": {"sku": "TEA-100", "quantity": 1}}
    told = [await asking.ask("POST", call, order) for _ in range(3)]  # a page is 4,096 bytes
    assert told[0].status == 200
    assert told[-1].status == 429
    assert told[-1].json["error"]["details"]["limit"] == "bytes_per_day"
    sending = bearer("sending", bytes_per_day=20_000)
    transcript = {"messages": [{"role": "user", "content": "x" * 30_000}]}
    await sending.ask("PUT", "/v1/episodes/ep-1/transcript", transcript)
    assert (await sending.ask("GET", "/v1/environments")).status == 429


# --- secrets stay secret ---------------------------------------------------------------------


def test_settings_and_connections_show_no_secret() -> None:
    settings = Settings(
        token="eh_hidden", judge_key="sk-hidden", model_key="", user_key="sk-hidden"
    )
    assert "hidden" not in repr(settings) + str(settings)
    assert "host='127.0.0.1'" in repr(settings)
    assert "hidden" not in repr(Connection(url="http://hub", token="eh_hidden"))
    with pytest.raises(SettingsInvalid) as refused:
        Settings.from_environment({"ENVHUB_TOKEN": "eh_hidden", "ENVHUB_PORT": "x"})
    assert "hidden" not in str(refused.value)


async def test_no_secret_is_in_the_log(
    app: App, bearer: Bearer, capfd: pytest.CaptureFixture[str]
) -> None:
    asking = bearer("quiet")
    secret = asking.secret
    altered = Asking(app, secret[:-1] + "!")
    for who in (asking, altered):
        for path in ("/v1/nothing", "/v1/episodes", "/environments/none/mcp", "/metrics"):
            for method in ("GET", "POST"):
                answer = await who.ask(method, path, {"environment": 3})
                assert secret[:-1] not in answer.body.decode() + repr(answer.headers)
    said = capfd.readouterr()
    assert secret[:-1] not in said.out + said.err
