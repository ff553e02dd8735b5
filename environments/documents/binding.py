"""``document.json`` of a pack whose state is one document: its layout, and what acts on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import msgspec

from environments.documents.layout import Layout
from environments.errors import PackInvalid
from environments.spec import Spec

BINDING: Final = "document.json"
HIDDEN: Final = "_hidden"
"""The table of what the code keeps from call to call beside its document."""
HIDDEN_SQL: Final = (
    f"CREATE TABLE {HIDDEN} (\n  name TEXT NOT NULL PRIMARY KEY,\n  value TEXT NOT NULL\n"
    ") WITHOUT ROWID;\n"
)


class BoundTool(Spec, frozen=True, kw_only=True):
    """One function or method of the code as a tool."""

    name: str
    function: str
    """What the code calls it."""
    read_only: bool = False
    description: str = ""
    """By default the function's own."""
    input_schema: dict[str, Any] | None = None
    """By default what its signature says."""


class Binding(Spec, frozen=True, kw_only=True):
    layout: Layout = Layout()
    instance: str = ""
    """For ``scenario``: the global with ``load_scenario`` and ``save_scenario``."""
    of_class: str = ""
    """For ``state``: the class whose methods are the tools; without it, functions under ``@tool``
    are, which take a ``State``."""
    tools: tuple[BoundTool, ...] = ()

    def to_text(self) -> str:
        """The file's content."""
        return json.dumps(msgspec.to_builtins(self), indent=1) + "\n"


def read_binding(pack: Path) -> Binding:
    """Raises ``PackInvalid`` if the pack has no ``document.json``, or one with a typo."""
    try:
        return msgspec.json.decode((pack / BINDING).read_bytes(), type=Binding)
    except OSError:
        raise PackInvalid(
            f"{pack.name} has no {BINDING}", hint="it says how the state document lies in tables"
        ) from None
    except msgspec.DecodeError as error:
        raise PackInvalid(f"{pack.name}/{BINDING}: {error}") from None
