"""The command `replay.py`: settings in, sums and differences or JSON out, and an exit code."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from common import session
from common.errors import ReplayDiffers
from common.options import AsJson, DbtSchema, Schema, Slot, Source, Tables, Target, run_job
from common.settings import counted_tables, parse_lsn

from replaying.job import replay
from replaying.settings import ReplaySettings, parse_time
from waltally.settings import DEFAULT_DBT_SCHEMA, DEFAULT_SCHEMA, DEFAULT_SLOT, DEFAULT_TABLES

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def run(
    path: Annotated[str, typer.Option("--from", help="The folder that was archived to.")],
    at: Annotated[str | None, typer.Option(help="A WAL position; else the archive's end.")] = None,
    at_time: Annotated[
        str | None, typer.Option(help="A moment, ISO 8601; without a zone it is UTC.")
    ] = None,
    to: Annotated[
        str | None, typer.Option(help="Write the counts to a new folder, as Parquet.")
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare with the fact, at the fact's position.")
    ] = False,
    count_archived: Annotated[
        bool, typer.Option(help="Whether count has the archived rows too, as dbt's variable.")
    ] = True,
    source: Source = "",
    target: Target = "",
    slot: Slot = DEFAULT_SLOT,
    tables: Tables = DEFAULT_TABLES,
    schema: Schema = DEFAULT_SCHEMA,
    dbt_schema: DbtSchema = DEFAULT_DBT_SCHEMA,
    as_json: AsJson = False,
) -> None:
    """Compute ft_service_stats as of any archived position or time, from the archive alone.

    For instance: spark-submit spark/replay.py --from s3a://backups/waltally --to as-of-monday
    --at-time 2026-11-16T00:00:00Z
    """
    settings = ReplaySettings(
        path,
        slot,
        counted_tables(tables),
        parse_lsn(at, "--at"),
        parse_time(at_time),
        to,
        compare,
        count_archived,
        target or source,
        schema,
        dbt_schema,
    )
    with session.running("replay") as spark:
        result = replay(settings, spark)
    print(json.dumps(result.as_json()) if as_json else "\n".join(result.lines()), flush=True)
    if result.difference_count:
        raise ReplayDiffers(
            f"{settings.fact} differs from the replay in {result.difference_count:,} groups",
            "spark-submit spark/audit.py, which says whether the fact or the archive is wrong",
        )


def main() -> None:
    """Run the command; a failure is a sentence on stderr and an exit code."""
    run_job(app, "")
