"""The command line: `loader setup`, `run`, `status`, `teardown`."""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Annotated

import typer
from rich.console import Console
from rich.logging import RichHandler

from loader import build, process_title, setup, status, status_table
from loader.errors import LoaderError
from loader.follow import follow
from loader.progress import Progress
from loader.session import Totals
from loader.settings import DEFAULT_SCHEMA, DEFAULT_SLOT, DEFAULT_TABLES, Settings

app = typer.Typer(
    help="Follow a wal2json slot into a change log, exactly once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Source = Annotated[
    str,
    typer.Option(
        envvar="LOADER_SOURCE_DSN",
        show_default="libpq's PG* variables",
        help="The application's database: a libpq string or URL.",
    ),
]
Target = Annotated[
    str,
    typer.Option(
        envvar="LOADER_TARGET_DSN",
        show_default="the source",
        help="The database that holds the change log: a libpq string or URL.",
    ),
]
Slot = Annotated[str, typer.Option(envvar="LOADER_SLOT", help="The replication slot's name.")]
Tables = Annotated[
    str,
    typer.Option(
        envvar="LOADER_TABLES",
        help="Tables to follow: the live one, its archive, then any that are only logged.",
    ),
]
Schema = Annotated[
    str, typer.Option(envvar="LOADER_SCHEMA", help="The staging schema at the target.")
]


@contextmanager
def _reported() -> Iterator[None]:
    """End the process with an error's sentence and exit code."""
    try:
        yield
    except LoaderError as error:
        typer.echo(f"Error: {error.sentence}", err=True)
        raise typer.Exit(error.exit_code) from None


@app.command("setup")
def setup_command(
    source: Source = "",
    target: Target = "",
    slot: Slot = DEFAULT_SLOT,
    tables: Tables = DEFAULT_TABLES,
    schema: Schema = DEFAULT_SCHEMA,
    check: Annotated[bool, typer.Option("--check", help="Only report; change nothing.")] = False,
    renew: Annotated[
        bool,
        typer.Option(
            "--renew", help="Make the slot anew after it was lost; the counts then need a new seed."
        ),
    ] = False,
    timeout: Annotated[
        int, typer.Option(min=1, help="Seconds to wait for transactions that are writing.")
    ] = 300,
) -> None:
    """Check the server and the tables, make the staging schema and the slot. Safe to repeat.

    Example: loader setup --check
    """
    with _reported():
        settings = Settings.of(source, target, slot, tables, schema)
        if check:
            found = setup.check(settings)
            for finding in found:
                typer.echo(f"Error: {finding.sentence}", err=True)
            if found:
                raise typer.Exit(found[0].exit_code)
            typer.echo("Everything is set up.")
            return
        done = setup.set_up(settings, timeout, renew)
        for line in done or ["Everything is set up already."]:
            typer.echo(line)


@app.command("run")
def run_command(
    source: Source = "",
    target: Target = "",
    slot: Slot = DEFAULT_SLOT,
    tables: Tables = DEFAULT_TABLES,
    schema: Schema = DEFAULT_SCHEMA,
    once: Annotated[
        bool, typer.Option("--once", help="Stop at what is committed now, with exit code 0.")
    ] = False,
    with_build: Annotated[
        bool,
        typer.Option("--build", help="Apply the dbt models in this process after each batch."),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log each build too.")] = False,
) -> None:
    """Follow the slot into the change log until stopped by SIGTERM or Ctrl-C.

    Example: loader run --build
    """
    console = Console(stderr=True)
    _log_to(console, verbose)
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with _reported():
        settings = Settings.of(source, target, slot, tables, schema)
        totals = Totals()
        with Progress(totals, console):
            if with_build and not once:
                builder = build.Builder(settings, lambda: totals.batches)
                builder.start()
                try:
                    follow(settings, stop, totals, once)
                finally:
                    builder.close()
            else:
                follow(settings, stop, totals, once)
                if with_build:
                    build.export_target(settings)
                    build.apply_all(settings, build.Models())


@app.command("status")
def status_command(
    source: Source = "",
    target: Target = "",
    slot: Slot = DEFAULT_SLOT,
    tables: Tables = DEFAULT_TABLES,
    schema: Schema = DEFAULT_SCHEMA,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh until Ctrl-C.")] = False,
    max_lag_seconds: Annotated[
        float,
        typer.Option(
            envvar="LOADER_MAX_LAG_SECONDS",
            help="Unhealthy when a position has stood still so long while there is more.",
        ),
    ] = 300.0,
    max_wal_held_bytes: Annotated[
        int,
        typer.Option(
            envvar="LOADER_MAX_WAL_HELD_BYTES",
            help="Unhealthy when the slot holds more WAL than this.",
        ),
    ] = 8 * 2**30,
) -> None:
    """Show slot, lag, WAL held back and watermarks; the exit code says whether all is well.

    Example: loader status --json
    """
    with _reported():
        settings = Settings.of(source, target, slot, tables, schema)
        thresholds = status.Thresholds(max_lag_seconds, max_wal_held_bytes)
        if watch:
            status_table.watch(lambda: status.report(settings, thresholds)[0])
            return
        body, problem = status.report(settings, thresholds)
        if as_json:
            typer.echo(json.dumps(body, indent=2))
        else:
            Console().print(status_table.render(body))
        if problem is not None:
            raise typer.Exit(problem.exit_code)


@app.command("teardown")
def teardown_command(
    source: Source = "",
    target: Target = "",
    slot: Slot = DEFAULT_SLOT,
    tables: Tables = DEFAULT_TABLES,
    schema: Schema = DEFAULT_SCHEMA,
    purge: Annotated[
        bool, typer.Option("--purge", help="Drop the staging schema with all it holds, too.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Drop the slot, so that it holds no WAL; the counts then stand still.

    Example: loader teardown --purge --yes
    """
    with _reported():
        settings = Settings.of(source, target, slot, tables, schema)
        what = f"the slot {slot}" + (f" and the schema {schema} with all it holds" if purge else "")
        if not yes:
            typer.confirm(f"Drop {what}?", abort=True)
        for line in setup.tear_down(settings, purge) or ["There was nothing to drop."]:
            typer.echo(line)


def _log_to(console: Console, verbose: bool) -> None:
    handler: logging.Handler
    if console.is_terminal:
        handler = RichHandler(console=console, show_path=False)
        handler.setFormatter(logging.Formatter("%(message)s"))
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("loader")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    logger.propagate = False


def main() -> None:
    """Run the command line."""
    process_title.hide_passwords()
    app()
