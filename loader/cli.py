"""The command line: `loader` and its verbs."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import waltally
from loader.monitoring import text_lines
from loader.verbs.changes import changes_command
from loader.verbs.files import files_command
from loader.verbs.forget import forget_command
from loader.verbs.init import init_command
from loader.verbs.prune import prune_command
from loader.verbs.run import run_command
from loader.verbs.setup import setup_command
from loader.verbs.stats import stats_command
from loader.verbs.status import status_command
from loader.verbs.teardown import teardown_command
from loader.verbs.up import up_command
from loader.verbs.wait import wait_command
from waltally.errors import LoaderError, SettingError
from waltally.usage import Command, UsageError, open_output, output_error, usage_lines


def _say(error: LoaderError) -> None:
    # The exit code says it too, where standard error takes nothing.
    with suppress(OSError):
        text_lines.echo(f"Error: {error.sentence}".split("\n"), err=True)


class Loader(TyperGroup):
    """Ends the process with an error's sentence and exit code, whichever verb raised it."""

    def invoke(self, ctx: Any) -> Any:
        """Run the verb."""
        try:
            return super().invoke(ctx)
        except LoaderError as error:
            _say(error)
            raise typer.Exit(error.exit_code) from None

    def main(self, *args: Any, **more: Any) -> Any:
        """Run the command line; a misspelt option is an error in the form of the others."""
        more["standalone_mode"] = False
        open_output()
        try:
            code = super().main(*args, **more)
        except UsageError as error:
            text_lines.write(usage_lines(error, "loader"), err=True)
            sys.exit(SettingError.exit_code)
        except typer.Abort:
            text_lines.write(["Stopped; nothing was changed."], err=True)
            sys.exit(1)
        except OSError as error:
            if (unwritten := output_error(error)) is None:
                raise
            _say(unwritten)
            code = unwritten.exit_code
        sys.exit(code if isinstance(code, int) else 0)


app = typer.Typer(
    cls=Loader,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Rich's help leaves an option's text 26 of a terminal's 80 columns, and cuts long defaults.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for name, command in (
    ("init", init_command),
    ("up", up_command),
    ("setup", setup_command),
    ("run", run_command),
    ("status", status_command),
    ("stats", stats_command),
    ("changes", changes_command),
    ("wait", wait_command),
    ("forget", forget_command),
    ("prune", prune_command),
    ("teardown", teardown_command),
    ("files", files_command),
):
    app.command(name, cls=Command)(command)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        text_lines.write([f"waltally {waltally.__version__}"])
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Follow a wal2json slot into a change log, exactly once."""


def main() -> None:
    """Run the command line."""
    app()
