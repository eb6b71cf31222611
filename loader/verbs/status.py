"""`loader status`: slot, lag and facts, and whether all is healthy."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from waltally.errors import SettingError
from waltally.freshness import MAX_LAG_SECONDS
from waltally.options import Schema, Slot, Source, Target
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
            min=0,
            metavar="SECONDS",
            envvar="LOADER_MAX_LAG_SECONDS",
            help="Unhealthy when a position has not moved for so long although there is more.",
        ),
    ] = MAX_LAG_SECONDS,
    max_wal_held_bytes: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="BYTES",
            envvar="LOADER_MAX_WAL_HELD_BYTES",
            help="Unhealthy when the slot holds more WAL than this; the default is 8 GiB.",
        ),
    ] = 8 * 2**30,
    min_safe_wal_bytes: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="BYTES",
            envvar="LOADER_MIN_SAFE_WAL_BYTES",
            help="Unhealthy when less WAL than this, and than it holds, is left until the slot "
            "is lost; the default is 1 GiB.",
        ),
    ] = 2**30,
) -> None:
    """Show whether all is well and as of when the facts are exact; the exit code says it too.

    Example: loader status --json
    """
    from loader.monitoring import status, status_text
    from loader.monitoring.findings import Thresholds

    if as_json and watch:
        raise SettingError("--json prints one report and --watch many", "leave one of them out")
    settings = Settings.of(source, target, slot, schema)
    thresholds = Thresholds(max_lag_seconds, max_wal_held_bytes, min_safe_wal_bytes)

    def report() -> dict[str, Any]:
        return status.report(settings, thresholds)

    if watch:
        status_text.watch(report)
        return
    body = report()
    if as_json:
        typer.echo(json.dumps(body, indent=2))
    else:
        status_text.show(body)
    if body["findings"]:
        raise typer.Exit(body["findings"][0]["code"])
