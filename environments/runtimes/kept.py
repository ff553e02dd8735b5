"""What code keeps from call to call beside its document: globals, class attributes, randomness.

The original lives in one process for a whole run, so a login that stands in a global is part of its
state. Here any worker serves any episode: before a call everything is as it was after the import,
then what this episode's branch has kept is put back; after the call what differs is kept.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import pickle
import random
import struct
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from types import FunctionType, ModuleType, NoneType
from typing import Any, Final

import apsw

from environments.documents import HIDDEN, NotADocument, from_text, to_text
from environments.errors import EnvironmentFault, PackInvalid
from environments.runtimes.likeness import alike, shared
from environments.runtimes.source import SOURCE

Kept = dict[str, Any]
_WORDS: Final = struct.Struct("<625I")
_PICKLED: Final = "pickled:"
_GLOBAL: Final = "global "
WHOLE: Final = "instance"
"""The name under which everything is kept, with what its parts share, where these would not do."""
_HELD: Final = (dict, list, set, str, int, float, NoneType)


def digest_of(document: Any) -> str:
    """By which it is known whether what was kept still belongs to a document."""
    return hashlib.sha256(to_text(document).encode()).hexdigest()[:32]


class Surroundings:
    """The globals of a module and the attributes of its classes that calls may change."""

    def __init__(self, module: ModuleType, without: Iterable[str] = ()) -> None:
        """Take down how they are now. ``without`` names globals that are no state.

        Raises ``PackInvalid`` for those that cannot be set back: they may carry one episode into
        another.
        """
        self._globals = module.__dict__
        self._names = {*module.__dict__}
        self._classes: dict[str, type] = {}
        self._pristine: dict[tuple[str, str], Any] = {}
        self._opaque: list[str] = []
        without = {*without}
        for name, value in list(module.__dict__.items()):
            if isinstance(value, type):
                if value.__module__ == module.__name__ and _is_plain(value):
                    self._classes[name] = value
                    for attribute, held in list(vars(value).items()):
                        if isinstance(held, _HELD) and not attribute.startswith("__"):
                            self._take_down(name, attribute, held)
            elif name not in without and not name.startswith("__") and _is_state(value):
                self._take_down("", name, value)
        if self._opaque:
            raise PackInvalid(f"{SOURCE} keeps what cannot be set back: {', '.join(self._opaque)}")

    def _take_down(self, place: str, name: str, value: Any) -> None:
        try:
            self._pristine[place, name] = copy.deepcopy(value)
        except Exception:  # noqa: BLE001 - a stranger's object
            self._opaque.append(f"{place}.{name}".lstrip("."))

    def reset(self, kept: Mapping[str, Any]) -> None:
        """Set everything back, then put in place what of theirs is among what was ``kept``."""
        for name in self._globals.keys() - self._names:
            del self._globals[name]
        for (place, name), value in self._pristine.items():
            if not alike(self._get(place, name), value):
                self._set(place, name, copy.deepcopy(value))
        for named, value in names(kept, _GLOBAL):
            place, _, name = named.rpartition(".")
            self._set(place, name, value)

    def changed(self) -> Kept:
        """What is not as it was after the import, to be kept."""
        found = {
            _GLOBAL + name: self._globals[name]
            for name in sorted(self._globals.keys() - self._names)
            if _is_state(self._globals[name])
        }
        for (place, name), value in self._pristine.items():
            now = self._get(place, name)
            if not alike(now, value):
                found[_GLOBAL + f"{place}.{name}".lstrip(".")] = now
        return found

    def _get(self, place: str, name: str) -> Any:
        held: Mapping[str, Any] = vars(self._classes[place]) if place else self._globals
        return held.get(name)

    def _set(self, place: str, name: str, value: Any) -> None:
        if place:
            setattr(self._classes[place], name, value)
        else:
            self._globals[name] = value


def _is_plain(of_class: type) -> bool:
    """Whether its attributes are the code's own, and not what a library keeps in a class."""
    return not (hasattr(of_class, "model_fields") or issubclass(of_class, Enum))


def _is_state(value: Any) -> bool:
    if isinstance(value, ModuleType | FunctionType | type) or callable(value):
        return False
    return type(value).__module__ not in ("typing", "types", "__future__", "re")


# --- in the branch --------------------------------------------------------------------------------


def read_kept(connection: apsw.Connection) -> Kept:
    """What the branch has kept, by name."""
    rows = connection.execute(f"SELECT name, value FROM {HIDDEN}")
    return {name: _from_cell(value) for name, value in rows}


def write_kept(connection: apsw.Connection, kept: Mapping[str, Any]) -> None:
    """Make this what is kept. Raises ``EnvironmentFault`` for what nobody can keep."""
    rows = connection.execute(f"SELECT name, value FROM {HIDDEN}")
    before: dict[Any, Any] = dict(iter(rows))
    after = {name: _to_cell(name, value) for name, value in kept.items()}
    for name in before.keys() - after.keys():
        connection.execute(f"DELETE FROM {HIDDEN} WHERE name = ?", (name,))
    for name, cell in after.items():
        earlier = before.get(name)
        if earlier != cell and not (earlier and _equal(earlier, kept[name])):
            connection.execute(
                f"INSERT INTO {HIDDEN} VALUES (?, ?) "
                "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                (name, cell),
            )


def _to_cell(name: str, value: Any) -> str:
    if name != WHOLE:
        try:
            return to_text(value)
        except NotADocument:
            pass
    try:
        return _PICKLED + base64.b64encode(pickle.dumps(value, protocol=5)).decode()
    except Exception as error:  # a stranger's object
        raise EnvironmentFault(
            f"{name} is kept from call to call, and cannot be: {error}",
            hint="it is no part of the state document, and no plain data",
        ) from error


def _equal(cell: str, value: Any) -> bool:
    """Whether a pickled value is this one: the same value has many pickles."""
    if not cell.startswith(_PICKLED):
        return False
    held = _from_cell(cell)
    return alike(held, value) and shared(held) == shared(value)


def _from_cell(cell: str) -> Any:
    if cell.startswith(_PICKLED):
        return pickle.loads(base64.b64decode(cell[len(_PICKLED) :]))
    return from_text(cell)


# --- randomness -----------------------------------------------------------------------------------


def random_text() -> str:
    """The state of ``random``."""
    version, words, gauss = random.getstate()
    return f"{version} {gauss} " + base64.b85encode(_WORDS.pack(*words)).decode()


def set_random(text: str) -> None:
    """Make it what ``random_text`` said."""
    version, gauss, words = text.split(" ")
    random.setstate(
        (
            int(version),
            _WORDS.unpack(base64.b85decode(words)),
            None if gauss == "None" else float(gauss),
        )
    )


def names(kept: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """What is kept under names that begin with ``prefix``, by the rest of the name."""
    for name, value in kept.items():
        if name.startswith(prefix):
            yield name[len(prefix) :], value
