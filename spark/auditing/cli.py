"""The command: settings in, a report or JSON out, and an exit code."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
from history.cli import without_password
from history.console import restore_stderr
from history.errors import AuditDiffers
from history.settings import Settings, counted_tables
from rich.console import Console

from auditing.job import audit
from auditing.settings import Archived, AuditSettings
from loader.errors import LoaderError
from loader.settings import DEFAULT_SCHEMA, DEFAULT_SLOT, DEFAULT_TABLES

_WIDTH = 200
"""Ids are long, and a report that goes to a file is not to be cut."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def run(
    context: typer.Context,
    source: Annotated[
        str, typer.Option(envvar="LOADER_SOURCE_DSN", help="libpq string or URL; else PG*.")
    ] = "",
    target: Annotated[
        str, typer.Option(envvar="LOADER_TARGET_DSN", help="Warehouse; else the source.")
    ] = "",
    slot: Annotated[
        str, typer.Option(envvar="LOADER_SLOT", help="The slot that the fact is built from.")
    ] = DEFAULT_SLOT,
    tables: Annotated[
        str, typer.Option(envvar="LOADER_TABLES", help="Live table, archive table.")
    ] = DEFAULT_TABLES,
    schema: Annotated[
        str, typer.Option(envvar="LOADER_SCHEMA", help="The staging schema.")
    ] = DEFAULT_SCHEMA,
    dbt_schema: Annotated[
        str, typer.Option(envvar="DBT_SCHEMA", help="The schema of ft_service_stats.")
    ] = "analytics",
    archived: Annotated[
        Archived,
        typer.Option(help="exact where history was never purged; else purged rows stay counted."),
    ] = "at-least",
    partitions: Annotated[
        int, typer.Option(min=0, help="Ranges to read; 0: one for each 8192 pages.")
    ] = 0,
    timeout: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for writers, and for the loader.")
    ] = 300.0,
    limit: Annotated[int, typer.Option(min=0, help="Differences to list, the largest.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Count both tables and compare ft_service_stats with them, while writers and loader go on.

    For instance: spark-submit spark/audit.py --archived exact --json
    """
    report = audit(
        AuditSettings(
            Settings(
                without_password(context, "source", source),
                without_password(context, "target", target) or source,
                slot,
                counted_tables(tables),
                schema,
                partitions,
                timeout,
                work="audit",
            ),
            dbt_schema,
            archived,
            limit,
        )
    )
    if as_json:
        print(json.dumps(report.as_json()), flush=True)
    else:
        Console(width=_WIDTH, markup=False, highlight=False).print(report.render())
    if count := report.verdict.difference_count:
        raise AuditDiffers(
            f"{report.fact_table} differs from the tables in {count:,} counts",
            "docs/runbook.md, code 42; `spark-submit spark/seed.py`, then `dbt build`, counts anew",
        )


def main() -> None:
    """Run the command; a failure is a sentence on stderr and an exit code."""
    restore_stderr()
    try:
        app()
    except LoaderError as error:
        print(error.sentence, file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("Stopped. Nothing was changed.", file=sys.stderr)
        sys.exit(130)
