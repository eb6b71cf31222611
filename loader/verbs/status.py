"""`loader status`: slot, lag and facts, and whether all is healthy."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from loader.verbs.options import Schema, Slot, Source, Target, reported
from waltally.settings import DEFAULT_SCHEMA, DEFAULT_SLOT, Settings


def status_command(
    source: Source = "",
    target: Target = "",
    slot: Slot = DEFAULT_SLOT,
    schema: Schema = DEFAULT_SCHEMA,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh until Ctrl-C.")] = False,
    max_lag_seconds: Annotated[
        float,
        typer.Option(
            envvar="LOADER_MAX_LAG_SECONDS",
            help="Unhealthy when a position has not moved for so long although there is more.",
        ),
    ] = 300.0,
    max_wal_held_bytes: Annotated[
        int,
        typer.Option(
            envvar="LOADER_MAX_WAL_HELD_BYTES",
            help="Unhealthy when the slot holds more WAL than this.",
        ),
    ] = 8 * 2**30,
    min_safe_wal_bytes: Annotated[
        int,
        typer.Option(
            envvar="LOADER_MIN_SAFE_WAL_BYTES",
            help="Unhealthy when less WAL than this, and than it holds, is left until the slot "
            "is lost.",
        ),
    ] = 2**30,
) -> None:
    """Show slot, lag, WAL held back and watermarks; the exit code says whether all is well.

    Example: loader status --json
    """
    from loader.monitoring import status

    with reported():
        settings = Settings.of(source, target, slot, schema)
        thresholds = status.Thresholds(max_lag_seconds, max_wal_held_bytes, min_safe_wal_bytes)

        def report() -> dict[str, Any]:
            return status.report(settings, thresholds)[0]

        if as_json and not watch:
            body = report()
            typer.echo(json.dumps(body, indent=2))
        else:
            from loader.monitoring import status_table

            console = status_table.output_console()
            if watch:
                status_table.watch(report, console)
                return
            body = report()
            console.print(status_table.render(body))
        if body["findings"]:
            raise typer.Exit(body["findings"][0]["code"])
