"""Node, the public MCP conformance suite and the MCP Inspector, in ``.cache/conformance``.

    python -m tests.conformance.node

installs what ``package-lock.json`` beside this file pins, unless it is there already. Needs ``npm``
(of any Node); what is installed runs under the Node that is installed with it. No package's
install script is run.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".cache" / "conformance"
PINNED = ("package.json", "package-lock.json")
INSTALL_SECONDS = 600


class NodeUnavailable(Exception):
    """There is no npm here, or no Node for this machine."""


@dataclass(frozen=True)
class Node:
    """Commands to run, each the beginning of an argument list."""

    conformance: tuple[str, ...]
    inspector: tuple[str, ...]
    requirements: Path
    """The suite's folder of what each revision of the protocol requires."""


def install() -> Node:
    """Raises ``NodeUnavailable``, and ``CalledProcessError`` where npm fails."""
    CACHE.mkdir(parents=True, exist_ok=True)
    pinned = b"".join((HERE / name).read_bytes() for name in PINNED)
    wanted = hashlib.sha256(pinned).hexdigest()
    stamp = CACHE / "installed"
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            _install()
            stamp.write_text(wanted)
    modules = CACHE / "node_modules"
    found = list(modules.glob("node-linux-*/bin/node"))
    if not found:
        raise NodeUnavailable("the npm registry has no Node 24 for this machine")
    suite = modules / "@modelcontextprotocol" / "conformance"
    inspector = modules / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
    return Node(
        conformance=(str(found[0]), str(suite / "dist" / "index.js")),
        inspector=(str(found[0]), str(inspector), "--cli"),
        requirements=suite / "requirements",
    )


def _install() -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NodeUnavailable("npm is not installed")
    for name in PINNED:
        shutil.copy(HERE / name, CACHE / name)
    # not `npm ci`: it stumbles over an optional package that exists for another system only
    command = [npm, "install", "--ignore-scripts", "--no-save", "--no-audit", "--no-fund"]
    subprocess.run(
        command,
        cwd=CACHE,
        check=True,
        timeout=INSTALL_SECONDS,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )


if __name__ == "__main__":
    print(" ".join(install().conformance))
