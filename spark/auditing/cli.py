"""The command `audit.py`: settings in, a report or JSON out, and an exit code."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from common.errors import AuditDiffers
from common.options import (
    AsJson,
    DbtSchema,
    Partitions,
    Schema,
    Slot,
    Source,
    Tables,
    Target,
    Timeout,
    run_job,
)
from common.settings import DEFAULT_TIMEOUT, Settings, counted_tables
from facts.settings import FactSettings
from rich.console import Console

from auditing.job import audit
from waltally.settings import DEFAULT_DBT_SCHEMA, DEFAULT_SCHEMA, DEFAULT_SLOT, DEFAULT_TABLES

_WIDTH = 200
"""Wide enough for ids, so that a report in a file is not cut."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def run(
    source: Source = "",
    target: Target = "",
    slot: Slot = DEFAULT_SLOT,
    tables: Tables = DEFAULT_TABLES,
    schema: Schema = DEFAULT_SCHEMA,
    dbt_schema: DbtSchema = DEFAULT_DBT_SCHEMA,
    partitions: Partitions = 0,
    timeout: Timeout = DEFAULT_TIMEOUT,
    limit: Annotated[int, typer.Option(min=0, help="Differences to list, the largest.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Count both tables and compare ft_service_stats with them, while writers and loader go on.

    For instance: spark-submit spark/audit.py --json --timeout 900
    """
    report = audit(
        FactSettings(
            Settings(
                source,
                target or source,
                slot,
                counted_tables(tables),
                schema,
                partitions,
                timeout,
                work="audit",
            ),
            dbt_schema,
            limit,
        )
    )
    if as_json:
        print(json.dumps(report.as_json()), flush=True)
    else:
        Console(width=_WIDTH, markup=False, highlight=False).print(report.render())
    if count := report.comparison.difference_count:
        raise AuditDiffers(
            f"{report.fact_table} differs from the tables in {count:,} counts",
            f"{report.remedy()} (docs/runbook.md, The audit differs)",
        )


def main() -> None:
    """Run the command; a failure is a sentence on stderr and an exit code."""
    run_job(app, "Nothing was changed.")
