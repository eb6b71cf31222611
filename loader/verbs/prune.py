"""`loader prune`: drop the partitions of the change log that nobody needs any more."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from loader.verbs.options import Schema, Source, Target, reported
from waltally import lsn
from waltally.errors import Interrupted
from waltally.settings import DEFAULT_SCHEMA, DEFAULT_SLOT, Settings

if TYPE_CHECKING:
    from loader.staging.prune import Outcome


def prune_command(
    source: Source = "",
    target: Target = "",
    schema: Schema = DEFAULT_SCHEMA,
    keep: Annotated[
        str, typer.Option(help="Keep what is younger: a number with s, m, h, d or w.")
    ] = "7d",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be dropped; change nothing.")
    ] = False,
    timeout: Annotated[
        int, typer.Option(min=1, help="Seconds to wait for sessions that use the log.")
    ] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program.")] = False,
) -> None:
    """Drop partitions of the change log that every model has applied and a seed or archive covers.

    A loader and builds may run meanwhile. What could not be dropped goes the next time.

    Example: loader prune --keep 7d --dry-run
    """
    from loader.staging.prune import prune
    from loader.staging.retention import parse_age

    with reported():
        settings = Settings.of(source, target, DEFAULT_SLOT, schema)
        outcomes = prune(settings, parse_age(keep), timeout, dry_run)
        if as_json:
            typer.echo(json.dumps(_body(outcomes), indent=2))
        else:
            for outcome in outcomes:
                typer.echo("\n".join(_lines(outcome)))
        left = [outcome.partition.name for outcome in outcomes if outcome.status == "left"]
        if left:
            raise Interrupted(
                f"{', '.join(left)} could not be dropped now",
                "`loader prune` again; what was begun is finished then",
            )


def _lines(outcome: Outcome) -> list[str]:
    from loader.staging.retention import show_age

    partition = outcome.partition
    age = "empty" if partition.age is None else f"newest row {show_age(partition.age)} old"
    said = (
        f"{partition.name}  {lsn.show(partition.from_lsn)} to {lsn.show(partition.to_lsn)}  "
        f"{partition.size / 2**20:,.1f} MB  {age}: {outcome.status}"
    )
    lines = [said]
    for blocker in outcome.blockers:
        lines.append(f"  {blocker.reason}")
        if blocker.remedy:
            lines.append(f"  Try: {blocker.remedy}")
    return lines


def _body(outcomes: list[Outcome]) -> dict[str, object]:
    return {
        "version": 1,
        "partitions": [
            {
                "name": outcome.partition.name,
                "from_lsn": lsn.show(outcome.partition.from_lsn),
                "to_lsn": lsn.show(outcome.partition.to_lsn),
                "bytes": outcome.partition.size,
                "newest_row_age_seconds": outcome.partition.age,
                "status": outcome.status,
                "reasons": [
                    {"reason": blocker.reason, "remedy": blocker.remedy or None}
                    for blocker in outcome.blockers
                ],
            }
            for outcome in outcomes
        ],
    }
