"""Documents as tables, and back: how a world that keeps its state in one object is held in rows.

A *document* is a JSON value, or what Python code keeps in place of one (integers as keys, tuples,
sets). A ``Layout`` says which of its entries have a table of their own; it is derived once, from
documents that were seen, and kept in the pack. Any later document goes into the same tables: what
does not fit their columns is kept beside them in JSON, so nothing is ever lost.
"""

from environments.documents.binding import (
    BINDING,
    HIDDEN,
    HIDDEN_SQL,
    Binding,
    BoundTool,
    read_binding,
)
from environments.documents.codec import NotADocument, from_text, to_text
from environments.documents.deriving import derive
from environments.documents.layout import Column, Entry, Layout, schema_sql
from environments.documents.mapping import Rows, decode, encode
from environments.documents.storage import read_rows, statements, write_rows

__all__ = [
    "BINDING",
    "HIDDEN",
    "HIDDEN_SQL",
    "Binding",
    "BoundTool",
    "Column",
    "Entry",
    "Layout",
    "NotADocument",
    "Rows",
    "decode",
    "derive",
    "encode",
    "from_text",
    "read_binding",
    "read_rows",
    "schema_sql",
    "statements",
    "to_text",
    "write_rows",
]
