"""A progress bar on standard error, for people only: not where it goes into a file or a pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from hub.cli.output import errors


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[], None]]:
    """The bar, and what to call when one more of ``total`` is done; it is gone afterwards."""
    with bars() as drawn:
        task = drawn.add_task(what, total=total)
        yield lambda: drawn.advance(task)


def bars() -> Progress:
    """Bars for several things at once."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
    )
