"""What an importer gives: for each environment it finds, where a pack is made from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec

from environments.errors import EnvhubError, FaultKind


class ImportRefused(EnvhubError):
    """An environment of others cannot become a pack; the message says why, the hint what to do."""

    code = "IMPORT_REFUSED"
    kind: FaultKind = "environment"


class Written(msgspec.Struct, frozen=True):
    """What is to be known of a pack that was written. Each entry is one line for a person."""

    repairs: tuple[str, ...] = ()
    """What differs from the original because a pack could not have it so."""
    weaknesses: tuple[str, ...] = ()
    """What was wrong with the original and still is: tools that fail, verifiers too easily met."""


class Source(Protocol):
    """One environment of others. Frozen and picklable: it is written in another process, so it
    holds where its inputs lie (a path, an offset), not the inputs."""

    @property
    def name(self) -> str:
        """What the pack will be called; unique among the sources of a run."""
        ...

    @property
    def digest(self) -> str:
        """Of all its inputs. An environment whose digest is what it was is not imported again;
        a change of the importer's own code is noticed without it."""
        ...

    def write(self, folder: Path) -> Written:
        """Fill ``folder``, which is there and empty, with the files of the pack.

        The same inputs give the same bytes. Licence and provenance go into ``environment.toml``.
        Code of the original is read and copied, never run in this process; where running it is the
        only way to know something, that is for a sandbox. Raises ``ImportRefused``.
        """
        ...


@runtime_checkable
class WorldSource(Protocol):
    """What else a source has of environments that are played together, as a world. It is written
    once the packs it mounts are: those that came to be lie beside the ``folder`` it is to fill,
    under their names, and it is made anew when one of them is another.

    No ``Source`` itself: to see whether something is one takes every property, and a digest reads
    all there is."""

    @property
    def mounts(self) -> tuple[str, ...]:
        """The names of the sources it wants as packs."""
        ...


Importer = Callable[[Path], Iterator[Source]]
"""``sources(path)`` of an importer's module: what lies at ``path``, a file or a folder, found
without reading it whole. A source that turns out to be bad is given all the same and refuses when
it is written. Raises ``ImportRefused`` if nothing at ``path`` has this format."""
