"""The command `seed.py`: settings in, one line or JSON out, and an exit code."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from common.options import AsJson, Facts, Partitions, Timeout, run_job
from common.progress import print_lines
from common.settings import DEFAULT_TIMEOUT, Settings, parse_lsn

from seeding.job import seed
from waltally.options import Schema, Slot, Source, Target, without_password
from waltally.settings import DEFAULT_SCHEMA, DEFAULT_SLOT

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def run(
    source: Source = "",
    target: Target = "",
    slot: Slot = DEFAULT_SLOT,
    schema: Schema = DEFAULT_SCHEMA,
    fact: Facts = None,
    partitions: Partitions = 0,
    standby: Annotated[
        str | None,
        typer.Option(
            envvar="LOADER_STANDBY_DSN",
            callback=without_password,
            help="Count on this physical standby, whose replay pauses meanwhile; the source is not"
            " touched.",
        ),
    ] = None,
    archive: Annotated[
        str | None,
        typer.Option(
            help="Compute the baselines from what spark/archive.py has stored in this folder; the"
            " source is not touched."
        ),
    ] = None,
    at: Annotated[
        str | None, typer.Option(help="With --archive: a WAL position; else the archive's end.")
    ] = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    forget_purged: Annotated[
        bool,
        typer.Option(
            "--forget-purged",
            help="Count only stored rows; else rows purged from tables whose deletes are ignored"
            " stay counted.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Count the facts' tables at one WAL position, while writers go on; store the baselines.

    For instance: spark-submit spark/seed.py --fact ft_service_stats --partitions 16
    """
    summary = seed(
        Settings(
            source,
            target or source,
            slot,
            schema,
            tuple(fact or ()),
            partitions,
            timeout,
            forget_purged=forget_purged,
            standby=standby or None,
            archive=archive,
            at=parse_lsn(at, "--at"),
        )
    )
    print_lines([json.dumps(summary.as_json())] if as_json else summary.lines())


def main() -> None:
    """Run the command; a failure is a sentence on stderr and an exit code."""
    run_job(app, "The previous seed, if any, is intact.")
