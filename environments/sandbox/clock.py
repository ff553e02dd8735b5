"""The clock of the machine as a pack's code sees it: it stands at the episode's time.

``datetime`` is C and cannot be patched from Python; the time-machine library replaces the C
functions themselves, ``time.time`` and ``localtime`` with them. What measures durations
(``monotonic``, ``perf_counter``, ``sleep``) goes on as it is.
"""

from __future__ import annotations

import sys
from datetime import datetime, timedelta

_PYTEST = sys.modules.get("pytest")
if _PYTEST is None:
    sys.modules["pytest"] = None  # type: ignore[assignment] # it would import that, for a plugin
import time_machine  # noqa: E402

if _PYTEST is None:
    del sys.modules["pytest"]

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - without a zone it leaves TZ alone, which is UTC here


class StandingClock:
    """Stops this process's clock at ``clock_ms`` (milliseconds since 1970 UTC), for good."""

    def __init__(self, clock_ms: int) -> None:
        self._clock_ms = clock_ms
        self._traveller = time_machine.travel(_at(clock_ms), tick=False).start()

    def set(self, clock_ms: int) -> None:
        """It is ``clock_ms`` now."""
        if clock_ms != self._clock_ms:
            self._clock_ms = clock_ms
            self._traveller.move_to(_at(clock_ms))


def _at(clock_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=clock_ms)
