"""What holds a worker down, and everything here that only Linux has.

A worker confines itself once, before any untrusted code is loaded, and for good. Every layer that
the kernel offers is put on; one that is missing is reported and never silently skipped. All of it
needs no privilege and no library beside ctypes. Elsewhere than on Linux the package still imports.
"""

from environments.sandbox.confine.grounds import shared_grants
from environments.sandbox.confine.landlock import abi as landlock_abi
from environments.sandbox.confine.layers import (
    LAYERS,
    RLIMITS,
    Confinement,
    Layers,
)
from environments.sandbox.confine.processes import (
    adopt_orphans,
    die_with_parent,
    kill_orphans,
    resident_bytes,
)

__all__ = [
    "LAYERS",
    "RLIMITS",
    "Confinement",
    "Layers",
    "adopt_orphans",
    "die_with_parent",
    "kill_orphans",
    "landlock_abi",
    "resident_bytes",
    "shared_grants",
]
