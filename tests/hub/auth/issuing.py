"""A local authorization server: the SDK's own routes, a provider that asks nobody, and a JWKS."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from mcp.server.auth.provider import (
    AuthorizationCode,
    AuthorizationParams,
    construct_redirect_uri,
)
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import ClientRegistrationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.hub.mcp_server.serving import served

KEYS: dict[str, Any] = {
    "RS256": rsa.generate_private_key(65537, 2048),
    "PS256": rsa.generate_private_key(65537, 2048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}
"""Made once: a key of RSA takes a while."""


class Issuer:
    """What it knows, and how often it was asked for its keys."""

    def __init__(self) -> None:
        self.url = ""
        self.keys = {f"key-{name}": (name, key) for name, key in KEYS.items()}
        self.asked = 0
        self.broken = False
        self._clients: dict[str, OAuthClientInformationFull] = {}
        self._codes: dict[str, AuthorizationCode] = {}

    def token(self, algorithm: str = "RS256", /, **claims: Any) -> str:
        """A signed token; ``kid`` names another key than its own, ``None`` leaves a claim out."""
        kid = claims.pop("kid", f"key-{algorithm}")
        header = {"kid": kid} if kid else {}
        given = {
            "iss": self.url,
            "aud": "https://hub.example",
            "sub": "ann",
            "scope": "play rollout",
            "exp": int(time.time()) + 300,
            **claims,
        }
        said = {name: value for name, value in given.items() if value is not None}
        key = KEYS.get(algorithm, b"a secret that both sides know, and should not")
        return jwt.encode(said, None if algorithm == "none" else key, algorithm, header)

    # the provider of the SDK's routes --------------------------------------------------------

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self._clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self._clients[client_info.client_id or ""] = client_info

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        code = secrets.token_hex(8)
        self._codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id or "",
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, client: Any, code: str) -> AuthorizationCode | None:
        return self._codes.get(code)

    async def exchange_authorization_code(self, client: Any, code: AuthorizationCode) -> OAuthToken:
        token = self.token("ES256", aud=code.resource, scope=" ".join(code.scopes), sub="person")
        return OAuthToken(access_token=token, token_type="Bearer", expires_in=300)

    # the application -------------------------------------------------------------------------

    def app(self) -> Starlette:
        async def jwks(request: Request) -> Response:
            self.asked += 1
            if self.broken:
                return Response("out of order", 500)
            return JSONResponse({"keys": [public(kid, *key) for kid, key in self.keys.items()]})

        async def openid(request: Request) -> Response:
            return JSONResponse({"issuer": self.url, "jwks_uri": f"{self.url}/jwks"})

        options = ClientRegistrationOptions(enabled=True)
        routes = create_auth_routes(
            self,  # type: ignore[arg-type]
            AnyHttpUrl("http://127.0.0.1"),
            client_registration_options=options,
        )

        async def metadata(request: Request) -> Response:
            paths = ("authorize", "token", "register")
            endpoints = {
                "authorization_endpoint": "authorize",
                "token_endpoint": "token",
                "registration_endpoint": "register",
            }
            assert {urlsplit(route.path).path.strip("/") for route in routes} >= set(paths)
            return JSONResponse(
                {
                    "issuer": self.url,
                    "jwks_uri": f"{self.url}/jwks",
                    "response_types_supported": ["code"],
                    "grant_types_supported": ["authorization_code"],
                    "token_endpoint_auth_methods_supported": ["none", "client_secret_post"],
                    "code_challenge_methods_supported": ["S256"],
                    **{name: f"{self.url}/{path}" for name, path in endpoints.items()},
                }
            )

        own = [
            Route("/jwks", jwks),
            Route("/.well-known/openid-configuration", openid),
            Route("/.well-known/oauth-authorization-server", metadata),
        ]
        return Starlette(routes=[*own, *routes])


def public(kid: str, name: str, key: Any) -> dict[str, Any]:
    """A key as the issuer shows it."""
    form = {"ES256": ECAlgorithm, "EdDSA": OKPAlgorithm}.get(name, RSAAlgorithm)
    return {**json.loads(form.to_jwk(key.public_key())), "kid": kid, "alg": name, "use": "sig"}


@asynccontextmanager
async def issuing() -> AsyncIterator[Issuer]:
    """An issuer on a loopback port."""
    issuer = Issuer()
    async with served(issuer.app()) as address:
        issuer.url = address
        yield issuer


def code_in(location: str) -> tuple[str, str]:
    """The code and the state of a redirection."""
    query = parse_qs(urlsplit(location).query)
    return query["code"][0], query["state"][0]
