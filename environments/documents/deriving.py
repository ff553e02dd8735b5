"""From documents that were seen to the tables that hold such documents well."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

from environments.documents.layout import DOCUMENT, VALUE, Column, Entry, Kind, Layout
from environments.documents.mapping import fits, is_key

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_MAX_COLUMNS: Final = 80
_ALIKE: Final = 0.3
"""The least share of all fields that the objects of one table have on average."""
_KINDS: Final[dict[frozenset[type], Kind]] = {
    frozenset({str}): "text",
    frozenset({int}): "integer",
    frozenset({float}): "number",
    frozenset({int, float}): "number",
    frozenset({bool}): "boolean",
}


def derive(documents: Iterable[Any]) -> Layout:
    """A layout in which these documents, and others like them, are rows: an object of objects and
    a list of objects have a row a member, their fields in columns; others a row a value.

    A collection gets its table from what all documents have in it; scalars have none.
    """
    seen: dict[str, list[Any]] = {}
    for document in documents:
        if type(document) is dict:
            for name, value in document.items():
                if type(name) is str:
                    seen.setdefault(name, []).append(value)
    taken = {DOCUMENT}
    entries: dict[str, Entry] = {}
    for name, values in seen.items():
        kind = {type(value) for value in values if value is not None}
        if kind in ({dict}, {list}):
            table = _free_name(name, "table", taken)
            entries[name] = _entry(table, values, taken)
    return Layout(entries=entries)


def _entry(
    table: str, collections: Sequence[Any], taken: set[str], *, inner: bool = False
) -> Entry:
    collections = [collection for collection in collections if collection is not None]
    kind: Literal["dict", "list"] = "dict" if any(type(c) is dict for c in collections) else "list"
    members = [member for c in collections for member in (c.values() if kind == "dict" else c)]
    known = [member for member in members if member is not None]
    if not inner and _are_collections(known):
        below = _entry(_free_name(f"{table}_items", "table", taken), known, taken, inner=True)
        return Entry(table=table, kind=kind, inner=below)
    if known and all(type(member) is dict for member in known):
        columns = _columns(known)
        if columns is not None:
            by = _identifier(collections, known) if kind == "list" else ""
            return Entry(table=table, kind=kind, columns=columns, spread=True, keyed_by=by)
    value = Column(field=VALUE, name=VALUE, kind=_kind(members, loosely=True))
    return Entry(table=table, kind=kind, columns=(value,))


def _are_collections(members: Sequence[Any]) -> bool:
    """Whether the members hold objects by key, or lists of objects: not fields of their own."""
    kinds = {type(member) for member in members}
    if kinds == {list}:
        items = [item for member in members for item in member]
        return bool(items) and all(type(item) is dict for item in items)
    if kinds != {dict}:
        return False
    items = [item for member in members for item in member.values()]
    if not items or not all(type(item) is dict for item in items):
        return False
    names = {name for member in members for name in member}
    shared = len(items) / (len(names) * len(members))
    if any(type(name) is int for name in names):
        return True
    return shared < 0.8 or any(re.search(r"\d", name) for name in names)


def _columns(objects: Sequence[dict[Any, Any]]) -> tuple[Column, ...] | None:
    """None if the objects have too little in common."""
    values: dict[str, list[Any]] = {}
    for member in objects:
        for field, value in member.items():
            if type(field) is str:
                values.setdefault(field, []).append(value)
    if not values or len(values) > _MAX_COLUMNS:
        return None
    if sum(map(len, values.values())) < _ALIKE * len(values) * len(objects):
        return None
    taken: set[str] = set()
    return tuple(
        Column(
            field=field,
            name=_free_name(field, "field", taken),
            kind=_kind(found),
            optional=len(objects) - len(found) > found.count(None),
        )
        for field, found in values.items()
    )


def _kind(values: Sequence[Any], *, loosely: bool = False) -> Kind:
    kinds = frozenset(type(value) for value in values if value is not None)
    if found := _KINDS.get(kinds):
        return found
    return "scalar" if loosely and kinds and kinds <= {str, int, float, bool} else "json"


def _identifier(lists: Sequence[list[Any]], members: Sequence[dict[Any, Any]]) -> str:
    """The first field that tells the members of every list apart, as its name promises."""
    for field in members[0]:
        if type(field) is not str or not re.fullmatch(r"id|uuid|.*(_id|Id)|key|name|symbol", field):
            continue
        if all(fits(Entry(table="", kind="list", keyed_by=field), members) for members in lists):
            return field
    return ""


def _free_name(wanted: str, otherwise: str, taken: set[str]) -> str:
    """``wanted`` if SQL takes it for a name and nothing has it, else one like it."""
    good = _NAME.fullmatch(wanted) and not wanted.lower().startswith("sqlite_") and is_key(wanted)
    base = wanted if good else re.sub(r"\W+", "_", wanted, flags=re.ASCII).strip("_")[:50]
    if not _NAME.fullmatch(base) or base.lower().startswith("sqlite_"):
        base = otherwise
    name, number = base, 1
    while name.lower() in taken:
        number += 1
        name = f"{base}_{number}"
    taken.add(name.lower())
    return name
