"""The command: settings in, one line or JSON out, and an exit code."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
from history import session
from history.cli import without_password
from history.console import restore_stderr

from archiving.job import archive
from archiving.settings import CHANGES_A_SLICE, ArchiveSettings
from loader.errors import LoaderError
from loader.settings import DEFAULT_SCHEMA, DEFAULT_SLOT

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def run(
    context: typer.Context,
    to: Annotated[
        str, typer.Option(help="The folder to archive to, on any file system that Spark reaches.")
    ],
    source: Annotated[
        str, typer.Option(envvar="LOADER_SOURCE_DSN", help="Only read where there is no target.")
    ] = "",
    target: Annotated[
        str, typer.Option(envvar="LOADER_TARGET_DSN", help="Warehouse; else the source.")
    ] = "",
    slot: Annotated[
        str, typer.Option(envvar="LOADER_SLOT", help="The slot whose changes these are.")
    ] = DEFAULT_SLOT,
    schema: Annotated[
        str, typer.Option(envvar="LOADER_SCHEMA", help="The staging schema.")
    ] = DEFAULT_SCHEMA,
    slice_changes: Annotated[
        int, typer.Option(min=1, help="About how many changes become durable at a time.")
    ] = CHANGES_A_SLICE,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Copy what is new in the change log, and the present seed, to Parquet; each change once.

    For instance: spark-submit spark/archive.py --to s3a://backups/waltally
    """
    settings = ArchiveSettings(
        without_password(context, "target", target) or without_password(context, "source", source),
        slot,
        schema,
        to,
        slice_changes,
    )
    with session.running("archive") as spark:
        summary = archive(settings, spark)
    print(json.dumps(summary.as_json()) if as_json else summary, flush=True)


def main() -> None:
    """Run the command; a failure is a sentence on stderr and an exit code."""
    restore_stderr()
    try:
        app()
    except LoaderError as error:
        print(f"{error.sentence}\nWhat was archived before is intact.", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("Stopped. What was archived before is intact.", file=sys.stderr)
        sys.exit(130)
