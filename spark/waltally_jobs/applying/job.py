"""Applies from start to end: batch after batch, until the models hold what is staged."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from waltally import failpoints, lsn
from waltally.errors import LoaderError, combine
from waltally.options import Schema, Slot, Source, Target
from waltally.settings import DEFAULT_SCHEMA, DEFAULT_SLOT
from waltally_jobs.applying import batch
from waltally_jobs.applying.batch import FEW_CHANGES, MAX_CHANGES, ApplySettings, Plan
from waltally_jobs.common import session
from waltally_jobs.common.arrow import Start
from waltally_jobs.common.command import (
    DEFAULT_TIMEOUT,
    STOPS,
    AsJson,
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
    age: float | None
    """Seconds since the newest change was committed; None where there is none."""

    def line(self) -> str:
        """Return it as a sentence."""
        names, verb = ", ".join(self.models), "is" if len(self.models) == 1 else "are"
        rate = self.changes / max(self.seconds, 0.001)
        newest = "" if self.age is None else f"; the newest is {self.age:.1f} s old"
        return (
            f"{names} {verb} at {lsn.show(self.to_lsn)}: {self.changes:,} changes"
            f" in {self.seconds:.1f} s, {rate:,.0f} changes/s{newest}"
        )

    def as_json(self) -> dict[str, object]:
        """Return it for programs."""
        return {
            "models": list(self.models),
            "applied_lsn": lsn.show(self.to_lsn),
            "changes": self.changes,
            "seconds": round(self.seconds, 3),
            "newest_age_seconds": None if self.age is None else round(self.age, 3),
        }


Report = Callable[[Applied | LoaderError], None]
"""Is told of each batch, and of a model that waits or has failed whenever the reason is new."""


def apply(settings: ApplySettings, report: Report, stop: Stop | None = None) -> None:
    """Apply what is staged to the models that say engine='spark'; with an interval, until `stop`.

    Raises LoaderError: without an interval also where a model waits or has failed, once the others
    hold what was staged at the start.
    """
    stop = stop or Stop()
    with contextlib.ExitStack() as stack, spark_errors("apply"):
        target = stack.enter_context(contextlib.closing(connect_target(settings, "apply")))
        start = session.on_demand(stack, "apply", settings.timeout)
        if settings.interval is None:
            _once(start, target, settings, report, stop)
        else:
            _follow(start, target, settings, settings.interval, report, stop)


def _once(
    start: Start, target: TargetSession, settings: ApplySettings, report: Report, stop: Stop
) -> None:
    """Apply what is staged now."""
    end = target.position().position_lsn
    deadline = time.monotonic() + settings.timeout
    while not stop.wait(0):
        plans = batch.read(target, settings)
        due = [each for each in plans if each.is_due(end)]
        if due and not _step(start, target, settings, due, report):
            stop.wait(_PAUSE_SECONDS)
        batch.fill_downstream(target)
        if due:
            continue
        if any(each.is_locked for each in plans) and time.monotonic() < deadline:
            stop.wait(_PAUSE_SECONDS)
            continue
        if errors := [error for each in plans if (error := each.state.error)]:
            raise combine(errors)
        return


def _follow(
    start: Start,
    target: TargetSession,
    settings: ApplySettings,
    interval: float,
    report: Report,
    stop: Stop,
) -> None:
    """Apply all that comes, and look again every `interval` seconds."""
    said: dict[str, str] = {}
    while not stop.wait(0):
        plans = batch.read(target, settings)
        for each in plans:
            error = each.state.error
            if error and not each.is_ready and said.get(each.model.name) != error.sentence:
                report(error)
            said[each.model.name] = error.sentence if error else ""
        due = [each for each in plans if each.is_due(each.position)]
        has_applied = bool(due) and _step(start, target, settings, due, report)
        batch.fill_downstream(target)
        if not has_applied:
            stop.wait(_PAUSE_SECONDS if due else interval)


def _step(
    start: Start,
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
    made = batch.compute(start, target, settings.few_changes, together, end)
    failpoints.reach("computed")
    added = [each for each in made.computed if batch.add(target, made, each)]
    if added:
        names = tuple(each.plan.model.name for each in added)
        seconds, age = time.monotonic() - begun, batch.age_of(target, end)
        report(Applied(names, end, max(each.changes for each in added), seconds, age))
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
    ] = 0.1,
    max_changes: MaxChanges = MAX_CHANGES,
    in_driver: Annotated[
        int, typer.Option(min=0, help="A batch of up to so many changes needs no Spark job.")
    ] = FEW_CHANGES,
    timeout: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for an executor and for locks.")
    ] = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Apply what is staged to the models that say engine='spark'.

    For instance: spark-submit spark/apply.py --interval 5 --model ft_service_stats
    """

    def report(event: Applied | LoaderError) -> None:
        if isinstance(event, LoaderError):
            print_status(event.sentence)
        elif as_json:
            print_lines([json.dumps(event.as_json())])
        else:
            print_lines([event.line()])

    stop = Stop(*STOPS)
    apply(
        ApplySettings(
            *(target or source, slot, schema, tuple(model or ())),
            *(None if once else interval, max_changes, in_driver, timeout),
        ),
        report,
        stop,
    )
    if stop.wait(0):
        # Where spark-submit's Java is gone, nobody reads it.
        with contextlib.suppress(OSError):
            print_status("ended as it was told to; what was applied is intact")
