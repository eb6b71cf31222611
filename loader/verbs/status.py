"""`loader status`: where everything stands, and whether that is well."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console

from loader import status, status_table
from loader.settings import DEFAULT_SCHEMA, DEFAULT_SLOT, DEFAULT_TABLES, Settings
from loader.verbs.options import Schema, Slot, Source, Tables, Target, reported


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
    with reported():
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
