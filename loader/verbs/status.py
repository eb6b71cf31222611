"""`loader status`: slot, lag and models, and whether all is healthy."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from loader.source.state import Thresholds
from waltally.errors import SettingError
from waltally.options import with_settings
from waltally.settings import Settings

_LIMITS = Thresholds()


@with_settings()
def status_command(
    settings: Settings,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh until Ctrl-C.")] = False,
    positions: Annotated[
        bool, typer.Option("--positions", help="Show where slot and models are in the WAL too.")
    ] = False,
    max_lag_seconds: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="SECONDS",
            envvar="LOADER_MAX_LAG_SECONDS",
            help="Unhealthy when a position has not moved for so long although there is more.",
        ),
    ] = _LIMITS.lag_seconds,
    max_wal_held_bytes: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="BYTES",
            envvar="LOADER_MAX_WAL_HELD_BYTES",
            help="Unhealthy when the slot holds more WAL than this; the default is 8 GiB.",
        ),
    ] = _LIMITS.wal_held_bytes,
    min_safe_wal_bytes: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="BYTES",
            envvar="LOADER_MIN_SAFE_WAL_BYTES",
            help="Unhealthy when less WAL than this, and less than the slot holds, is left until "
            "the slot is lost; the default is 1 GiB.",
        ),
    ] = _LIMITS.min_safe_wal_bytes,
) -> None:
    """Show whether all is well and as of when the models are exact; the exit code says it too.

    Example: loader status --json
    """
    from loader.monitoring import status, status_text

    if as_json and watch:
        raise SettingError("--json prints one report and --watch many", "leave one of them out")
    thresholds = Thresholds(max_lag_seconds, max_wal_held_bytes, min_safe_wal_bytes)

    def look() -> status.Report:
        return status.report(settings, thresholds)

    if watch:
        status_text.watch(look, positions)
        return
    report = look()
    if as_json:
        typer.echo(json.dumps(report.as_json(), indent=2))
    else:
        status_text.show(report, positions)
    if report.findings:
        raise typer.Exit(report.findings[0].exit_code)
