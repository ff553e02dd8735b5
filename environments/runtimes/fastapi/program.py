"""A FastAPI application in process: each call is a request to it, on the mounted branch."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import apsw

from environments.authoring import ToolError
from environments.errors import INTERNAL_ERROR, InvalidArguments, PackInvalid
from environments.runtimes.fastapi.database import Dbapi, Ground
from environments.runtimes.fastapi.loop import TimeLoop, at_once
from environments.runtimes.fastapi.operations import Operation, operations
from environments.runtimes.source import SOURCE, place_in, run_source
from environments.spec import ToolSpec
from snapshots.pages import Snapshot

if TYPE_CHECKING:
    from fastapi import FastAPI
    from sqlalchemy.engine import Engine

_KEPT_OPTIONS: Final = ("execution_options", "isolation_level", "json_serializer",
                        "json_deserializer")  # fmt: skip
_SAVING: Final = frozenset(("commit", "flush", "begin", "executemany", "bulk_save_objects"))
"""What a handler that changes rows calls, or something that it calls."""
_PLACES: Final = frozenset(("body", "query", "path", "header", "response"))
_MOST_PROBLEMS: Final = 5
_PASSING: Final = re.compile(r" at 0x[0-9a-fA-F]+| \(Background on this error at: [^)]*\)")
"""Addresses in memory, and where SQLAlchemy says more."""


class FastApiProgram:
    """The operations of one application."""

    def __init__(self, pack: Path, app: FastAPI, ground: Ground, loop: TimeLoop) -> None:
        self._pack = pack
        self._app = app
        self._ground = ground
        self._loop = loop
        self._lifespan = app.router.lifespan_context(app)
        state: Mapping[str, Any] | None = loop.finish(_entered(self._lifespan))
        self._state = state or {}
        self._operations = {each.tool: each for each in operations(app.openapi())}
        reading = _reading(app)
        self.tools: Mapping[str, ToolSpec] = {
            name: ToolSpec(
                name=name,
                title=each.title,
                description=each.description,
                input_schema=each.schema,
                read_only=each.method == "GET" and each.path in reading,
            )
            for name, each in self._operations.items()
        }

    def call(self, tool: str, connection: apsw.Connection, arguments: Mapping[str, Any]) -> Any:
        """Run a tool; see ``Program.call``. What the handler did not commit is rolled back.

        Raises ``InvalidArguments`` for what the application's own validation refuses, and
        ``ToolError`` for every other answer that is not a success.
        """
        from sqlalchemy.orm import close_all_sessions

        operation = self._operations[tool]
        self._ground.stand_on(connection)
        try:
            status, body = self._loop.finish(self._answer(operation, arguments))
        except MemoryError:
            raise
        except Exception as error:
            raise ToolError(
                INTERNAL_ERROR, _told(error), status=500, where=self.place(error)
            ) from error
        finally:
            close_all_sessions()
            self._ground.settle()
        if status >= 300:
            raise _refusal(tool, status, body)
        return body

    def place(self, error: BaseException) -> str:
        """The innermost line of the pack that ``error`` passed through."""
        return place_in(self._pack, error)

    async def _answer(self, operation: Operation, arguments: Mapping[str, Any]) -> tuple[int, Any]:
        """Status and body of the application's answer."""
        asked = operation.ask(arguments)
        status, chunks = 500, []
        bodies = [{"type": "http.request", "body": asked.body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            return bodies.pop() if bodies else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                chunks.append(message.get("body", b""))

        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": operation.method,
            "scheme": "http",
            "path": asked.path,
            "raw_path": quote(asked.path).encode(),
            "query_string": asked.query.encode(),
            "root_path": "",
            "headers": asked.headers,
            "client": ("127.0.0.1", 1),
            "server": ("localhost", 80),
            "state": dict(self._state),
        }
        await self._app(scope, receive, send)
        return status, _read(b"".join(chunks))


def load(pack: Path, snapshot: Snapshot) -> FastApiProgram:
    """Run the pack's ``tools.py`` in this process and take the operations of its application.

    Engines that it makes are on whatever branch is mounted; while it is loaded, on a copy of the
    snapshot that is then thrown away. Raises ``PackInvalid``.
    """
    ground = Ground(lambda: _copy(snapshot))
    _bind_engines(ground)
    module = run_source(pack)
    found = _application(module)
    if found is None:
        raise PackInvalid(f"{SOURCE} makes no FastAPI application", hint="call it app")
    try:
        program = FastApiProgram(pack, found, ground, TimeLoop())
    except Exception as error:
        place = place_in(pack, error) or SOURCE
        raise PackInvalid(f"{place}: {_told(error)}") from error
    finally:
        ground.settle()
    if not program.tools:
        raise PackInvalid(f"{SOURCE}: its application has no operation")
    return program


def warm_up() -> None:
    """Import and use what applications use, so that workers that are forked later need not.

    Raises ``ImportError``.
    """
    import anyio.to_thread
    import fastapi
    import sqlalchemy
    from sqlalchemy import orm

    anyio.to_thread.run_sync = at_once  # type: ignore[assignment]
    app = fastapi.FastAPI()
    ground = Ground(lambda: apsw.Connection(":memory:"))
    engine = _engine(ground)

    base = orm.declarative_base()

    class Warm(base):  # type: ignore[misc, valid-type]
        __tablename__ = "warm"
        id = sqlalchemy.Column(sqlalchemy.Integer, primary_key=True)

    base.metadata.create_all(engine)

    @app.get("/{number}")
    async def warm(number: int, text: str = "") -> dict[str, int]:
        with orm.Session(engine) as session:
            return {"found": session.query(Warm).filter(Warm.id == number).count()}

    @app.post("/")
    async def warmer(fields: dict[str, int]) -> dict[str, int]:
        with orm.Session(engine) as session:
            session.add(Warm(**fields))
            session.commit()
        return fields

    program = FastApiProgram(Path(), app, ground, TimeLoop())
    for name, tool in program.tools.items():
        given = {"number": 1} if tool.read_only else {"body": {"id": 1}}
        program.call(name, ground.connection, given)


# --- binding ------------------------------------------------------------------------------------


def _engine(ground: Ground, **options: Any) -> Engine:
    """An engine on the mounted branch, whatever file it was meant for."""
    from sqlalchemy.engine.create import create_engine

    kept = {name: value for name, value in options.items() if name in _KEPT_OPTIONS}
    create = getattr(create_engine, "__wrapped__", create_engine)
    made: Engine = create("sqlite:///branch", module=Dbapi(ground), max_overflow=-1, **kept)
    return made


def _bind_engines(ground: Ground) -> None:
    """Have every ``create_engine`` of this process make engines on the mounted branch."""
    import sqlalchemy
    from sqlalchemy import engine
    from sqlalchemy.engine import create

    @functools.wraps(create.create_engine)
    def create_engine(*_: object, **options: Any) -> Engine:
        return _engine(ground, **options)

    for module in (sqlalchemy, engine, create):
        module.create_engine = create_engine  # type: ignore[attr-defined]


def _copy(snapshot: Snapshot) -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.deserialize("main", bytes(snapshot.mapping))
    return connection


def _application(module: ModuleType) -> FastAPI | None:
    import fastapi

    named = getattr(module, "app", None)
    values = (named, *vars(module).values())
    return next((value for value in values if isinstance(value, fastapi.FastAPI)), None)


async def _entered(lifespan: AbstractAsyncContextManager[Any]) -> Mapping[str, Any] | None:
    """What the application does when it starts; ``lifespan`` must be kept, or it stops."""
    state: Mapping[str, Any] | None = await lifespan.__aenter__()
    return state


# --- what is known of handlers ------------------------------------------------------------------


def _reading(app: FastAPI) -> frozenset[str]:
    """The paths whose GET handler changes no row, as far as its code and what it calls tell."""
    from fastapi import routing

    # Where an application keeps included routers whole, this tells the routes in them.
    routes: Iterator[Any] = getattr(routing, "iter_route_contexts", iter)(app.routes)
    found = set()
    for route in routes:
        dependant = getattr(route, "dependant", None)
        if dependant is not None and "GET" in (getattr(route, "methods", None) or ()):
            calls = [dependant.call, *_dependencies(dependant)]
            if not any(_saves(call, set()) for call in calls):
                found.add(str(route.path_format))
    return frozenset(found)


def _dependencies(dependant: Any) -> Iterator[Any]:
    for each in dependant.dependencies:
        yield each.call
        yield from _dependencies(each)


def _saves(function: Any, seen: set[CodeType]) -> bool:
    """Whether a function, or one of its module that it calls, calls what saves rows."""
    code = getattr(function, "__code__", None)
    if code is None or code in seen:
        return False
    seen.add(code)
    for name in _names(code):
        if name in _SAVING:
            return True
        called = function.__globals__.get(name)
        if isinstance(called, FunctionType) and _saves(called, seen):
            return True
    return False


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


# --- what it answers ----------------------------------------------------------------------------


def _read(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return body.decode(errors="replace")


def _refusal(tool: str, status: int, body: Any) -> Exception:
    """An answer that is no success, as an error."""
    detail = body.get("detail", body) if isinstance(body, dict) else body
    if isinstance(detail, dict) and isinstance(detail.get("code"), str) and "message" in detail:
        details = detail.get("details")
        return ToolError(
            detail["code"], str(detail["message"]), **(details if isinstance(details, dict) else {})
        )
    if status == HTTPStatus.UNPROCESSABLE_ENTITY and _is_validation(detail):
        problems = [_problem(each) for each in detail]
        return InvalidArguments(
            f"invalid arguments for {tool}: {'; '.join(problems)}", problems=problems
        )
    try:
        code = INTERNAL_ERROR if status == 500 else HTTPStatus(status).name
    except ValueError:
        code = f"HTTP_{status}"
    message = detail if isinstance(detail, str) else json.dumps(detail)
    return ToolError(code, message or code, status=status)


def _is_validation(detail: Any) -> bool:
    return isinstance(detail, list) and all(
        isinstance(each, dict) and {"loc", "msg"} <= each.keys() for each in detail
    )


def _problem(each: Mapping[str, Any]) -> str:
    place = ".".join(str(part) for part in each["loc"] if part not in _PLACES)
    return f"{place or 'arguments'}: {each['msg']}"


def _told(error: Exception) -> str:
    """An exception in one line, the same in every process."""
    name = type(error).__name__
    try:
        if name == "ResponseValidationError":
            wrong = error.errors()[:_MOST_PROBLEMS]  # type: ignore[attr-defined]
            return f"{name}: {'; '.join(map(_problem, wrong))}"
        text = str(error)
    except Exception:  # noqa: BLE001 - its __str__ is the pack's
        text = "(no text)"
    line = text.strip().partition("\n")[0]
    return f"{name}: {_PASSING.sub('', line)}"
