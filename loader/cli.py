"""The command line: `loader setup`, `run`, `status`, `teardown`."""

from __future__ import annotations

import sys

import typer

from loader import process_title
from loader.verbs.prune import prune_command
from loader.verbs.run import run_command
from loader.verbs.setup import setup_command
from loader.verbs.stats import stats_command
from loader.verbs.status import status_command
from loader.verbs.teardown import teardown_command

app = typer.Typer(
    help="Follow a wal2json slot into a change log, exactly once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Importing rich takes longer than everything else that help needs.
    rich_markup_mode="rich" if sys.stdout.isatty() else None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for name, command in (
    ("setup", setup_command),
    ("run", run_command),
    ("status", status_command),
    ("stats", stats_command),
    ("prune", prune_command),
    ("teardown", teardown_command),
):
    app.command(name)(command)


def main() -> None:
    """Run the command line."""
    process_title.hide_passwords()
    app()
