"""What an attack is, and what its code may use."""

from __future__ import annotations

import textwrap
from typing import Final, NamedTuple


class Attack(NamedTuple):
    """``code`` declares ``attack(db, aim)``. It calls ``breach`` once it has got what it wanted.

    Always true afterwards, whatever the attack: the canary's files, process, memory and listeners
    are untouched, no signal has reached the gateway, the zygote lives, no process is left behind,
    the episode is unchanged and served, a new episode of the pack and a neighbour are served, and
    were meanwhile. ``ends`` (a regular expression) says how the call itself must end.
    """

    name: str
    ends: str
    code: str


REFUSED: Final = (
    r"^(TOOL_CRASHED: (PermissionError|OSError|BlockingIOError|error)|returned \"?'refused')"
)
"""The system says no."""
STOPPED: Final = "^ToolTimedOut: "
"""The deadline ends it, and its worker."""
ENDED: Final = "^WorkerExited: "
"""It has ended its own worker."""
REJECTED: Final = "^FrameRejected: "
"""Its worker has lied, and is killed."""
HARMLESS: Final = r"^returned "
"""It may do that; nobody is the worse for it."""

PRELUDE: Final = '''
import builtins, ctypes, errno, fcntl, gc, json, mmap, os, re, resource, select, signal, socket
import sqlite3, stat, struct, subprocess, sys, tempfile, threading, time, uuid
import apsw, msgspec
from environments.sandbox import wire
from snapshots.pages import PageDelta

libc = ctypes.CDLL(None, use_errno=True)
TOKEN = re.compile("CANARY-[0-9a-f]{32}")

def breach(what):
    raise ToolError("BREACH", str(what)[:200])

def call(aim, name, *arguments):
    "A system call by its name; addresses and bytes are passed on."
    given = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(aim["nr"].get(name, -1)), *given)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result

def refused(*attempts):
    "Every attempt must fail."
    for number, attempt in enumerate(attempts):
        try:
            got = attempt()
        except OSError:
            continue
        breach(f"attempt {number}: {got!r}")
    return "refused"

def read(path):
    with open(path, "rb") as file:
        return file.read(4096)

@tool(read_only=True)
def logged(db: Database) -> int:
    """How many rows the log has."""
    return db.scalar("SELECT count(*) FROM log")
'''


def attack(name: str, ends: str, body: str) -> Attack:
    """An attack by the body of its function alone."""
    head = '@tool(read_only=False)\ndef attack(db: Database, aim: dict) -> Any:\n    "Attack."\n'
    return Attack(name, ends, head + textwrap.indent(textwrap.dedent(body).strip("\n"), "    "))


def module(name: str, ends: str, text: str) -> Attack:
    """An attack by a whole module, ``attack`` among it."""
    return Attack(name, ends, textwrap.dedent(text))
