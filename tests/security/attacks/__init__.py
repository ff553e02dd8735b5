"""The attacks: snippets of hostile packs, each with what must be true of it afterwards."""

from tests.security.attacks import (
    exhaustion,
    files_in,
    files_out,
    forgery,
    kernel_doors,
    neighbours,
    network,
    processes,
    sql,
)
from tests.security.attacks.attack import PRELUDE, Attack

ATTACKS: tuple[Attack, ...] = (
    *network.ATTACKS,
    *files_in.ATTACKS,
    *files_out.ATTACKS,
    *processes.ATTACKS,
    *neighbours.ATTACKS,
    *kernel_doors.ATTACKS,
    *exhaustion.ATTACKS,
    *sql.ATTACKS,
    *forgery.ATTACKS,
)

__all__ = ["ATTACKS", "PRELUDE", "Attack"]
