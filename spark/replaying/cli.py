"""The command `replay.py`: settings in, sums and differences or JSON out, and an exit code."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from common import session
from common.errors import ReplayDiffers
from common.options import AsJson, Facts, run_job
from common.progress import print_lines
from common.settings import parse_lsn

from replaying.job import replay
from replaying.settings import ReplaySettings, parse_time
from waltally.errors import combine
from waltally.options import Schema, Slot, Source, Target
from waltally.settings import DEFAULT_SCHEMA, DEFAULT_SLOT
from waltally.units import plural

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def run(
    path: Annotated[str, typer.Option("--from", help="The folder that was archived to.")],
    at: Annotated[str | None, typer.Option(help="A WAL position; else the archive's end.")] = None,
    at_time: Annotated[
        str | None, typer.Option(help="A moment, ISO 8601; without a zone it is UTC.")
    ] = None,
    to: Annotated[
        str | None, typer.Option(help="Write each fact to a new folder in this one, as Parquet.")
    ] = None,
    compare: Annotated[
        bool,
        typer.Option(
            "--compare",
            help="Compare with the facts, at each fact's position. The archive must have reached"
            " it: under traffic let no build run between archive and replay.",
        ),
    ] = False,
    source: Source = "",
    target: Target = "",
    slot: Slot = DEFAULT_SLOT,
    schema: Schema = DEFAULT_SCHEMA,
    fact: Facts = None,
    as_json: AsJson = False,
) -> None:
    """Compute the facts as of any archived position or time, from the archive alone.

    For instance: spark-submit spark/replay.py --from s3a://backups/waltally --to as-of-monday
    --fact ft_service_stats --at-time 2026-11-16T00:00:00Z
    """
    settings = ReplaySettings(
        path,
        slot,
        tuple(fact or ()),
        parse_lsn(at, "--at"),
        parse_time(at_time),
        to,
        compare,
        target or source,
        schema,
    )
    with session.running("replay") as spark:
        result = replay(settings, spark)
    print_lines([json.dumps(result.as_json())] if as_json else result.lines())
    if result.differing:
        raise combine(
            [
                ReplayDiffers(
                    f"{each.fact.relation} differs from the replay in"
                    f" {plural(each.difference_count or 0, 'group')}",
                    f"`spark-submit spark/audit.py --fact {each.fact.name}`: where it differs too"
                    " the fact is wrong, else the archive",
                )
                for each in result.differing
            ]
        )


def main() -> None:
    """Run the command; a failure is a sentence on stderr and an exit code."""
    run_job(app, "")
