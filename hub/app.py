"""One hub: what it holds open, and the ASGI application in front of it.

The two paths that carry every call (``/v1`` and the MCP routes) are dispatched before any
framework is entered; starlette answers the rest.
"""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from typing import NamedTuple, Protocol

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send

from environments.environment import Environments
from environments.errors import EnvhubError
from environments.sandbox.host import Sandbox, SandboxLimits
from environments.sandbox.shares import on_behalf_of
from hub.admission import Tenure
from hub.api.rest import PREFIX, rest_api
from hub.auth import KEY, LOCAL, Access, Demand, Nobody, Principal, admitted
from hub.auth.gate import Gate
from hub.auth.resource import WELL_KNOWN, Resource, limits_of
from hub.auth.tokens import TokenFile, Tokens
from hub.curriculum import Curricula
from hub.data_dir import DataDir
from hub.edge.answers import CHALLENGE, error_json, headers_of, send_body
from hub.edge.guard import Guard
from hub.edge.pages import Page, Pages
from hub.episodes import Episodes
from hub.errors import HubExposed, SandboxIncomplete, UnknownRoute, body_of, status_of
from hub.groups import Groups
from hub.judging import judge_of, user_of
from hub.ledger import Ledger, NullJournal, Records, RowQuery
from hub.mcp_server.jsonrpc import encode_error, error_of
from hub.mcp_server.routes import ACCESS, SCOPE, McpRoutes
from hub.seats import Seats
from hub.settings import Settings
from hub.supply import catalogue_of
from hub.telemetry import CONTENT_TYPE, Metrics, Readings, logger
from hub.tending import tended
from snapshots import SnapshotStore

VERSION = version("mcp-env-hub")
SHOWN = 50
"""How many environments the first page names; the API lists all."""
ANY_ADDRESS = ("0.0.0.0", "::")

WORTH_A_WARNING = ("start_failed", "zygote_lost")

log = logger("hub.app")


@dataclasses.dataclass(frozen=True, slots=True)
class Hub:
    """Everything one hub holds open; ``async with Hub.open(settings) as hub:``."""

    settings: Settings
    metrics: Metrics
    sandbox: Sandbox
    environments: Environments
    ledger: Records
    episodes: Episodes
    seats: Seats
    groups: Groups
    gate: Gate
    secret: bytes = dataclasses.field(repr=False)

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: Settings) -> AsyncIterator[Hub]:
        """Lock the data directory, open the ledger, start the sandbox.

        Raises ``HubExposed``, ``DataDirLocked``, ``DataDirUnusable``, ``LedgerDamaged``,
        ``SandboxIncomplete`` and ``PackInvalid`` (a root that is no folder of packs). On the way
        out calls in flight are recorded, then all closes. A judge without a model is
        ``SettingsInvalid``.
        """
        data = DataDir(settings.data_dir)
        async with AsyncExitStack() as stack:
            stack.enter_context(data.lock())
            gate = gate_of(settings, data)
            await stack.enter_async_context(gate.watched())
            ledger: Records = NullJournal()
            if settings.durability == "step":
                ledger = await stack.enter_async_context(Ledger.open(data.ledger))
            sandbox = await stack.enter_async_context(
                Sandbox(_limits(settings), on_event=_log_sandbox)
            )
            await _look_at_layers(sandbox, required=settings.require_sandbox)
            store = SnapshotStore(data.snapshots)
            judge = await stack.enter_async_context(judge_of(settings))
            user = await stack.enter_async_context(user_of(settings))
            environments = Environments(catalogue_of(settings), store, sandbox, judge, user)
            metrics = Metrics()
            curricula = Curricula(environments.catalogue, ledger)
            episodes = Episodes(environments, ledger, metrics, curricula, _tenure(settings))
            await stack.enter_async_context(tended(episodes))
            metrics.watch(lambda: episodes.readings() | _sandbox_readings(sandbox))
            yield cls(
                settings=settings,
                metrics=metrics,
                sandbox=sandbox,
                environments=environments,
                ledger=ledger,
                episodes=episodes,
                seats=Seats(episodes),
                groups=Groups(episodes, curricula),
                gate=gate,
                secret=data.secret(),
            )


class Mounted(Protocol):
    """An ASGI application that can be closed."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...
    def close(self) -> None: ...


class Mount(NamedTuple):
    """A part of the application."""

    prefixes: tuple[str, ...]
    app: Mounted
    scope: Demand
    """What all of it asks for; its routes may ask for more."""
    access: tuple[Access, ...]


class App:
    """The ASGI application of an open hub."""

    def __init__(self, hub: Hub) -> None:
        settings = hub.settings
        hosts = settings.allowed_hosts or (
            ("*",) if settings.host in ANY_ADDRESS else (settings.host,)
        )
        guard = Guard(
            hosts,
            max_body_bytes=settings.max_body_bytes,
            max_json_depth=settings.max_json_depth,
        )
        rest = rest_api(hub.groups, version=VERSION, guard=guard)
        mcp = McpRoutes(hub.episodes, hub.seats, secret=hub.secret, guard=guard)
        pages = Pages(page_routes(hub), guard, hub.metrics.fault)
        self._gate = hub.gate
        self._metrics = hub.metrics
        self._mounts = (
            Mount((f"{PREFIX}/",), rest, "any", rest.access),
            Mount(("/episodes/", "/environments/"), mcp, SCOPE, ACCESS),
            Mount(("",), pages, "public", pages.access),
        )

    @property
    def access(self) -> tuple[Access, ...]:
        """Every way in, and what it asks for."""
        return tuple(access for mount in self._mounts for access in mount.access)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        for mount in self._mounts:
            if path.startswith(mount.prefixes):
                break
        if self._gate.open:
            scope[KEY] = LOCAL
            await mount.app(scope, receive, send)
            return
        if self._gate.issuer is not None:
            send = _pointing(self._gate.issuer.resource, path, send)
        scope[KEY] = await self._bearer(scope)
        try:
            principal = admitted(scope, mount.scope, self._metrics.fault)
        except EnvhubError as error:
            mcp = mount.scope == SCOPE
            body = encode_error(None, error_of(error)) if mcp else error_json(body_of(error))
            await send_body(send, status_of(error), body, headers_of(error))
            return
        receive = self._gate.receiving(principal, receive)
        if principal.quota.weighs:
            send = self._gate.sending(principal, send)
        with on_behalf_of(principal.tenant):
            await mount.app(scope, receive, send)

    def close(self) -> None:
        """End what would keep a stopping server waiting (open event streams)."""
        for mount in self._mounts:
            mount.app.close()

    async def _bearer(self, scope: Scope) -> Principal:
        try:
            return await self._gate.bearer(scope)
        except EnvhubError as error:  # what is public is answered all the same
            return Nobody(error)


def _pointing(resource: Resource, path: str, send: Send) -> Send:
    """``send`` that says with each challenge where tokens come from (RFC 9728, 5.1)."""

    async def send_pointing(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] in (401, 403):
            more = f', resource_metadata="{resource.metadata_url(path)}"'.encode()
            message["headers"] = [
                (name, value + more if name == CHALLENGE else value)
                for name, value in message["headers"]
            ]
        await send(message)

    return send_pointing


def page_routes(hub: Hub) -> list[Page]:
    """What operators and the curious ask for."""

    async def index(request: Request) -> Response:
        names = hub.environments.catalogue.names()
        return JSONResponse(
            {
                "envhub": VERSION,
                "environments": f"{PREFIX}/environments",
                "description": f"{PREFIX}/openapi.json",
                "mcp": [f"/environments/{name}/mcp" for name in names[:SHOWN]],
            }
        )

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "alive"})

    async def ready(request: Request) -> Response:
        await hub.ledger.rows(RowQuery(limit=1))
        catalogue = hub.environments.catalogue
        return JSONResponse(
            {
                "status": "ready",
                "environments": len(catalogue.names()),
                "invalid": len(catalogue.invalid),
                "durability": hub.settings.durability,
            }
        )

    async def metrics(request: Request) -> Response:
        return Response(hub.metrics.render(), media_type=CONTENT_TYPE)

    async def protected_resource(request: Request) -> Response:
        below = request.path_params["below"]
        if hub.gate.issuer is None or (below and not below.startswith("/")):
            raise UnknownRoute(f"there is nothing at {request.url.path}")
        return JSONResponse(hub.gate.issuer.resource.metadata(below))

    return [
        Page("/", index, "any"),
        Page("/healthz", health, "public"),
        Page("/readyz", ready, "public"),
        Page("/metrics", metrics, "admin"),
        Page(WELL_KNOWN + "{below:path}", protected_resource, "public"),
    ]


def gate_of(settings: Settings, data: DataDir) -> Gate:
    """Who is let in. Raises ``HubExposed`` where that is everybody and others can reach it."""
    resource = Resource.of(settings)
    issuer = None
    if resource is not None:
        from hub.auth.issuer import Issuer  # its libraries take a while, and most hubs have none

        issuer = Issuer(resource)
    gate = Gate(Tokens(TokenFile(data.tokens), limits_of(settings)), issuer)
    if gate.open and not _is_loopback(settings.host):
        raise HubExposed(
            f"on {settings.host} others reach this hub, and it asks nobody for a token",
            hint="make one with `envhub token create NAME` (a proxy in front that knows its "
            "clients may send it for them), or name an issuer of tokens with ENVHUB_OAUTH_ISSUER; "
            "or serve on 127.0.0.1, where such a proxy on this machine reaches it",
        )
    if gate.open:
        log.info("asks for no token", host=settings.host, reached_by="this machine alone")
    return gate


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _look_at_layers(sandbox: Sandbox, *, required: bool) -> None:
    """Say by what workers are held, loudly where something is missing."""
    layers = await sandbox.layers()
    if layers.missing and required:
        raise SandboxIncomplete(
            f"workers would run without {', '.join(layers.missing)}",
            hint="`envhub doctor` says what each layer needs; or serve without --require-sandbox",
        )
    if not layers.missing:  # else there has been a warning already
        log.info("sandbox", active=layers.active)


def _limits(settings: Settings) -> SandboxLimits:
    limits = SandboxLimits()
    if settings.max_workers:
        limits = msgspec.structs.replace(limits, max_workers=settings.max_workers)
    if settings.tenant_workers:
        limits = msgspec.structs.replace(limits, workers_per_tenant=settings.tenant_workers)
    if settings.worker_memory_bytes:
        limits = msgspec.structs.replace(limits, memory_budget_bytes=settings.worker_memory_bytes)
    return limits


def _tenure(settings: Settings) -> Tenure:
    return Tenure(
        max_episodes=settings.max_episodes,
        lease_seconds=settings.lease_seconds,
        retention_seconds=settings.retention_seconds,
    )


def _log_sandbox(kind: str, environment: str, **fields: object) -> None:
    """Workers come and go by the thousand; what went wrong with one is worth a warning."""
    tell = log.warning if kind in WORTH_A_WARNING or fields.get("missing") else log.debug
    tell(kind, environment=environment, **fields)


def _sandbox_readings(sandbox: Sandbox) -> Readings:
    now = sandbox.statistics()
    busy = {name: pool.workers - pool.idle for name, pool in now.environments.items()}
    return {
        "envhub_workers": {
            (("environment", name), ("state", state)): count
            for name, pool in now.environments.items()
            for state, count in (("idle", pool.idle), ("busy", busy[name]))
        },
        "envhub_calls_queued": {
            (("environment", name),): pool.queued for name, pool in now.environments.items()
        },
        "envhub_worker_ends": {(("reason", reason),): count for reason, count in now.ends.items()},
        "envhub_worker_starts": {(): now.starts},
        "envhub_worker_resident_bytes": {(): now.resident_bytes},
        "envhub_sandbox_layer": {
            (("layer", layer),): float(layer in now.layers)
            for layer in (*now.layers, *now.missing_layers)
        },
        "envhub_sandbox_layers_missing": {(): len(now.missing_layers)},
    }
