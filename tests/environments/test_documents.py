"""A document held in tables comes back as it was, whatever happens to it."""

from __future__ import annotations

import json
import math
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from environments.documents import (
    Layout,
    NotADocument,
    decode,
    derive,
    encode,
    from_text,
    read_rows,
    schema_sql,
    statements,
    to_text,
    write_rows,
)

HOTEL: dict[str, Any] = {
    "guests": {
        "g-1": {"name": "Åsa", "age": 41, "tags": ["vip"], "rate": 10.0},
        "g-2": {"name": "Bo", "age": None, "tags": [], "rate": 12, "note": "late"},
    },
    "rooms": [{"id": 7, "beds": 2}, {"id": 9, "beds": 1}],
    "stays": {"g-1": [{"stay_id": "s-1", "nights": 2}], "g-2": []},
    "issues": {"main": {"1": {"title": "Leak"}, "2": {"title": "Noise"}}, "annexe": {}},
    "prices": {"single": 80, "double": 120.5, "suite": None},
    "currency": "€",
    "open": True,
    "next id": 3,
    "closed_days": [],
    "sizes": [1, 2.0, "3"],
}

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.sampled_from(["\0", "a\0b", "\u2028", "'", "$tuple", "1"])
)
keys = st.sampled_from(
    ["", "a", "A", "id", "_key", "value", "order", "sqlite_x", "$set", "é", "x y", "10", "\0"]
) | st.text(max_size=3)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=25,
)
members = st.dictionaries(st.sampled_from(["id", "name", "n"]), scalars, max_size=3)
collections = (
    st.dictionaries(keys, members, max_size=4)
    | st.lists(members, max_size=4)
    | st.dictionaries(keys, st.lists(members, max_size=3), max_size=3)
    | st.dictionaries(keys, st.dictionaries(keys, members, max_size=3), max_size=3)
    | st.dictionaries(st.integers(-5, 5) | st.sampled_from(["1", "2"]), members, max_size=4)
)
documents = (
    st.dictionaries(st.sampled_from(["a", "A", "b", "_document", ""]), collections, max_size=4)
    | st.dictionaries(keys, values, max_size=5)
    | values
)


def same(one: Any, other: Any) -> bool:
    """Equal, of the same types and in the same order."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return same(list(one), list(other)) and same(list(one.values()), list(other.values()))
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    return bool(one == other)


def database(layout: Layout) -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.execute(schema_sql(layout))
    return connection


@settings(deadline=None, max_examples=150)
@given(st.lists(documents, max_size=3), st.lists(documents, min_size=1, max_size=4))
def test_any_document_goes_in_and_comes_back(seen: list[Any], later: list[Any]) -> None:
    layout = derive(seen)
    connection = database(layout)
    by_hand = database(layout)
    before = read_rows(connection, layout)
    for document in [*seen, *later]:
        after = encode(layout, document, before)
        assert same(decode(layout, after), document)
        for statement in statements(layout, before, after):
            by_hand.execute(statement)
        write_rows(connection, layout, before, after)
        before = read_rows(connection, layout)
        assert same(decode(layout, before), document)
        assert same(decode(layout, read_rows(by_hand, layout)), document)
        assert not write_rows(connection, layout, before, encode(layout, document, before))


def test_a_document_as_it_stands_in_tables() -> None:
    layout = derive([HOTEL])
    connection = database(layout)
    write_rows(connection, layout, {}, encode(layout, HOTEL))
    assert connection.execute(
        "SELECT _key, name, age, tags, note, _more FROM guests"
    ).fetchall() == [
        ("g-1", "Åsa", 41, '["vip"]', None, None),
        ("g-2", "Bo", None, "[]", "late", None),
    ]
    assert connection.execute("SELECT _key, beds FROM rooms").fetchall() == [(7, 2), (9, 1)]
    assert connection.execute("SELECT _in, _key, nights FROM stays_items").fetchall() == [
        ("g-1", "s-1", 2)
    ]
    assert connection.execute("SELECT _in, _key, title FROM issues_items").fetchall() == [
        ("main", "1", "Leak"),
        ("main", "2", "Noise"),
    ]
    names = connection.execute("SELECT name FROM _document WHERE value IS NOT NULL ORDER BY _at")
    assert [name for (name,) in names] == ["currency", "open", "next id"]


def test_a_change_is_one_row_and_only_its_columns() -> None:
    layout = derive([HOTEL])
    connection = database(layout)
    write_rows(connection, layout, {}, encode(layout, HOTEL))
    document = json.loads(json.dumps(HOTEL))
    document["guests"]["g-1"]["age"] = 42
    del document["rooms"][0]
    document["rooms"].append({"id": 3, "beds": 4, "balcony": True})
    document["stays"]["g-2"].append({"stay_id": "s-2", "nights": 1})
    told: list[str] = []

    def trace(_: object, sql: str, __: object) -> bool:
        told.append(sql)
        return True

    connection.exec_trace = trace
    before = read_rows(connection, layout)
    write_rows(connection, layout, before, encode(layout, document, before))
    assert [sql.partition(" (")[0] for sql in told if not sql.startswith("SELECT")] == [
        'UPDATE "guests" SET "age" = ? WHERE "_key" = ?',
        'DELETE FROM "rooms" WHERE "_key" = ?',
        'INSERT INTO "rooms"',
        'INSERT INTO "stays_items"',
    ]
    connection.exec_trace = None
    assert same(decode(layout, read_rows(connection, layout)), document)


@pytest.mark.parametrize(
    "value",
    [{1: "a", "1": "b"}, {True: 1}, (1, ("a",)), {"a", "b"}, frozenset({(1, 2)}), b"\0\xff"],
)
def test_what_python_keeps_and_json_has_no_word_for(value: Any) -> None:
    layout = derive([{"x": {"k": value}}])
    assert same(from_text(to_text(value)), value)
    document = {"x": {"k": value}, "y": value}
    assert decode(layout, encode(layout, document)) == document


def test_what_cannot_be_brought_back_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    for value in (object(), loop, {"a": {"b": print}}):
        with pytest.raises(NotADocument):
            to_text(value)
