"""Run a command as somebody else: ``python -m tests.security.somebody [...] -- COMMAND``."""

from __future__ import annotations

import argparse
import errno
import os
import sys

from tests.security.identity import CannotBecome, become_user, enter_container, refuse

CANNOT = 77
"""The exit code that says: not on this machine."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.security.somebody", description=__doc__)
    parser.add_argument("--user", type=int, help="become this user")
    parser.add_argument("--container", action="store_true", help="under a container's filter")
    parser.add_argument("--refuse", default="", help="system calls that fail with ENOSYS")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    try:
        if options.user is not None:
            become_user(options.user)
    except CannotBecome as error:
        print(error, file=sys.stderr)
        sys.exit(CANNOT)
    if options.container:
        enter_container()
    if options.refuse:
        refuse(dict.fromkeys(options.refuse.split(","), errno.ENOSYS))
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    os.execv(sys.executable, [sys.executable, *command])


if __name__ == "__main__":
    main()
