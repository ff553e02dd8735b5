"""Conditions and values of a blueprint, as Python of a tool and as SQL over its rows.

The language is a part of Python's: comparisons, ``and or not``, arithmetic, ``x if c else y``,
columns of rows at hand (``copy.status``), arguments and constants by name, and

- ``count(loan, member_id=member.id, due_on__lt=today())``, ``total(line, 'amount', ...)``,
  ``exists(...)``, ``highest(line, 'position', ...)``: over the rows of an entity with such values;
  the ends ``__lt __le __gt __ge __ne`` compare otherwise than by equality, ``None`` is NULL;
- ``today()``, ``moment()``, ``days_after(day, n)``, ``days_between(first, second)``;
- ``max``, ``min``, ``round(value, 2)``.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

_OVER_ROWS: Final = {
    "count": "count(*)",
    "exists": "1",
    "total": "coalesce(sum({}), 0)",
    "highest": "coalesce(max({}), 0)",
}
"""What each selects, of a column."""
_COMPARED: Final = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "ne": "<>"}
_PYTHON: Final[dict[type, str]] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.In: "in", ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not",
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.And: "and", ast.Or: "or",
}  # fmt: skip
_OPPOSITE: Final[dict[type, type]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE,
    ast.LtE: ast.Gt, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_SQL: Final[dict[type, str]] = {
    **_PYTHON, ast.Eq: "=", ast.NotEq: "<>", ast.In: "IN", ast.NotIn: "NOT IN", ast.Is: "IS",
    ast.IsNot: "IS NOT", ast.FloorDiv: "/", ast.And: "AND", ast.Or: "OR",
}  # fmt: skip

Tables = Mapping[str, str]
"""Tables by entity."""


@cache
def parse(source: str) -> ast.expr:
    """Raises ``ValueError`` with the source where it is not an expression."""
    try:
        return ast.parse(source, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"{source!r} is no expression: {error.msg}") from None


def text_literal(value: str) -> str:
    """A Python literal in double quotes."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def sql_literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int | float):
        return repr(value)
    return "'" + str(value).replace("'", "''") + "'"


def condition(column: str) -> tuple[str, str]:
    """Name and comparison of a keyword: ``due_on__lt`` gives ``due_on`` and ``<``."""
    name, _, end = column.partition("__")
    return name, _COMPARED[end] if end else "="


def python(source: str, tables: Tables, quote: str = '"') -> str:
    """The expression as Python of a tool, where ``db`` is the database."""
    return _Python(tables, quote).render(parse(source))


def python_opposite(source: str, tables: Tables) -> str:
    """The opposite of a condition as Python."""
    return _Python(tables, '"').render(negated(parse(source)))


def python_clause(where: Mapping[str, str], tables: Tables) -> tuple[str, list[str]]:
    """`` WHERE a = ? AND …`` for columns and their values, and the Python of the marks."""
    return _Python(tables, '"').clause({name: parse(value) for name, value in where.items()})


def sql(source: str, tables: Tables, names: Mapping[str, str], today: str) -> str:
    """The expression as SQL, where each row at hand is a table's alias.

    ``names`` gives the SQL of arguments, constants and lets.
    """
    return _Sql(tables, names, today).render(parse(source))


def names_in(source: str) -> set[str]:
    """The rows, arguments and constants an expression speaks of."""
    tree = parse(source)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    skipped = {id(call.func) for call in calls}
    skipped |= {id(call.args[0]) for call in calls if _function(call) in _OVER_ROWS}
    return {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in skipped
    }


def negated(node: ast.expr) -> ast.expr:
    """The opposite of a condition, written as a person would."""
    match node:
        case ast.Compare(left, [op], right) if type(op) in _OPPOSITE:
            return ast.Compare(left, [_OPPOSITE[type(op)]()], right)
        case ast.BoolOp(op, values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            return ast.BoolOp(other, [negated(value) for value in values])
        case ast.UnaryOp(ast.Not(), operand):
            return operand
    return ast.UnaryOp(ast.Not(), node)


def _function(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


class _Renderer(ABC):
    """The walk over the tree that both languages share."""

    operators: Mapping[type, str]
    negation: str

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def render(self, node: ast.expr, outer: int = 0) -> str:
        """``outer`` is how strongly what stands around it binds."""
        rank = _rank(node)
        match node:
            case ast.BoolOp(op, values):
                parts = [self.render(value, rank) for value in values]
                return _wrapped(f" {self.operators[type(op)]} ".join(parts), rank < outer)
            case ast.UnaryOp(ast.Not(), operand):
                return _wrapped(f"{self.negation} {self.render(operand, rank)}", rank < outer)
            case ast.UnaryOp(ast.USub(), operand):
                return f"-{self.render(operand, 7)}"
            case ast.Compare(left, [op], [right]) | ast.BinOp(left, op, right):
                sides = (self.render(left, rank), self.render(right, rank + 1))
                return _wrapped(f" {self.operators[type(op)]} ".join(sides), rank < outer)
            case ast.Tuple(items):
                return f"({', '.join(self.render(item) for item in items)})"
            case ast.Attribute(ast.Name(row), column):
                return self.cell(row, column)
            case ast.Name(name):
                return self.name(name)
            case ast.Constant(value):
                return self.constant(value)
            case ast.IfExp(test, body, orelse):
                return self.either([self.render(part) for part in (test, body, orelse)])
            case ast.Call(ast.Name(function), [ast.Name(entity), *rest], keywords) if (
                function in _OVER_ROWS
            ):
                column = self.column(rest)
                where = {word.arg or "": word.value for word in keywords}
                return self.over_rows(function, self.tables[entity], column, where)
            case ast.Call(ast.Name(function), arguments, []):
                return self.call(function, [self.render(argument) for argument in arguments])
        raise ValueError(f"{ast.unparse(node)!r} is no part of the language of blueprints")

    @staticmethod
    def column(rest: Sequence[ast.expr]) -> str:
        return str(rest[0].value) if rest and isinstance(rest[0], ast.Constant) else ""

    @abstractmethod
    def cell(self, row: str, column: str) -> str: ...

    @abstractmethod
    def name(self, name: str) -> str: ...

    @abstractmethod
    def constant(self, value: Any) -> str: ...

    @abstractmethod
    def either(self, parts: Sequence[str]) -> str: ...

    @abstractmethod
    def over_rows(
        self, function: str, table: str, column: str, where: Mapping[str, ast.expr]
    ) -> str: ...

    @abstractmethod
    def call(self, function: str, arguments: Sequence[str]) -> str: ...


def _rank(node: ast.expr) -> int:
    match node:
        case ast.BoolOp(op):
            return 1 if isinstance(op, ast.Or) else 2
        case ast.UnaryOp(ast.Not()):
            return 3
        case ast.Compare():
            return 4
        case ast.BinOp(_, op):
            return 5 if isinstance(op, ast.Add | ast.Sub) else 6
    return 7


def _wrapped(text: str, inside: bool) -> str:
    return f"({text})" if inside else text


class _Python(_Renderer):
    operators = _PYTHON
    negation = "not"

    def __init__(self, tables: Tables, quote: str) -> None:
        super().__init__(tables)
        self.quote = quote

    def cell(self, row: str, column: str) -> str:
        return f"{row}[{self.quote}{column}{self.quote}]"

    def name(self, name: str) -> str:
        return name

    def constant(self, value: Any) -> str:
        if not isinstance(value, str):
            return repr(value)
        return text_literal(value) if self.quote == '"' else repr(value)

    def either(self, parts: Sequence[str]) -> str:
        return f"({parts[1]} if {parts[0]} else {parts[2]})"

    def over_rows(
        self, function: str, table: str, column: str, where: Mapping[str, ast.expr]
    ) -> str:
        clause, values = self.clause(where)
        text = f"SELECT {_OVER_ROWS[function].format(column)} FROM {table}"
        arguments = ", ".join([text_literal(text + clause), *values])
        if function == "exists":
            return f"(db.one({arguments}) is not None)"
        return f"db.scalar({arguments})"

    def clause(self, where: Mapping[str, ast.expr]) -> tuple[str, list[str]]:
        """`` WHERE …`` and the values of its marks."""
        conditions, values = [], []
        for keyword, value in where.items():
            column, compared = condition(keyword)
            if isinstance(value, ast.Constant) and value.value is None:
                conditions.append(f"{column} IS {'NOT ' if compared == '<>' else ''}NULL")
            elif isinstance(value, ast.Constant):
                conditions.append(f"{column} {compared} {sql_literal(value.value)}")
            else:
                conditions.append(f"{column} {compared} ?")
                values.append(self.render(value))
        return f" WHERE {' AND '.join(conditions)}" if conditions else "", values

    def call(self, function: str, arguments: Sequence[str]) -> str:
        name = {"today": "_today", "moment": "timestamp", "days_after": "_days_after",
                "days_between": "_days_between"}.get(function, function)  # fmt: skip
        return f"{name}({', '.join(arguments)})"


class _Sql(_Renderer):
    operators = _SQL
    negation = "NOT"

    def __init__(self, tables: Tables, names: Mapping[str, str], today: str) -> None:
        super().__init__(tables)
        self.names = names
        self.today = today

    def cell(self, row: str, column: str) -> str:
        return f'"{row}".{column}'

    def name(self, name: str) -> str:
        return f"({self.names[name]})"

    def constant(self, value: Any) -> str:
        return sql_literal(value)

    def either(self, parts: Sequence[str]) -> str:
        return f"(CASE WHEN {parts[0]} THEN {parts[1]} ELSE {parts[2]} END)"

    def over_rows(
        self, function: str, table: str, column: str, where: Mapping[str, ast.expr]
    ) -> str:
        conditions = []
        for keyword, value in where.items():
            name, compared = condition(keyword)
            if isinstance(value, ast.Constant) and value.value is None:
                compared = "IS NOT" if compared == "<>" else "IS"
            conditions.append(f"of_all.{name} {compared} {self.render(value, 4)}")
        clause = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        query = f"(SELECT {_OVER_ROWS[function].format(column)} FROM {table} AS of_all{clause})"
        return f"EXISTS {query}" if function == "exists" else query

    def call(self, function: str, arguments: Sequence[str]) -> str:
        match function:
            case "today":
                return sql_literal(self.today)
            case "moment":
                return sql_literal(f"{self.today}T12:00:00Z")
            case "days_after":
                return f"date({arguments[0]}, ({arguments[1]}) || ' days')"
            case "days_between":
                days = f"julianday({arguments[1]}) - julianday({arguments[0]})"
                return f"CAST(floor({days}) AS INTEGER)"
        return f"{function}({', '.join(arguments)})"
