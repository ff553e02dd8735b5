"""``python -m tests.imports FORMAT PATH [NAME ...]``."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.imports import awm, envfactory

COMPARISONS = {"awm": awm.compare_all, "envfactory": envfactory.compare_all}


def main() -> int:
    kind, path, *names = sys.argv[1:]
    return COMPARISONS[kind](Path(path), names)


if __name__ == "__main__":
    sys.exit(main())
