"""`loader prune`: drop the partitions of the change log that nobody needs any more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from loader.monitoring import text_lines
from loader.monitoring.text_lines import shown
from waltally import lsn
from waltally.errors import Interrupted
from waltally.options import with_settings
from waltally.settings import Settings
from waltally.units import duration, parse_age, plural, size

if TYPE_CHECKING:
    from loader.staging.prune import Outcome


@with_settings("source", "target", "schema")
def prune_command(
    settings: Settings,
    keep: Annotated[
        str, typer.Option(help="Keep what is younger: a number with s, m, h, d or w.")
    ] = "7d",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be dropped; change nothing.")
    ] = False,
    timeout: Annotated[
        int, typer.Option(min=1, help="Seconds to wait for sessions that use the log.")
    ] = 10,
) -> None:
    """Drop partitions of the change log that every model and reader has read and no seed needs.

    A partition spans at most a quarter of the log, or 16 MiB of the source's WAL.
    The newest one stays. A loader and builds may run meanwhile.

    Example: loader prune --keep 7d --dry-run
    """
    from loader.staging.prune import prune

    with shown("looking at the change log" if dry_run else "pruning the change log"):
        outcomes = prune(settings, parse_age(keep), timeout, dry_run)
    text_lines.write(report(outcomes))
    left = [outcome.partition.name for outcome in outcomes if outcome.status == "left"]
    if left:
        raise Interrupted(
            f"{', '.join(left)} could not be dropped now",
            "`loader prune` again, once the sessions that use the log have ended",
        )


def report(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield what a person reads: a line for each partition, what keeps them, and the sum."""
    rows = [("", "partition", "size", "age")]
    for outcome in outcomes:
        partition = outcome.partition
        age = "" if partition.age is None else duration(partition.age)
        rows.append((outcome.status, partition.name, size(partition.size), age))
    yield from text_lines.aligned(rows, right=[2, 3])
    # The oldest that stays: no other can go before it, and most are kept for the same reasons.
    kept = next((outcome for outcome in outcomes if outcome.blockers), None)
    if kept is not None:
        yield f"What keeps {kept.partition.name}:"
        for blocker in kept.blockers:
            yield f"- {blocker.reason}"
            if blocker.remedy:
                yield f"  Try: {blocker.remedy}"
    yield _sum(outcomes)


def _sum(outcomes: Sequence[Outcome]) -> str:
    going = [outcome for outcome in outcomes if outcome.status in ("would drop", "dropped")]
    if not going:
        return "Nothing to drop."
    return (
        f"{going[0].status.capitalize()} {plural(len(going), 'partition')}: "
        f"{size(sum(outcome.partition.size for outcome in going))}, "
        f"positions before {lsn.show(going[-1].partition.block.to_lsn)}"
    )
