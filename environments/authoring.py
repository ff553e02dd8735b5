"""The kit a pack's ``tools.py`` is written with.

    from environments.authoring import Database, ToolError, new_id, timestamp, tool

    @tool(read_only=False)
    def place_order(db: Database, sku: str, quantity: Annotated[int, Field(ge=1)]) -> dict:
        \"\"\"Order a product from stock.\"\"\"
        ...
        raise ToolError("OUT_OF_STOCK", f"{sku} has 0 in stock", sku=sku)

Signature and docstring become the JSON Schema and the description an agent sees. Time and ids come
from the episode, so a replay gives the same bytes.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_type_hints

import apsw
import pydantic
from pydantic_core import to_json, to_jsonable_python

from environments.errors import BadResult, InvalidArguments, PackInvalid
from environments.spec import ToolSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Database", "Row", "State", "Tool", "ToolError", "new_id", "now", "timestamp", "tool"]

Row = dict[str, Any]
Function = TypeVar("Function", bound=Callable[..., Any])
TOOL_NAME = re.compile(r"^[A-Za-z0-9_-]{1,40}$")


class ToolError(Exception):
    """What a real system would answer to a call it refuses; the agent sees it as an observation.

    ``code`` is stable (``OUT_OF_STOCK``), ``message`` says what is wrong, ``details`` are JSON
    values. The call's writes are dropped (unless the pack says ``on_error = "keep"``).
    """

    def __init__(self, code: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details


class Database:
    """A thin handle on the episode's state. SQL parameters are ``?`` or ``:name``."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def rows(self, sql: str, *values: Any, **named: Any) -> list[Row]:
        """All rows, each a dict by column name."""
        cursor = self._connection.execute(sql, named or values)
        try:
            names = [column[0] for column in cursor.description]
        except apsw.ExecutionCompleteError:
            return []
        return [dict(zip(names, record, strict=True)) for record in cursor]

    def one(self, sql: str, *values: Any, **named: Any) -> Row | None:
        """The first row, or None."""
        cursor = self._connection.execute(sql, named or values)
        record = next(cursor, None)
        if record is None:
            return None
        row = dict(zip((column[0] for column in cursor.description), record, strict=True))
        cursor.close()
        return row

    def scalar(self, sql: str, *values: Any, **named: Any) -> Any:
        """The first column of the first row, or None."""
        cursor = self._connection.execute(sql, named or values)
        record = next(cursor, None)
        cursor.close()
        return None if record is None else record[0]

    def run(self, sql: str, *values: Any, **named: Any) -> int:
        """Run one writing statement; returns how many rows it changed."""
        self._connection.execute(sql, named or values)
        return self._connection.changes()

    def insert(self, table: str, **columns: Any) -> int:
        """Insert one row; returns its rowid."""
        names = ", ".join(f'"{name}"' for name in columns)
        marks = ", ".join("?" * len(columns))
        self._connection.execute(
            f'INSERT INTO "{table}" ({names}) VALUES ({marks})', tuple(columns.values())
        )
        return self._connection.last_insert_rowid()


class State(dict[str, Any]):
    """In place of a ``Database`` where the pack says ``runtime = "state"``: everything the world
    knows as one document. What a tool changes in it is kept as changes of rows."""


# --- the episode a call runs in --------------------------------------------------------------


@dataclass(slots=True)
class CallContext:
    """What the episode lends a call: its clock, its seed and how many ids it has made."""

    clock_ms: int
    seed: int
    counters: dict[str, int] = field(default_factory=dict)


_context: ContextVar[CallContext] = ContextVar("envhub_call_context")


@contextmanager
def call_context(context: CallContext) -> Iterator[CallContext]:
    """Make ``context`` the one that ``now`` and ``new_id`` answer from."""
    token = _context.set(context)
    try:
        yield context
    finally:
        _context.reset(token)


def now() -> datetime:
    """The episode's virtual clock, in UTC."""
    return datetime.fromtimestamp(_context.get().clock_ms / 1000, UTC)


def timestamp() -> str:
    """``now()`` as text, e.g. ``2026-03-02T09:00:00Z`` (sorts as it reads)."""
    return now().strftime("%Y-%m-%dT%H:%M:%SZ")


def new_id(entity: str, prefix: str | None = None) -> str:
    """The next id of ``entity``, e.g. ``order-7K2QF3``; depends on the seed and on how many ids of
    this entity the episode has made, so an extra read never shifts a later id."""
    context = _context.get()
    count = context.counters.get(entity, 0) + 1
    context.counters[entity] = count
    digest = hashlib.blake2b(f"{context.seed}/{entity}/{count}".encode(), digest_size=8).digest()
    number = int.from_bytes(digest, "big")
    alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford: no I, L, O, U to misread
    code = "".join(alphabet[(number >> (5 * position)) & 31] for position in range(8))
    return f"{entity + '-' if prefix is None else prefix}{code}"


# --- declaring tools -------------------------------------------------------------------------


class Tool:
    """A declared tool, ready to be called: its spec, and validation of what goes in and out.

    What pydantic makes of its arguments is made when first asked for: a worker that calls three of
    forty tools need not wait for the others.
    """

    def __init__(
        self, function: Callable[..., Any], name: str, title: str, read_only: bool
    ) -> None:
        self.function = function
        self.name = name
        self.title = title or name.replace("_", " ").capitalize()
        self.read_only = read_only
        self.description = inspect.getdoc(function) or ""
        if not TOOL_NAME.match(name):
            raise PackInvalid(
                f"tool name {name!r} is not allowed",
                hint="use 1-40 of A-Z a-z 0-9 _ - ; clients refuse a whole server otherwise",
            )
        if not self.description:
            raise PackInvalid(f"tool {name} has no docstring", hint="say in it what the tool does")
        hints = get_type_hints(function, include_extras=True)
        parameters = list(inspect.signature(function).parameters.values())
        first = hints.get(parameters[0].name) if parameters else None
        self.wants: type | None = first if first in (Database, State) else None
        """What its first parameter is, beside the arguments."""
        self._fields: dict[str, Any] = {}
        for parameter in parameters[1:] if self.wants else parameters:
            if parameter.name not in hints:
                raise PackInvalid(f"parameter {parameter.name} of tool {name} has no annotation")
            empty = parameter.default is inspect.Parameter.empty
            self._fields[parameter.name] = (
                hints[parameter.name],
                ... if empty else parameter.default,
            )

    @cached_property
    def arguments(self) -> type[pydantic.BaseModel]:
        """Raises ``PackInvalid`` for annotations that pydantic cannot make anything of."""
        try:
            return arguments_model(self.name, self._fields, "forbid")
        except Exception as error:  # pydantic's, of many kinds; and what a stranger's types raise
            code = self.function.__code__
            place = f"{Path(code.co_filename).name}:{code.co_firstlineno}"
            raise PackInvalid(f"{place}: {type(error).__name__}: {error}") from error

    @cached_property
    def spec(self) -> ToolSpec:
        """Raises ``PackInvalid``; see ``arguments``."""
        return ToolSpec(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=input_schema_of(self.arguments),
            read_only=self.read_only,
        )

    def __call__(self, state: Any, arguments: Mapping[str, Any]) -> Any:
        """Run the tool, with ``state`` if it ``wants`` that; returns plain JSON values.

        Raises ``InvalidArguments`` (naming the field), whatever the tool raises, and ``BadResult``
        for a value that is not JSON.
        """
        try:
            parsed = self.arguments.model_validate(arguments)
        except pydantic.ValidationError as error:
            raise invalid_arguments(self.name, error) from None
        values = {name: getattr(parsed, name) for name in self.arguments.model_fields}
        first = () if self.wants is None else (state,)
        return plain_result(self.name, self.function(*first, **values))


def plain_result(tool: str, result: Any) -> Any:
    """What a tool returned as plain JSON values. Raises ``BadResult``."""
    try:
        plain = to_jsonable_python(result, inf_nan_mode="constants")
        _refuse_constants(to_json(plain, inf_nan_mode="constants"))
        return plain
    except (pydantic.ValidationError, ValueError, TypeError) as error:
        raise BadResult(
            f"tool {tool} returned what is not JSON: {error}",
            hint="return dicts, lists, text, numbers, pydantic models or None",
        ) from None


def _refuse_constants(encoded: bytes) -> None:
    """Raise ``ValueError`` for NaN and infinities: JSON has none, and encoders make them null."""
    if b"NaN" in encoded or b"Infinity" in encoded:  # perhaps only inside a text
        json.loads(encoded, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def invalid_arguments(tool: str, error: pydantic.ValidationError) -> InvalidArguments:
    """The agent's mistake in words: which field, what is wrong with it."""
    problems = [
        f"{'.'.join(str(part) for part in item['loc']) or 'arguments'}: {item['msg']}"
        for item in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    return InvalidArguments(
        f"invalid arguments for {tool}: {'; '.join(problems)}", problems=problems
    )


def tool(
    *, read_only: bool, name: str | None = None, title: str = ""
) -> Callable[[Function], Function]:
    """Declare a function as a tool of the pack.

    The first parameter may be ``db: Database`` (or ``state: State``, where the pack has the runtime
    of that name); the others are the tool's arguments, described by their annotations
    (``Annotated[int, Field(ge=1, description="...")]``). The docstring is the description.
    ``read_only`` promises that it changes no row; a call that does is the pack's fault. Raises
    ``PackInvalid`` for a name clients would refuse or a parameter without annotation.
    """

    def declare(function: Function) -> Function:
        declared = Tool(function, name or function.__name__, title, read_only)
        function.__envhub_tool__ = declared  # type: ignore[attr-defined]
        return function

    return declare


def declared_tools(names: Iterable[Any]) -> dict[str, Tool]:
    """The tools among a module's values, by name, in order of declaration."""
    found: dict[str, Tool] = {}
    for value in names:
        declared = getattr(value, "__envhub_tool__", None)
        if isinstance(declared, Tool):
            found.setdefault(declared.name, declared)
    return found


def arguments_model(
    tool: str, fields: Mapping[str, tuple[Any, Any]], extra: Literal["forbid", "ignore"]
) -> type[pydantic.BaseModel]:
    """The model of a tool's arguments: for each its annotation and its default."""
    definitions: dict[str, Any] = {**fields}
    return pydantic.create_model(
        f"{tool}_arguments", __config__=pydantic.ConfigDict(extra=extra), **definitions
    )


def input_schema_of(model: type[pydantic.BaseModel]) -> dict[str, Any]:
    """JSON Schema 2020-12 of the arguments; the root is a plain object, as clients demand."""
    schema = model.model_json_schema()
    for key in ("title", "description"):
        schema.pop(key, None)
    for properties in schema.get("properties", {}).values():
        properties.pop("title", None)
    schema.setdefault("properties", {})
    return schema
