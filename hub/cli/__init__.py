"""The ``envhub`` command: every mistake is told in words, with an exit code and no traceback.

0: done. 1: it failed, or a pack did not pass. 2: the command line makes no sense.
3: some of many were done (``envhub import``).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from environments.errors import EnvhubError
from hub.cli import (
    archives,
    checking,
    doctor,
    evaluating,
    exporting,
    importing,
    packs,
    rating,
    recorded,
    sampling,
    scheduling,
    serving,
    synthesising,
    tokens,
    verifying,
)
from hub.cli.output import complain
from hub.settings import SettingsInvalid
from snapshots.errors import SnapshotsError

app = typer.Typer(
    name="envhub",
    help="Environments for tool-using agents: copy-on-write, served over MCP, scored.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
packs.register(app)
archives.register(app)
checking.register(app)
importing.register(app)
exporting.register(app)
serving.register(app)
verifying.register(app)
evaluating.register(app)
rating.register(app)
recorded.register(app)
scheduling.register(app)
synthesising.register(app)
sampling.register(app)
tokens.register(app)
doctor.register(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit with its code."""
    try:
        app(args=arguments, prog_name="envhub")
    except (EnvhubError, SnapshotsError) as error:
        complain(error.message, error.hint)
        sys.exit(1)
    except SettingsInvalid as error:
        complain(str(error))
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(141)
