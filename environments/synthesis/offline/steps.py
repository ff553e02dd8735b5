"""The Python of an action: its rules and changes as a tool would have them."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from environments.synthesis.blueprint import (
    Action,
    Add,
    Attribute,
    Drop,
    DropAll,
    Entity,
    Find,
    Kind,
    Let,
    Need,
    Put,
    PutAll,
    Step,
    When,
)
from environments.synthesis.offline.emit import Lines, message_literal
from environments.synthesis.offline.expressions import (
    Tables,
    names_in,
    parse,
    python,
    python_clause,
    python_opposite,
    sql_literal,
    text_literal,
)


def rows_of(action: Action) -> dict[str, str]:
    """The entities of the rows an action has at hand, by the names it gives them."""
    rows = {take.name: take.entity for take in action.takes if take.entity}

    def look(steps: Sequence[Step]) -> None:
        for step in steps:
            match step:
                case Find() | Add():
                    rows.setdefault(step.row, step.entity)
                case When():
                    look(step.steps)

    look(action.does)
    return rows


def result_of(action: Action) -> str:
    """The row an action answers with: the first it adds, else the first it changes."""
    for kind in (Add, Put):
        for step in action.does:
            if isinstance(step, kind):
                return step.row
    return next((take.name for take in action.takes if take.entity), "")


class StepWriter:
    """Writes the steps of one action."""

    def __init__(self, action: Action, entities: Mapping[str, Entity], lines: Lines) -> None:
        self.action = action
        self.entities = entities
        self.tables: Tables = {name: entity.table for name, entity in entities.items()}
        self.rows = rows_of(action)
        self.lines = lines
        self.read = self._read()

    def _read(self) -> set[str]:
        """Names of rows that any step speaks of."""
        read: set[str] = set()

        def look(steps: Sequence[Step]) -> None:
            for step in steps:
                match step:
                    case Need():
                        read.update(names_in(step.condition))
                        read.update(_holes(step.message))
                    case Let():
                        read.update(names_in(step.value))
                    case When():
                        read.update(names_in(step.condition))
                        look(step.steps)
                    case Put():
                        read.add(step.row)
                        _note(read, step.values)
                    case Find() | DropAll():
                        _note(read, step.where)
                    case Add():
                        _note(read, step.values)
                    case PutAll():
                        _note(read, step.where)
                        _note(read, step.values)
                    case Drop():
                        read.add(step.row)

        look(self.action.does)
        return read

    def write(self) -> None:
        """The body of the function, after its docstring."""
        for take in self.action.takes:
            if take.entity:
                key = python(take.via, self.tables) if take.via else f"{take.name}_id"
                used = take.name in self.read or any(
                    other.via.startswith(f"{take.name}.") for other in self.action.takes
                )
                assigned = f"{take.name} = " if used else ""
                self.lines.put(f"{assigned}_{take.entity}(db, {key})")
        self._steps(self.action.does, 1)
        self._answer()

    def _answer(self) -> None:
        row = result_of(self.action)
        entity = self.entities[self.rows[row]]
        dropped = any(isinstance(step, Drop) and step.row == row for step in self.action.does)
        if dropped or entity.key or entity.log:
            self.lines.put("return {" + text_literal("done") + ": True}")
        else:
            key = f"{row}_id" if self._added(row) else f'{row}["id"]'
            self.lines.put(f"return _{entity.name}(db, {key})")

    def _added(self, row: str) -> bool:
        return any(isinstance(step, Add) and step.row == row for step in self.action.does)

    def _steps(self, steps: Sequence[Step], depth: int) -> None:
        for step in steps:
            match step:
                case Need():
                    self._unless(step.condition, depth)
                    message = message_literal(step.message, self.tables)
                    raised = [text_literal(step.code), message]
                    self.lines.call("raise ToolError(", raised, depth=depth + 1)
                case Let():
                    self._assign(step.name, step.value, depth)
                case When():
                    self.lines.put(f"if {python(step.condition, self.tables)}:", depth)
                    self._steps(step.steps, depth + 1)
                case Find():
                    self._find(step, depth)
                case Put():
                    self._put(step, depth)
                case Add():
                    self._add(step, depth)
                case PutAll():
                    self._put_all(step, depth)
                case Drop():
                    clause, values = self._key(step.row)
                    table = self.tables[self.rows[step.row]]
                    sql = text_literal(f"DELETE FROM {table} WHERE {clause}")
                    self.lines.call("db.run(", [sql, *values], depth=depth)
                case DropAll():
                    clause, values = python_clause(step.where, self.tables)
                    sql = text_literal(f"DELETE FROM {self.tables[step.entity]}{clause}")
                    self.lines.call("db.run(", [sql, *values], depth=depth)

    def _unless(self, condition: str, depth: int) -> None:
        """``if`` the condition does not hold; what it looks for comes first, on its own line."""
        match parse(condition):
            case ast.UnaryOp(ast.Not(), ast.Call(ast.Name("exists")) as call):
                opposite = "found is not None"
            case ast.Call(ast.Name("exists")) as call:
                opposite = "found is None"
            case _:
                self.lines.put(f"if {python_opposite(condition, self.tables)}:", depth)
                return
        written = python(ast.unparse(call), self.tables).removeprefix("(db.one(")
        self._query("found = db.one(", written.removesuffix(") is not None)"), depth)
        self.lines.put(f"if {opposite}:", depth)

    def _query(self, before: str, arguments: str, depth: int) -> None:
        """A call whose first argument is a query, broken after it where the line is too long."""
        _, text, others = arguments.split('"', 2)
        rest = others.removeprefix(", ")
        self.lines.call(before, [f'"{text}"', *([rest] if rest else [])], depth=depth)

    def _assign(self, name: str, value: str, depth: int) -> None:
        written = python(value, self.tables)
        if (
            written.startswith("db.scalar(")
            and len(written) > 80
            and isinstance(parse(value), ast.Call)
        ):
            self._query(f"{name} = db.scalar(", written[len("db.scalar(") : -1], depth)
        else:
            self.lines.put(f"{name} = {written}", depth)

    def _find(self, step: Find, depth: int) -> None:
        clause, values = python_clause(step.where, self.tables)
        sql = text_literal(f"SELECT * FROM {self.tables[step.entity]}{clause}")
        self.lines.call(f"{step.row} = db.one(", [sql, *values], depth=depth)
        self.lines.put(f"if {step.row} is None:", depth)
        raised = [text_literal(step.code), message_literal(step.message, self.tables)]
        self.lines.call("raise ToolError(", raised, depth=depth + 1)

    def _key(self, row: str) -> tuple[str, list[str]]:
        """How to find a row at hand again."""
        entity = self.entities[self.rows[row]]
        columns = [f"{name}_id" for name in entity.key] or ["id"]
        if self._added(row) and not entity.key:
            return "id = ?", [f"{row}_id"]
        return (
            " AND ".join(f"{column} = ?" for column in columns),
            [f'{row}["{column}"]' for column in columns],
        )

    def _put(self, step: Put, depth: int) -> None:
        entity = self.entities[self.rows[step.row]]
        assigned, values = self._assignments(entity, step.row, step.values)
        clause, keys = self._key(step.row)
        sql = text_literal(f"UPDATE {entity.table} SET {assigned} WHERE {clause}")
        self.lines.call("db.run(", [sql, *values, *keys], depth=depth)

    def _put_all(self, step: PutAll, depth: int) -> None:
        entity = self.entities[step.entity]
        assigned, values = self._assignments(entity, "", step.values)
        clause, others = python_clause(step.where, self.tables)
        sql = text_literal(f"UPDATE {entity.table} SET {assigned}{clause}")
        self.lines.call("db.run(", [sql, *values, *others], depth=depth)

    def _assignments(
        self, entity: Entity, row: str, values: Mapping[str, str]
    ) -> tuple[str, list[str]]:
        parts: list[str] = []
        marks: list[str] = []
        for column, source in values.items():
            tree = parse(source)
            money = entity.attribute(column).kind.sort == "money"
            match tree:
                case ast.Constant(value) if not isinstance(value, bytes):
                    parts.append(f"{column} = {sql_literal(value)}")
                case ast.BinOp(ast.Attribute(ast.Name(name), own), op, right) if (
                    name == row and own == column and isinstance(op, ast.Add | ast.Sub)
                ):
                    sign = "+" if isinstance(op, ast.Add) else "-"
                    if isinstance(right, ast.Constant):
                        change = f"{column} {sign} {right.value!r}"
                    else:
                        change = f"{column} {sign} ?"
                        marks.append(python(ast.unparse(right), self.tables))
                    parts.append(f"{column} = " + (f"round({change}, 2)" if money else change))
                case _:
                    written = python(source, self.tables)
                    computed = money and not isinstance(tree, ast.Attribute | ast.Name)
                    parts.append(f"{column} = ?")
                    marks.append(f"round({written}, 2)" if computed else written)
        return ", ".join(parts), marks

    def _add(self, step: Add, depth: int) -> None:
        entity = self.entities[step.entity]
        arguments = [text_literal(entity.table)]
        if not entity.key and not entity.log:
            made = f'new_id("{entity.name}", "{entity.prefix}")'
            self.lines.put(f"{step.row}_id = {made}", depth)
            arguments.append(f"id={step.row}_id")
        for attribute in entity.attributes:
            given = step.values.get(attribute.column)
            if given == "None":
                continue
            if given is not None:
                written = python(given, self.tables)
                if attribute.kind.sort == "money" and isinstance(parse(given), ast.BinOp):
                    written = f"round({written}, 2)"
            else:
                written = start_of(attribute) or ""
            if written:
                arguments.append(f"{attribute.column}={written}")
        self.lines.call("db.insert(", arguments, depth=depth)
        if step.row in self.read and not entity.key and not entity.log:
            self.lines.put(f"{step.row} = _{entity.name}(db, {step.row}_id)", depth)


def start_of(attribute: Attribute) -> str | None:
    """The Python of what a new row starts with; ``None`` for NULL."""
    kind: Kind = attribute.kind
    if attribute.start is not None:
        start = attribute.start
        return text_literal(start) if isinstance(start, str) else repr(start)
    if kind.optional:
        return None
    match kind.sort:
        case "choice":
            return text_literal(kind.values[0])
        case "flag" | "integer" | "money":
            return "0"
        case "moment":
            return "timestamp()"
        case "day":
            return "_today()"
    return text_literal("")


def _note(read: set[str], values: Mapping[str, str]) -> None:
    for value in values.values():
        read.update(names_in(value))


def _holes(message: str) -> set[str]:
    found: set[str] = set()
    for part in message.split("{")[1:]:
        found |= names_in(part.partition("}")[0])
    return found
