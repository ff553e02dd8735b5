"""Where an episode stands and how it came there: pages, clock, steps, and marks to go back to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from environments.errors import CallKeyReused, InvalidArguments, UnknownMark
from environments.keepable import require_keepable
from environments.sandbox.wire import Moment
from environments.trajectory import Step
from snapshots import Branch, Mark


class _Bookmark(NamedTuple):
    """A place to go back to, and the steps that led there."""

    state: Mark
    moment: Moment
    steps: tuple[Step, ...]


class Timeline:
    """The part of an episode that a mark keeps, a rewind restores and a fork copies.

    ``start`` is the state it began in. Nothing here waits or writes anywhere: who journals decides
    when something is so.
    """

    __slots__ = ("_by_key", "_marks", "branch", "moment", "start", "steps")

    def __init__(self, branch: Branch, moment: Moment, steps: Sequence[Step] = ()) -> None:
        self.branch = branch
        self.start = branch.mark()
        self.moment = moment
        self.steps = list(steps)
        self._by_key: dict[str, Step] = {}
        self._marks: dict[str, _Bookmark] = {}

    def fork(self) -> Timeline:
        """An independent timeline that stands here. It has no marks, and its call keys are free."""
        twin = Timeline(self.branch.fork(), self.moment, self.steps)
        twin.start = self.start
        return twin

    def accept(self, step: Step, moment: Moment) -> None:
        """One more step; its pages are in the branch already."""
        self.moment = moment
        self.steps.append(step)
        if step.call_key is not None:
            self._by_key[step.call_key] = step

    def recorded(
        self, call_key: str | None, tool: str, arguments: Mapping[str, Any]
    ) -> Step | None:
        """The step that this key has named before. Raises ``CallKeyReused`` for another call."""
        known = self._by_key.get(call_key) if call_key is not None else None
        if known is not None and (known.tool != tool or known.arguments != arguments):
            raise CallKeyReused(
                f"call key {call_key!r} was used for {known.tool}",
                hint="a key names one call; retries repeat the same tool and arguments",
            )
        return known

    # Marks -----------------------------------------------------------------------------------

    @property
    def marks(self) -> Sequence[str]:
        return list(self._marks)

    @property
    def next_mark(self) -> str:
        return f"m{len(self._marks) + 1}"

    def mark(self, name: str) -> None:
        """Call this point ``name``."""
        self._marks[name] = _Bookmark(self.branch.mark(), self.moment, tuple(self.steps))

    def steps_at(self, mark: str) -> int:
        """How many steps had been taken there. Raises ``UnknownMark``."""
        return len(self._bookmark(mark).steps)

    def go_back(self, mark: str) -> None:
        """State, clock and steps are what they were. Marks stay usable. Raises ``UnknownMark``."""
        bookmark = self._bookmark(mark)
        self.branch.rewind(bookmark.state)
        self.moment = bookmark.moment
        self.steps = list(bookmark.steps)
        self._by_key = {step.call_key: step for step in self.steps if step.call_key is not None}

    def steps_since(self, since: str | int | None) -> Sequence[Step]:
        """The steps after a mark or a number of steps. Raises ``UnknownMark`` for a point that is
        not on this timeline (any more)."""
        if since is None:
            return self.steps
        if isinstance(since, int):
            if not 0 <= since <= len(self.steps):
                raise UnknownMark(f"there are {len(self.steps)} steps, not {since}")
            return self.steps[since:]
        passed = self._bookmark(since).steps
        if tuple(self.steps[: len(passed)]) != passed:
            raise UnknownMark(
                f"mark {since!r} is not a point this episode has passed", hint=self._known_marks
            )
        return self.steps[len(passed) :]

    def _bookmark(self, mark: str) -> _Bookmark:
        found = self._marks.get(mark)
        if found is None:
            raise UnknownMark(f"there is no mark {mark!r}", hint=self._known_marks)
        return found

    @property
    def _known_marks(self) -> str:
        return f"marks: {', '.join(self._marks) or 'none'}"


def recordable(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the arguments. Raises ``InvalidArguments`` for what no record can hold."""
    try:
        require_keepable(msgspec.json.encode(arguments))
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidArguments(f"invalid arguments for {tool}: {error}") from None
    return dict(arguments)
