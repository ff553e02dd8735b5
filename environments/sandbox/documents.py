"""A state as one document, for verifiers that were written over documents."""

from __future__ import annotations

import json
from typing import Any

import apsw

from environments.authoring import Database
from environments.documents import Layout, decode, read_rows
from environments.errors import VerifierFailed
from environments.spec import Document
from snapshots.rows import row_to_json
from snapshots.shapes import quoted, read_shapes


def state_document(
    connection: apsw.Connection, document: Document | None, layout: Layout | None = None
) -> Any:
    """Everything in a database: ``{table: {key: row}}`` where a table has a key of one column,
    else ``{table: [row]}``; or the entries of the table that ``document`` names; or, where the
    tables are themselves a document, with that ``layout``, the document.

    Reads the whole database. Raises ``VerifierFailed``.
    """
    db = Database(connection)
    if document is not None:
        table = quoted(document.table)  # before the columns too, or a typo would be a text
        name, value = f"{table}.{quoted(document.name)}", f"{table}.{quoted(document.value)}"
        try:
            rows = db.rows(f"SELECT {name} AS name, {value} AS value FROM {table}")
            return {row["name"]: json.loads(row["value"]) for row in rows}
        except (apsw.Error, TypeError, ValueError) as error:
            raise VerifierFailed(f"{document.table} is no state document: {error}") from error
    if layout is not None:
        return decode(layout, read_rows(connection, layout))
    found: dict[str, Any] = {}
    for table, shape in read_shapes(connection).items():
        columns = ", ".join(quoted(column) for column in shape.columns)
        rows = [row_to_json(row) for row in db.rows(f"SELECT {columns} FROM {quoted(table)}")]
        single = len(shape.key) == 1 and shape.key != ("_rowid_",)
        found[table] = {str(row[shape.key[0]]): row for row in rows} if single else rows
    return found
