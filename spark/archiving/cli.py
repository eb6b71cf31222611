"""The command `archive.py`: settings in, one line or JSON out, and an exit code."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import typer
from common import session
from common.options import AsJson, run_job
from common.progress import print_lines

from archiving import delta
from archiving.job import archive
from archiving.settings import CHANGES_PER_SLICE, ArchiveSettings
from waltally.options import Schema, Slot, Source, Target
from waltally.settings import DEFAULT_SCHEMA, DEFAULT_SLOT

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def run(
    to: Annotated[
        str, typer.Option(help="The folder to archive to, on any file system that Spark reaches.")
    ],
    source: Source = "",
    target: Target = "",
    slot: Slot = DEFAULT_SLOT,
    schema: Schema = DEFAULT_SCHEMA,
    slice_changes: Annotated[
        int, typer.Option(min=1, help="About how many changes become durable at a time.")
    ] = CHANGES_PER_SLICE,
    format: Annotated[
        Literal["parquet", "delta"],
        typer.Option(help="delta: let the Parquet files of the changes be a Delta table too."),
    ] = "parquet",
    as_json: AsJson = False,
) -> None:
    """Copy the new changes and the present baseline to Parquet; each change once.

    For instance: spark-submit spark/archive.py --to s3a://backups/waltally
    """
    settings = ArchiveSettings(
        target or source,
        slot,
        schema,
        to,
        slice_changes,
        format == "delta",
    )
    if settings.is_delta:
        delta.check()
    with session.running("archive") as spark:
        summary = archive(settings, spark)
    print_lines([json.dumps(summary.as_json()) if as_json else str(summary)])


def main() -> None:
    """Run the command; a failure is a sentence on stderr and an exit code."""
    run_job(app, "What was archived before is intact.")
