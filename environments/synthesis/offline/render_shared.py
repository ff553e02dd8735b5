"""The small functions that the tools of an environment share."""

from __future__ import annotations


def shared_functions(listing: str, body: str) -> list[str]:
    """The small functions the tools share, as far as they are used."""
    sources = [_ONE, _MATCHING]
    if "_with_words(" in body:
        sources.append(_WORDS)
    if "_ordering(" in body:
        sources.append(_ORDER)
    sources.append({"paged": _PAGED, "limited": _LIMITED, "plain": _PLAIN}[listing])
    if "_update(" in body:
        sources.append(_UPDATE)
    if "_today(" in body:
        sources.append(_TODAY)
    if "_days_after(" in body:
        sources.append(_DAYS_AFTER)
    if "_days_between(" in body:
        sources.append(_DAYS_BETWEEN)
    return sources


_ONE = """
def _one(db: Database, what: str, sql: str, key: str | int) -> Row:
    row = db.one(sql, key)
    if row is None:
        raise ToolError(f"{what.upper()}_NOT_FOUND", f"there is no {what.replace('_', ' ')} {key}")
    return row
"""
_MATCHING = '''
def _matching(columns: dict[str, Any]) -> tuple[str, list[Any]]:
    """A condition on those columns for which a value is given."""
    given = {column: value for column, value in columns.items() if value is not None}
    return " AND ".join(f"{column} = ?" for column in given) or "1", list(given.values())
'''
_WORDS = '''
def _with_words(
    where: str, values: list[Any], text: str | None, column: str
) -> tuple[str, list[Any]]:
    """Also that every word of ``text`` occurs in ``column``."""
    words = (text or "").split()
    conditions = [where, *(f"instr(lower({column}), lower(?)) > 0" for _ in words)]
    return " AND ".join(conditions), [*values, *words]
'''
_ORDER = """
def _ordering(sort: str | None, table: str, otherwise: str) -> str:
    if sort is None:
        return otherwise
    column = sort.removesuffix("_desc")
    return f"{table}.{column}{' DESC' if sort != column else ''}, {otherwise}"
"""
_PAGED = '''
def _listed(db: Database, query: str, where: str, values: list[Any], order: str, page: int) -> Row:
    """One page of rows, with the count of all."""
    sql = f"{query} WHERE {where}"
    total = db.scalar(f"SELECT count(*) FROM ({sql})", *values)
    skipped = (page - 1) * PAGE_SIZE
    rows = db.rows(f"{sql} ORDER BY {order} LIMIT {PAGE_SIZE} OFFSET ?", *values, skipped)
    return {"total": total, "page": page, "pages": -(-total // PAGE_SIZE), "results": rows}
'''
_LIMITED = '''
def _listed(db: Database, query: str, where: str, values: list[Any], order: str, limit: int) -> Row:
    """The first rows, with the count of all."""
    sql = f"{query} WHERE {where}"
    total = db.scalar(f"SELECT count(*) FROM ({sql})", *values)
    return {"total": total, "results": db.rows(f"{sql} ORDER BY {order} LIMIT ?", *values, limit)}
'''
_PLAIN = """
def _listed(db: Database, query: str, where: str, values: list[Any], order: str) -> list[Row]:
    return db.rows(f"{query} WHERE {where} ORDER BY {order}", *values)
"""
_UPDATE = '''
def _update(db: Database, table: str, key: str, **values: Any) -> None:
    """Write the values that are given."""
    given = {column: value for column, value in values.items() if value is not None}
    if not given:
        raise ToolError("NOTHING_TO_CHANGE", "no value was given")
    assignments = ", ".join(f"{column} = ?" for column in given)
    db.run(f"UPDATE {table} SET {assignments} WHERE id = ?", *given.values(), key)
'''
_TODAY = """
def _today() -> str:
    return now().date().isoformat()
"""
_DAYS_AFTER = """
def _days_after(day: str, days: int) -> str:
    return (date.fromisoformat(day) + timedelta(days=days)).isoformat()
"""
_DAYS_BETWEEN = """
def _days_between(first: str, second: str) -> int:
    return (date.fromisoformat(second) - date.fromisoformat(first)).days
"""
