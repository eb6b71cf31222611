"""`loader prune`: drop the partitions of the change log that nobody needs any more."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from loader.monitoring import text_lines
from loader.monitoring.text_lines import shown
from waltally import lsn
from waltally.errors import Interrupted
from waltally.options import Schema, Source, Target
from waltally.settings import DEFAULT_SCHEMA, DEFAULT_SLOT, Settings
from waltally.units import plural

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

    A partition is a quarter of the log at most, or 16 MiB of the source's WAL.
    The newest one stays. A loader and builds may run meanwhile.

    Example: loader prune --keep 7d --dry-run
    """
    from loader.staging.prune import prune
    from waltally.units import parse_age

    settings = Settings.of(source, target, DEFAULT_SLOT, schema)
    with shown("looking at the change log" if dry_run else "pruning the change log"):
        outcomes = prune(settings, parse_age(keep), timeout, dry_run)
    if as_json:
        typer.echo(json.dumps(_body(outcomes), indent=2))
    else:
        text_lines.write(report(outcomes))
    left = [outcome.partition.name for outcome in outcomes if outcome.status == "left"]
    if left:
        raise Interrupted(
            f"{', '.join(left)} could not be dropped now",
            "`loader prune` again, once the sessions that use the log have ended",
        )


_ROW = "{:<10}  {:<21}  {:>11}  {:>14}  {:>7}"
_HEADS = ("", "partition", "size", "rows", "age")


def report(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield what a person reads: a line for each partition, what keeps them, and the sum."""
    from waltally.units import duration, size

    yield _ROW.format(*_HEADS).rstrip()
    for outcome in outcomes:
        partition = outcome.partition
        about = "~" if partition.rows_estimated else ""
        age = "" if partition.age is None else duration(partition.age)
        yield _ROW.format(
            outcome.status,
            partition.name,
            size(partition.size),
            f"{about}{partition.rows:,}",
            age,
        ).rstrip()
    # The oldest that stays: no other can go before it, and most are kept for the same reasons.
    staying = next((each for each in outcomes if each.blockers), None)
    if staying is not None:
        yield f"What keeps {staying.partition.name}:"
        for blocker in staying.blockers:
            yield f"- {blocker.reason}"
            if blocker.remedy:
                yield f"  Try: {blocker.remedy}"
    yield _sum(outcomes)


def _sum(outcomes: Sequence[Outcome]) -> str:
    from waltally.units import size

    going = [each.partition for each in outcomes if each.status in ("would drop", "dropped")]
    if not going:
        return "Nothing to drop."
    about = "about " if any(each.rows_estimated for each in going) else ""
    newest = min((each.age for each in going if each.age is not None), default=None)
    until = "" if newest is None else f", staged up to {_ago(newest)}"
    verb = "Dropped" if any(each.status == "dropped" for each in outcomes) else "Would drop"
    return (
        f"{verb} {plural(len(going), 'partition')}: "
        f"{about}{plural(sum(each.rows for each in going), 'row')}, "
        f"{size(sum(each.size for each in going))}, "
        f"positions before {lsn.show(going[-1].block.to_lsn)}{until}"
    )


def _ago(seconds: float) -> str:
    moment = datetime.now(UTC) - timedelta(seconds=seconds)
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _body(outcomes: list[Outcome]) -> dict[str, object]:
    return {
        "version": 1,
        "partitions": [
            {
                "name": outcome.partition.name,
                "from_lsn": lsn.show(outcome.partition.block.from_lsn),
                "to_lsn": lsn.show(outcome.partition.block.to_lsn),
                "bytes": outcome.partition.size,
                "rows": outcome.partition.rows,
                "rows_estimated": outcome.partition.rows_estimated,
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
