"""``tools.py`` of a design, as somebody would have written it by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from environments.synthesis.blueprint import Attribute, Entity, Kind, Take
from environments.synthesis.offline.compose import PAGE, Design, Tool
from environments.synthesis.offline.emit import Lines
from environments.synthesis.offline.expressions import text_literal
from environments.synthesis.offline.phrase import listed
from environments.synthesis.offline.render_shared import shared_functions
from environments.synthesis.offline.steps import StepWriter, start_of

_RESERVED = frozenset({
    "order", "group", "to", "from", "table", "index", "case", "check", "transaction", "default",
    "select", "where", "set", "values", "release", "plan", "row", "rows", "match", "key", "limit",
})  # fmt: skip


def render_tools(design: Design) -> str:
    return _Module(design).text()


def class_name(text: str) -> str:
    return "".join(part.capitalize() for part in text.split("_"))


class _Module:
    def __init__(self, design: Design) -> None:
        self.design = design
        self.entities = design.entities
        self.lines = Lines()

    def text(self) -> str:
        body = Lines()
        tools, self.lines = self.lines, body
        for tool in self.design.tools:
            self._tool(tool)
        self.lines = tools
        written = body.text()
        self._head(written)
        self._helpers(written)
        return self.lines.text() + written

    # --- what stands before the tools ------------------------------------------------------

    def _head(self, body: str) -> None:
        put = self.lines.put
        kit = [name for name in ("new_id", "now", "timestamp") if f"{name}(" in body]
        if ("_today(" in body or "_days_after(" in body) and "now" not in kit:
            kit.insert(1 if "new_id" in kit else 0, "now")
        put(f'"""The tools of {self.design.blueprint.domain.replace("-", " ")}; '
            'policy.md says what the rules are for."""', 0)  # fmt: skip
        put("", 0)
        put("from __future__ import annotations", 0)
        put("", 0)
        uses_days = "_days_after(" in body
        if uses_days or ": date" in body or "[date" in body or "_days_between(" in body:
            put(f"from datetime import date{', timedelta' if uses_days else ''}", 0)
        put("from typing import Annotated, Any, Literal", 0)
        put("", 0)
        put("from pydantic import Field", 0)
        put("", 0)
        names = ["Database", "Row", "ToolError", *kit, "tool"]
        put(f"from environments.authoring import {', '.join(names)}", 0)
        put("", 0)
        for name, value in self.design.constants.items():
            if name in body:
                put(f"{name} = {value}", 0)
        if self.design.listing == "paged":
            put(f"PAGE_SIZE = {PAGE}", 0)
        put("", 0)
        self._types(body)
        for entity in self.entities.values():
            self._query(entity)

    def _types(self, body: str) -> None:
        put = self.lines.put
        for entity in self.entities.values():
            name = class_name(entity.name)
            if f"{name}Id" in body:
                words = entity.words.capitalize()
                example = "17" if entity.log else f"{entity.prefix}4711"
                kind = "int" if entity.log else "str"
                put(f'{name}Id = Annotated[{kind}, Field(description="{words} id, e.g. '
                    f'{example}")]', 0)  # fmt: skip
            for attribute in entity.attributes:
                alias = f"{name}{class_name(attribute.name)}"
                if attribute.kind.sort == "choice" and alias in body:
                    values = [text_literal(value) for value in attribute.kind.values]
                    self.lines.call(f"{alias} = Literal[", values, "]", 0)
        if "Page = " in body:
            put('Page = Annotated[int, Field(ge=1, description=f"Page number; {PAGE_SIZE} rows a '
                'page")]', 0)  # fmt: skip
        if "Limit = " in body:
            put('Limit = Annotated[int, Field(ge=1, le=100, description="The most rows to '
                'answer")]', 0)  # fmt: skip
        put("", 0)

    def _query(self, entity: Entity) -> None:
        """The query all tools read the entity with: its columns, and labels of what it names."""
        columns, joins = [f"{entity.table}.*"], []
        for attribute in entity.attributes:
            other = self.entities.get(attribute.kind.entity)
            if other is None or not other.label:
                continue
            alias = f"{attribute.name}_row" if attribute.name in _RESERVED else attribute.name
            columns.append(f"{alias}.{other.label} AS {attribute.name}_{other.label}")
            outer = "LEFT JOIN" if attribute.kind.optional else "JOIN"
            joins.append(
                f"{outer} {other.table} AS {alias} "
                f"ON {alias}.id = {entity.table}.{attribute.column}"
            )
        put = self.lines.put
        constant = _query_name(entity)
        if not joins:
            put(f'{constant} = "SELECT * FROM {entity.table}"', 0)
            return
        put(f'{constant} = """', 0)
        put(f"SELECT {', '.join(columns)}", 0)
        put(f"FROM {entity.table}", 0)
        for join in joins:
            put(join, 0)
        put('"""', 0)

    def _helpers(self, body: str) -> None:
        wanted = [entity for entity in self.entities.values() if not entity.key]
        put = self.lines.put
        put("", 0)
        put("", 0)
        for part in shared_functions(self.design.listing, body):
            for line in part.strip("\n").split("\n"):
                put(line, 0)
            put("", 0)
            put("", 0)
        for entity in wanted:
            if f"_{entity.name}(db" not in body:
                continue
            name, kind = entity.name, "int" if entity.log else "str"
            put(f"def _{name}(db: Database, {name}_id: {kind}) -> Row:", 0)
            query = f'f"{{{_query_name(entity)}}} WHERE {entity.table}.id = ?"'
            self.lines.call("return _one(", ["db", text_literal(name), query, f"{name}_id"])
            put("", 0)
            put("", 0)

    # --- the tools -----------------------------------------------------------------------

    def _tool(self, tool: Tool) -> None:
        writers: dict[str, Callable[[Tool], None]] = {
            "find": self._find, "get": self._get, "create": self._create, "update": self._update,
            "delete": self._delete, "summarise": self._summarise, "do": self._do,
        }  # fmt: skip
        reads = tool.job in ("find", "get", "summarise")
        self.lines.put("", 0)
        self.lines.put("", 0)
        self.lines.put(f"@tool(read_only={reads})", 0)
        writers[tool.job](tool)

    def _signature(self, tool: Tool, parameters: Sequence[str], result: str = "Row") -> None:
        self.lines.call(f"def {tool.name}(", ["db: Database", *parameters], f") -> {result}:", 0)

    def annotation(self, entity: Entity, attribute: Attribute) -> str:
        """The Python type of a column as an argument."""
        if attribute.kind.sort == "choice":
            return f"{class_name(entity.name)}{class_name(attribute.name)}"
        return annotation_of(attribute.kind, attribute.words)

    def _find(self, tool: Tool) -> None:
        entity = self.entities[tool.entity]
        parameters, conditions = [], []
        if tool.searched:
            label = entity.label.replace("_", " ")
            parameters.append(
                f'text: Annotated[str | None, Field(description="Words of the {label}")] = None'
            )
        for column in tool.filters:
            attribute = entity.attribute(column)
            value = column
            if attribute.kind.sort == "day":
                value = f"{column} and {column}.isoformat()"
            parameters.append(f"{column}: {self.annotation(entity, attribute)} | None = None")
            conditions.append(f'"{entity.table}.{column}": {value}')
        if tool.sorts:
            values = [text_literal(f"{n}{end}") for n in tool.sorts for end in ("", "_desc")]
            parameters.append(f"sort: Literal[{', '.join(values)}] | None = None")
        listing = self.design.listing
        if listing != "plain":
            parameters.append("page: Page = 1" if listing == "paged" else "limit: Limit = 50")
        self._signature(tool, parameters, "list[Row]" if listing == "plain" else "Row")
        put = self.lines.put
        put(f'"""{self._find_doc(tool, entity)}"""')
        self.lines.call("where, values = _matching({", conditions, "})")
        if tool.searched:
            put(
                f'where, values = _with_words(where, values, text, "{entity.table}.{entity.label}")'
            )
        order = f'"{_order(entity)}"'
        if tool.sorts:
            put(f'order = _ordering(sort, "{entity.table}", {order})')
            order = "order"
        last = {"plain": [], "paged": ["page"], "limited": ["limit"]}[listing]
        arguments = ["db", _query_name(entity), "where", "values", order, *last]
        self.lines.call("return _listed(", arguments)

    def _find_doc(self, tool: Tool, entity: Entity) -> str:
        words = entity.table.replace("_", " ")
        by = (
            f"Find {words} by words of their {entity.label.replace('_', ' ')}"
            if tool.searched
            else f"List {words}"
        )
        filters = [entity.attribute(column).words for column in tool.filters]
        if not filters:
            return f"{by}."
        return f"{by}{', ' if tool.searched else ', also only those '}by {listed(filters)}."

    def _get(self, tool: Tool) -> None:
        entity = self.entities[tool.entity]
        name = entity.name
        self._signature(tool, [f"{name}_id: {class_name(name)}Id"])
        children = [self.entities[child] for child in tool.children]
        more = listed([child.table.replace("_", " ") for child in children])
        put = self.lines.put
        put(f'"""One {entity.words}{f", with its {more}" if more else ", all that is known"}."""')
        if not children:
            put(f"return _{name}(db, {name}_id)")
            return
        put(f"{name} = _{name}(db, {name}_id)")
        for child in children:
            column = next(
                each.column
                for each in child.attributes
                if each.kind.sort == "ref" and each.kind.entity == name
            )
            order = f" ORDER BY {_order(child)}"
            query = f'f"{{{_query_name(child)}}} WHERE {child.table}.{column} = ?{order}"'
            self.lines.call(f'{name}["{child.table}"] = db.rows(', [query, f"{name}_id"])
        put(f"return {name}")

    def _create(self, tool: Tool) -> None:
        entity = self.entities[tool.entity]
        given = [each for each in entity.attributes if each.given]
        given.sort(key=lambda each: each.kind.optional)
        parameters = [
            f"{each.column}: {self.annotation(entity, each)}"
            + (" | None = None" if each.kind.optional else "")
            for each in given
        ]
        self._signature(tool, parameters)
        put = self.lines.put
        put(f'"""{tool.name.split("_")[0].capitalize()} a new {entity.words}."""')
        for each in given:
            if each.kind.sort == "ref":
                looked = f"_{each.kind.entity}(db, {each.column})"
                if each.kind.optional:
                    put(f"if {each.column} is not None:")
                put(looked, 2 if each.kind.optional else 1)
        self._unique(entity)
        put(f'{entity.name}_id = new_id("{entity.name}", "{entity.prefix}")')
        values = [f"id={entity.name}_id"]
        for each in entity.attributes:
            written: str | None = _stored(each) if each.given else start_of(each)
            if written is not None:
                values.append(f"{each.column}={written}")
        self.lines.call("db.insert(", [text_literal(entity.table), *values])
        put(f"return _{entity.name}(db, {entity.name}_id)")

    def _unique(self, entity: Entity) -> None:
        if not entity.label:
            return
        put, label = self.lines.put, entity.label
        query = f'"SELECT 1 FROM {entity.table} WHERE {label} = ?"'
        put(f"if db.one({query}, {label}) is not None:")
        code = f'"{entity.name.upper()}_EXISTS"'
        said = f'f"there is a {entity.words} called {{{label}}} already"'
        self.lines.call("raise ToolError(", [code, said], depth=2)

    def _update(self, tool: Tool) -> None:
        entity = self.entities[tool.entity]
        fields = [entity.attribute(column) for column in tool.fields]
        parameters = [f"{entity.name}_id: {class_name(entity.name)}Id"]
        parameters += [
            f"{each.column}: {self.annotation(entity, each)} | None = None" for each in fields
        ]
        self._signature(tool, parameters)
        put = self.lines.put
        changed = listed([each.words for each in fields])
        put(f'"""Change {changed} of a {entity.words}; what is left out stays."""')
        put(f"_{entity.name}(db, {entity.name}_id)")
        for each in fields:
            if each.kind.sort == "ref":
                put(f"if {each.column} is not None:")
                put(f"_{each.kind.entity}(db, {each.column})", 2)
        values = [f"{each.column}={_stored(each)}" for each in fields]
        self.lines.call(
            "_update(", ["db", text_literal(entity.table), f"{entity.name}_id", *values]
        )
        put(f"return _{entity.name}(db, {entity.name}_id)")

    def _delete(self, tool: Tool) -> None:
        entity = self.entities[tool.entity]
        self._signature(tool, [f"{entity.name}_id: {class_name(entity.name)}Id"])
        put = self.lines.put
        put(f'"""Delete a {entity.words} that nothing else refers to."""')
        put(f"{entity.name} = _{entity.name}(db, {entity.name}_id)")
        for other, attribute in self.design.referring(entity.name):
            query = f'"SELECT 1 FROM {other.table} WHERE {attribute.column} = ?"'
            put(f"if db.one({query}, {entity.name}_id) is not None:")
            said = f'f"{{{entity.name}_id}} has {other.table.replace("_", " ")}"'
            self.lines.call("raise ToolError(", [f'"{entity.name.upper()}_IN_USE"', said], depth=2)
        put(f'db.run("DELETE FROM {entity.table} WHERE id = ?", {entity.name}_id)')
        put(f"return {entity.name}")

    def _summarise(self, tool: Tool) -> None:
        entity = self.entities[tool.entity]
        names = ", ".join(text_literal(column) for column in tool.fields)
        self._signature(tool, [f"by: Literal[{names}]"], "list[Row]")
        words = entity.table.replace("_", " ")
        total = tool.total
        added = f" and sum up their {total.replace('_', ' ')}" if total else ""
        self.lines.put(f'"""Count {words}{added}, by one of their properties."""')
        summed = f", round(sum({total}), 2) AS total_{total}" if total else ""
        query = (
            f'f"SELECT {{by}}, count(*) AS {entity.table}{summed} FROM {entity.table} '
            'GROUP BY {by} ORDER BY {by}"'
        )
        self.lines.call("return db.rows(", [query])

    def _do(self, tool: Tool) -> None:
        action = tool.action
        assert action is not None
        parameters = [self._parameter(take) for take in action.takes if not take.via]
        self._signature(tool, parameters)
        self.lines.put(f'"""{action.doc}"""')
        for take in action.takes:
            if take.kind is not None and take.kind.sort == "day":
                self.lines.put(f"{take.name} = {take.name}.isoformat()")
        StepWriter(action, self.entities, self.lines).write()

    def _parameter(self, take: Take) -> str:
        if take.kind is None:
            entity = self.entities[take.entity]
            return f"{take.name}_id: {class_name(entity.name)}Id"
        return f"{take.name}: {annotation_of(take.kind, take.doc)}"


def annotation_of(kind: Kind, doc: str) -> str:
    """The Python type of an argument."""
    said = f"description={text_literal(doc[:1].upper() + doc[1:])}" if doc else ""
    match kind.sort:
        case "ref":
            return f"{class_name(kind.entity)}Id"
        case "choice":
            return f"Literal[{', '.join(text_literal(value) for value in kind.values)}]"
        case "integer":
            low = min(int(kind.low), 1)
            return f"Annotated[int, Field(ge={low}, le=100000{', ' + said if said else ''})]"
        case "money":
            return f"Annotated[float, Field(gt=0, le=1000000{', ' + said if said else ''})]"
        case "day":
            return f"Annotated[date, Field({said})]" if said else "date"
        case "flag":
            return f"Annotated[bool, Field({said})]" if said else "bool"
    return f"Annotated[str, Field(min_length=1, max_length=200{', ' + said if said else ''})]"


def _stored(attribute: Attribute) -> str:
    """The Python of an argument as it is kept."""
    match attribute.kind.sort:
        case "day":
            name = attribute.column
            return (
                f"{name} and {name}.isoformat()"
                if attribute.kind.optional or (attribute.editable)
                else f"{name}.isoformat()"
            )
    return attribute.column


def _query_name(entity: Entity) -> str:
    """The constant of the query that reads an entity; no limit of a blueprint is called so."""
    return f"ALL_{entity.table.upper()}"


def _order(entity: Entity) -> str:
    if entity.key:
        return ", ".join(f"{entity.table}.{name}_id" for name in entity.key)
    return f"{entity.table}.id"
