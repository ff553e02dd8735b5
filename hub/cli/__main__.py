"""``python -m hub.cli`` is ``envhub``."""

from hub.cli import main

main()
