"""Applies from start to end: batch after batch, until the models hold what is staged."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer
from pyspark.sql import SparkSession

from waltally import failpoints, lsn
from waltally.errors import LoaderError, combine
from waltally.options import Schema, Slot, Source, Target
from waltally.settings import DEFAULT_SCHEMA, DEFAULT_SLOT
from waltally_jobs.applying import batch
from waltally_jobs.applying.batch import MAX_CHANGES, ApplySettings, Plan
from waltally_jobs.common import session
from waltally_jobs.common.command import (
    DEFAULT_TIMEOUT,
    STOPS,
    Job,
    MaxChanges,
    Models,
    Once,
    Stop,
)
from waltally_jobs.common.connections import TargetSession, connect_target
from waltally_jobs.common.errors import spark_errors
from waltally_jobs.common.progress import print_lines, print_status

_PAUSE_SECONDS = 0.5
"""Before a model that could not be applied now is tried again."""


@dataclass(frozen=True)
class Applied:
    """A batch that models hold now."""

    models: tuple[str, ...]
    to_lsn: int
    changes: int
    seconds: float

    def line(self) -> str:
        """Return it as a sentence."""
        names, verb = ", ".join(self.models), "is" if len(self.models) == 1 else "are"
        rate = self.changes / max(self.seconds, 0.001)
        return (
            f"{names} {verb} at {lsn.show(self.to_lsn)}: {self.changes:,} changes"
            f" in {self.seconds:.2f} s, {rate:,.0f} changes/s"
        )


Report = Callable[[Applied | LoaderError], None]
"""Is told of each batch, and of a model that waits or has failed whenever the reason is new."""


def apply(settings: ApplySettings, report: Report, stop: Stop | None = None) -> None:
    """Apply what is staged to the models that say engine='spark'; with an interval, until `stop`.

    Raises LoaderError: without an interval also where a model waits or has failed, once the others
    hold what was staged at the start.
    """
    stop = stop or Stop()
    said: dict[str, str] = {}
    with contextlib.ExitStack() as stack, spark_errors("apply"):
        target = stack.enter_context(contextlib.closing(connect_target(settings, "apply")))
        end = target.position().position_lsn
        # Before Spark starts, which takes seconds.
        batch.read(target, settings)
        spark = stack.enter_context(session.running("apply"))
        deadline = time.monotonic() + DEFAULT_TIMEOUT
        while not stop.wait(0):
            plans = batch.read(target, settings)
            last = end if settings.interval is None else max(each.position for each in plans)
            due = [each for each in plans if each.is_due(last)]
            has_applied = bool(due) and _step(spark, target, settings, due, report)
            is_filled = not batch.fill_due(target)
            if settings.interval is not None:
                _tell(plans, said, report)
            elif not due and not _is_waited_for(plans, is_filled, deadline):
                return
            if not has_applied:
                is_waiting = bool(due) or not is_filled
                stop.wait(_PAUSE_SECONDS if is_waiting else settings.interval or _PAUSE_SECONDS)


def _tell(plans: Sequence[Plan], said: dict[str, str], report: Report) -> None:
    """Report why models wait or have failed, where that is new."""
    for each in plans:
        error = each.state.error
        if error and not each.is_ready and said.get(each.model.name) != error.sentence:
            report(error)
        said[each.model.name] = error.sentence if error else ""


def _is_waited_for(plans: Sequence[Plan], is_filled: bool, deadline: float) -> bool:
    """Return whether a model is locked, perhaps not for long. Raises what keeps others behind.

    With `is_filled` no model over models is.
    """
    is_locked = not is_filled or any(each.is_locked for each in plans)
    if is_locked and time.monotonic() < deadline:
        return True
    if errors := [error for each in plans if (error := each.state.error)]:
        raise combine(errors)
    return False


def _step(
    spark: SparkSession,
    target: TargetSession,
    settings: ApplySettings,
    plans: Sequence[Plan],
    report: Report,
) -> bool:
    """Apply one batch to the models; return whether any holds more now.

    One that does not has failed, or another job, a seed or dbt holds it at this moment.
    """
    begun = time.monotonic()
    end = batch.end_of(target, settings, plans)
    together = [each for each in plans if each.is_rebuild or each.from_lsn < end]
    made = batch.compute(spark, target, together, end)
    failpoints.reach("computed")
    added = [each for each in made.computed if batch.add(target, made, each)]
    if added:
        names = tuple(each.plan.model.name for each in added)
        most = max(each.changes for each in added)
        report(Applied(names, end, most, time.monotonic() - begun))
    return bool(added)


app = Job("What was applied before is intact; run it again to go on.")


@app.command()
def run(
    source: Source = "",
    target: Target = "",
    slot: Slot = DEFAULT_SLOT,
    schema: Schema = DEFAULT_SCHEMA,
    model: Models = None,
    once: Once = False,
    interval: Annotated[
        float, typer.Option(min=0.01, help="Seconds to wait when nothing is staged.")
    ] = 1.0,
    max_changes: MaxChanges = MAX_CHANGES,
) -> None:
    """Apply what is staged to the models that say engine='spark'.

    For instance: spark-submit spark/apply.py --interval 5 --model ft_service_stats
    """

    def report(event: Applied | LoaderError) -> None:
        if isinstance(event, LoaderError):
            print_status(event.sentence)
        else:
            print_lines([event.line()])

    stop = Stop(*STOPS)
    apply(
        ApplySettings(
            *(target or source, slot, schema, tuple(model or ())),
            *(None if once else interval, max_changes),
        ),
        report,
        stop,
    )
    if stop.wait(0):
        # Where spark-submit's Java is gone, nobody reads it.
        with contextlib.suppress(OSError):
            print_status("ended as it was told to; what was applied is intact")
