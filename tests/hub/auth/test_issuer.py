"""Access tokens of a local issuer: what is taken, what is refused, and whose fault it is."""

from __future__ import annotations

import asyncio
import base64
import hmac
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

from hub.app import App, Hub
from hub.auth.issuer import ASK_AGAIN_SECONDS, KEYS_FRESH_SECONDS
from hub.auth.issuer import Issuer as Checking
from hub.auth.resource import Resource
from hub.auth.tokens import TokenFile
from hub.errors import IssuerUnreachable, Unauthenticated
from hub.settings import Settings, SettingsInvalid
from tests.hub.auth.asking import Asking
from tests.hub.auth.issuing import KEYS, Issuer, code_in, issuing
from tests.hub.conftest import PACKS
from tests.hub.mcp_server.conftest import request

pytestmark = pytest.mark.anyio

HUB = "https://hub.example"
SHOP = "/environments/shop/mcp"


@pytest.fixture(scope="module")
async def issuer(anyio_backend: object) -> AsyncIterator[Issuer]:
    async with issuing() as opened:
        yield opened


@pytest.fixture(scope="module")
async def app(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    settings = Settings(
        data_dir=tmp_path_factory.mktemp("issued"),
        packs=(PACKS / "shop",),
        shipped=False,
        public_url=HUB,
        oauth_issuer=issuer.url,
        allowed_hosts=("hub.example",),
    )
    async with Hub.open(settings) as hub:
        yield App(hub)


# --- what is taken ---------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", sorted(KEYS))
async def test_asymmetric_signatures_are_taken(app: App, issuer: Issuer, algorithm: str) -> None:
    asking = Asking(app, issuer.token(algorithm))
    assert (await asking.ask("GET", "/v1/episodes")).status == 200


@pytest.mark.parametrize(
    ("claims", "allowed"),
    [
        ({"scope": "play rollout unheard-of"}, {"rollout"}),
        ({"scope": None, "scp": ["train", 7]}, {"train"}),
        ({"scope": None, "scp": "rollout train"}, {"rollout", "train"}),
        ({"scope": None}, set()),
        ({"scope": 3}, set()),
        ({"scope": "admin"}, {"rollout", "train", "admin"}),
    ],
)
async def test_scopes_are_those_of_the_token(
    app: App, issuer: Issuer, claims: dict[str, Any], allowed: set[str]
) -> None:
    asking = Asking(app, issuer.token(**claims))
    asks = {"rollout": "/v1/episodes", "train": "/v1/groups", "admin": "/metrics"}
    for scope, path in asks.items():
        status = (await asking.ask("GET", path)).status
        assert status == (200 if scope in allowed else 403), path
    assert (await asking.ask("GET", "/v1/environments")).status == 200


async def test_a_subject_is_a_tenant_and_never_the_owner(app: App, issuer: Issuer) -> None:
    ann, again = Asking(app, issuer.token()), Asking(app, issuer.token("ES256", jti="2"))
    begun = await ann.made("/v1/episodes", {"environment": "shop"})
    path = f"/v1/episodes/{begun['id']}"
    assert (await again.ask("GET", path)).status == 200
    for sub in ("bob", "local", "oauth:ann"):
        assert (await Asking(app, issuer.token(sub=sub)).ask("GET", path)).status == 404, sub


async def test_an_audience_below_the_hub_is_good_there_alone(app: App, issuer: Issuer) -> None:
    asking = Asking(app, issuer.token(aud=[f"{HUB}{SHOP}", "https://other.example"]))
    assert (await asking.rpc(SHOP, "ping")).status == 200
    for path in ("/environments/shopping/mcp", "/v1/environments", "/environments/shop"):
        assert (await asking.ask("GET", path)).status == 401, path


# --- what is refused -------------------------------------------------------------------------


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def forged(issuer: Issuer) -> dict[str, str]:
    """Tokens that are not good, by what is wrong with them."""
    now = int(time.time())
    good = issuer.token()
    head, body, signature = good.split(".")
    public = KEYS["RS256"].public_key()
    pem = public.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    head_of_another = base64url(b'{"alg": "HS256", "kid": "key-RS256"}')
    confused = f"{head_of_another}.{body}"
    mac = base64url(hmac.digest(pem, confused.encode(), "sha256"))
    claims = jwt.decode(good, options={"verify_signature": False})
    stranger = rsa.generate_private_key(65537, 2048)
    return {
        "expired": issuer.token(exp=now - 31),
        "without an end": issuer.token(exp=None),
        "ends never": issuer.token(exp=float("inf")),
        "not yet": issuer.token(nbf=now + 60),
        "another issuer": issuer.token(iss="https://evil.example"),
        "no issuer": issuer.token(iss=None),
        "another audience": issuer.token(aud="https://other.example"),
        "an audience that begins alike": issuer.token(aud="https://hub.example.evil/x"),
        "no audience": issuer.token(aud=None),
        "an odd audience": issuer.token(aud=[]),
        "no tenant": issuer.token(sub=None),
        "a tenant with a line break": issuer.token(sub="ann\nbob"),
        "an empty tenant": issuer.token(sub=""),
        "unsigned": issuer.token("none"),
        "a shared secret": issuer.token("HS256"),
        "the public key as a secret": f"{confused}.{mac}",
        "a stranger's key": jwt.encode(claims, stranger, "RS256", {"kid": "key-RS256"}),
        "the key of another algorithm": issuer.token("RS256", kid="key-ES256"),
        "an altered signature": f"{head}.{body}.{signature[:-8]}{signature[-8:][::-1]}",
        "another's claims": f"{head}.{issuer.token(sub='root').split('.')[1]}.{signature}",
        "no token": "not.a.token",
        "too long": good + "x" * 20_000,
    }


async def test_whatever_is_wrong_with_a_token_is_401(app: App, issuer: Issuer) -> None:
    for what, token in forged(issuer).items():
        answer = await Asking(app, token).ask("GET", "/v1/episodes")
        assert answer.status == 401, what
        assert answer.headers["www-authenticate"].startswith(
            'Bearer realm="envhub", error="invalid_token"'
        ), what
        assert token not in answer.body.decode(), what


# --- the issuer's keys -----------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


def checking(issuer: Issuer, clock: Clock) -> Checking:
    settings = Settings(public_url=HUB, oauth_issuer=issuer.url + "/")
    resource = Resource.of(settings)
    assert resource is not None
    return Checking(resource, clock=clock)


async def test_a_flood_of_unknown_keys_asks_the_issuer_once(anyio_backend: object) -> None:
    clock = Clock()
    async with issuing() as issuer:
        checks = checking(issuer, clock)
        tokens = [issuer.token(kid=f"unheard-{number}") for number in range(50)]

        async def refused(token: str) -> bool:
            with pytest.raises(Unauthenticated):
                await checks.find(token.encode())
            return True

        assert all(await asyncio.gather(*map(refused, tokens)))
        assert issuer.asked == 1
        clock.now += ASK_AGAIN_SECONDS
        assert all(await asyncio.gather(*map(refused, tokens)))
        assert issuer.asked == 2


async def test_a_new_key_is_found(anyio_backend: object) -> None:
    clock = Clock()
    async with issuing() as issuer:
        checks = checking(issuer, clock)
        kept = issuer.keys.pop("key-ES256")
        assert (await checks.find(issuer.token().encode())).tenant == "oauth:ann"
        issuer.keys["key-ES256"] = kept
        clock.now += ASK_AGAIN_SECONDS
        assert (await checks.find(issuer.token("ES256").encode())).tenant == "oauth:ann"


async def test_a_token_may_be_good_for_longer_than_a_clock_can_tell(anyio_backend: object) -> None:
    async with issuing() as issuer:
        checks = checking(issuer, Clock())
        assert (await checks.find(issuer.token(exp=10**400).encode())).expires > 1e15


async def test_an_issuer_out_of_order_is_our_fault_and_known_keys_go_on(
    anyio_backend: object,
) -> None:
    clock = Clock()
    async with issuing() as issuer:
        checks = checking(issuer, clock)
        issuer.broken = True
        for _ in range(5):
            with pytest.raises(IssuerUnreachable):
                await checks.find(issuer.token().encode())
        assert issuer.asked == 1
        issuer.broken = False
        clock.now += ASK_AGAIN_SECONDS
        assert (await checks.find(issuer.token().encode())).name == "ann"
        issuer.broken = True
        clock.now += KEYS_FRESH_SECONDS + 1
        later = int(clock.now) + 300
        assert (await checks.find(issuer.token(exp=later).encode())).name == "ann"
        assert checks._keys._asking is not None
        await checks._keys._asking
        with pytest.raises(IssuerUnreachable):
            await checks.find(issuer.token(exp=later, kid="new").encode())


async def test_a_dead_issuer_is_503_and_tokens_of_the_hub_go_on(tmp_path: Path) -> None:
    settings = Settings(
        data_dir=tmp_path,
        packs=(PACKS / "shop",),
        shipped=False,
        public_url=HUB,
        oauth_issuer="http://127.0.0.1:9/",
    )
    secret = TokenFile(tmp_path / "tokens.json").create("ann", "ann", ["rollout"])
    issuer = Issuer()
    async with Hub.open(settings) as hub:
        app = App(hub)
        answer = await Asking(app, issuer.token()).ask("GET", "/v1/episodes")
        assert (answer.status, answer.json["error"]["code"]) == (503, "ISSUER_UNREACHABLE")
        assert answer.json["error"]["kind"] == "infrastructure"
        assert "retry-after" in answer.headers
        assert (await Asking(app, secret).ask("GET", "/v1/episodes")).status == 200


def test_an_issuer_needs_to_know_where_the_hub_is() -> None:
    with pytest.raises(SettingsInvalid, match="ENVHUB_PUBLIC_URL"):
        Resource.of(Settings(oauth_issuer="https://issuer.example"))
    assert Resource.of(Settings(public_url=HUB)) is None


# --- as MCP asks -----------------------------------------------------------------------------


async def test_a_client_is_told_where_tokens_come_from(app: App, issuer: Issuer) -> None:
    nobody = Asking(app)
    answer = await nobody.rpc(SHOP, "ping")
    where = f"{HUB}/.well-known/oauth-protected-resource{SHOP}"
    assert (
        answer.headers["www-authenticate"] == f'Bearer realm="envhub", resource_metadata="{where}"'
    )
    assert answer.json["error"]["data"]["code"] == "TOKEN_MISSING"
    for path in (SHOP, ""):
        metadata = await nobody.ask("GET", f"/.well-known/oauth-protected-resource{path}")
        assert metadata.status == 200
        assert metadata.json["resource"] == HUB + path
        assert metadata.json["authorization_servers"] == [issuer.url]
        assert metadata.json["scopes_supported"] == ["play", "rollout", "train", "admin"]
    assert (await nobody.ask("GET", "/.well-known/oauth-protected-resources")).status == 404
    lacking = await Asking(app, issuer.token(scope="train")).ask("POST", SHOP, request("ping"))
    challenge = lacking.headers["www-authenticate"]
    assert 'error="insufficient_scope", scope="play", resource_metadata="' in challenge


@pytest.mark.parametrize("path", ["/v1/episodes", "/v1/groups", "/metrics", "/"])
async def test_every_challenge_says_where_tokens_come_from(
    app: App, issuer: Issuer, path: str
) -> None:
    where = f'resource_metadata="{HUB}/.well-known/oauth-protected-resource{path}"'
    missing = await Asking(app).ask("GET", path)
    assert missing.headers["www-authenticate"] == f'Bearer realm="envhub", {where}'
    wrong = await Asking(app, "no token").ask("GET", path)
    assert wrong.headers["www-authenticate"].endswith(f'error="invalid_token", {where}')
    if path != "/":
        lacking = await Asking(app, issuer.token(scope="play")).ask("GET", path)
        assert lacking.status == 403
        assert lacking.headers["www-authenticate"].endswith(f'", {where}')
    assert "www-authenticate" not in (await Asking(app).ask("GET", "/healthz")).headers


async def test_a_challenge_is_one_header_whatever_was_asked_for(app: App) -> None:
    answer = await Asking(app).rpc('/environments/"x"\r\nset-cookie: a=b, \u00e9/mcp', "ping")
    challenge = answer.headers["www-authenticate"]
    assert answer.status == 401
    assert challenge.isascii()
    assert challenge.isprintable()
    assert challenge.count('"') == 4


class Kept:
    """A client's memory."""

    tokens: OAuthToken | None = None
    info: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.info = client_info


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_finds_its_way_in(app: App, mode: str) -> None:
    landed: list[str] = []

    async def redirect(url: str) -> None:
        async with httpx2.AsyncClient() as browser:
            landed.append((await browser.get(url)).headers["location"])

    async def callback() -> AuthorizationCodeResult:
        code, state = code_in(landed[-1])
        return AuthorizationCodeResult(code=code, state=state)

    kept = Kept()
    provider = OAuthClientProvider(
        server_url=HUB + SHOP,
        client_metadata=OAuthClientMetadata(
            client_name="test", redirect_uris=[AnyUrl("http://127.0.0.1/landed")]
        ),
        storage=kept,
        redirect_handler=redirect,
        callback_handler=callback,
    )
    here = {"all://hub.example": httpx2.ASGITransport(app)}
    async with (
        httpx2.AsyncClient(mounts=here, auth=provider) as http,
        Client(streamable_http_client(f"{HUB}{SHOP}", http_client=http), mode=mode) as client,
    ):
        order = {"sku": "TEA-100", "quantity": 1}
        result = await client.call_tool("order", order)
        assert not result.is_error, result
    assert len(landed) == 1
    assert kept.tokens is not None
    claims = jwt.decode(kept.tokens.access_token, options={"verify_signature": False})
    assert claims["aud"] == HUB + SHOP
