"""Runs ``envhub`` commands as processes forked from one that has imported all they need.

Each line of standard input is a command's arguments as JSON. Each is answered by the process's id
when it begins, and by its exit code (negative: the signal) when it has ended.
"""

from __future__ import annotations

import json
import os
import sys

import environments.synthesis.patient  # what takes seconds to import
import hub.cli


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os.dup2(2, 1)
            hub.cli.main(json.loads(line))
            os._exit(0)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    assert environments.synthesis.patient.MOST_TOKENS
    main()
