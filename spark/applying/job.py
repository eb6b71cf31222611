"""Applies from start to end: each fact by itself, until it holds what is staged."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import typer
from common import session
from common.command import DEFAULT_TIMEOUT, AsJson, Facts, Job
from common.connections import TargetSession, connect_target
from common.errors import spark_errors
from common.progress import print_lines, print_status
from pyspark.sql import SparkSession

from applying import batch
from applying.batch import MAX_CHANGES, ApplySettings, Plan
from waltally import lsn
from waltally.errors import LoaderError, combine
from waltally.options import Schema, Slot, Source, Target
from waltally.settings import DEFAULT_SCHEMA, DEFAULT_SLOT

_PAUSE_SECONDS = 0.5
"""Before a fact that could not be applied now is tried again."""


@dataclass(frozen=True)
class Applied:
    """A batch that a fact holds now."""

    fact: str
    from_lsn: int
    to_lsn: int
    seconds: float

    def line(self) -> str:
        """Return it as a sentence."""
        return (
            f"{self.fact} is at {lsn.show(self.to_lsn)}: {self.to_lsn - self.from_lsn:,} bytes of"
            f" WAL in {self.seconds:.1f} s"
        )

    def as_json(self) -> dict[str, object]:
        """Return it for programs."""
        return {
            "fact": self.fact,
            "from_lsn": lsn.show(self.from_lsn),
            "applied_lsn": lsn.show(self.to_lsn),
            "seconds": round(self.seconds, 3),
        }


Report = Callable[[Applied | LoaderError], None]
"""Is told of each batch, and of a fact that waits or has failed whenever the reason is new."""


def apply(settings: ApplySettings, report: Report) -> None:
    """Apply what is staged to the facts that say engine='spark'; with an interval, for ever.

    Raises LoaderError: without an interval also where a fact waits or has failed, once the others
    hold what was staged at the start.
    """
    with contextlib.ExitStack() as stack:
        target = stack.enter_context(contextlib.closing(connect_target(settings, "apply")))
        target.position()
        batch.read(target, settings)
        spark = stack.enter_context(session.running("apply", settings.timeout))
        with spark_errors("apply"):
            if settings.interval is None:
                _once(spark, target, settings, report)
            else:
                _follow(spark, target, settings, settings.interval, report)


def _once(
    spark: SparkSession, target: TargetSession, settings: ApplySettings, report: Report
) -> None:
    end = target.position().position_lsn
    deadline = time.monotonic() + settings.timeout
    while True:
        found = batch.read(target, settings)
        due = [each for each in found if each.is_due(end)]
        for each in due:
            _step(spark, target, settings, each, report)
        batch.fill_roll_ups(target)
        if due:
            continue
        if any(each.is_locked for each in found) and time.monotonic() < deadline:
            time.sleep(_PAUSE_SECONDS)
            continue
        errors = [error for each in found if (error := each.state.error)]
        if errors:
            raise combine(errors)
        return


def _follow(
    spark: SparkSession,
    target: TargetSession,
    settings: ApplySettings,
    interval: float,
    report: Report,
) -> None:
    said: dict[str, str] = {}
    while True:
        has_applied = False
        for each in batch.read(target, settings):
            error = each.state.error
            if error and not each.is_ready and said.get(each.fact.name) != error.sentence:
                report(error)
            said[each.fact.name] = error.sentence if error else ""
            if each.is_due(each.position):
                has_applied |= _step(spark, target, settings, each, report)
        batch.fill_roll_ups(target)
        if not has_applied:
            time.sleep(interval)


def _step(
    spark: SparkSession, target: TargetSession, settings: ApplySettings, plan: Plan, report: Report
) -> bool:
    """Apply one batch of a fact; return whether it holds more now."""
    begun = time.monotonic()
    end = batch.end_of(target, settings, plan)
    is_applied = batch.apply(spark, target, plan, end)
    if is_applied:
        report(Applied(plan.fact.name, plan.from_lsn, end, time.monotonic() - begun))
    else:
        # It failed, or another job, a seed or dbt holds it at this moment.
        time.sleep(_PAUSE_SECONDS)
    return is_applied


app = Job("What was applied before is intact; run it again to go on.")


@app.command()
def run(
    source: Source = "",
    target: Target = "",
    slot: Slot = DEFAULT_SLOT,
    schema: Schema = DEFAULT_SCHEMA,
    fact: Facts = None,
    once: Annotated[
        bool, typer.Option("--once", help="End once what is staged now is applied.")
    ] = False,
    interval: Annotated[
        float, typer.Option(min=0.01, help="Seconds of rest where nothing is staged.")
    ] = 1.0,
    max_changes: Annotated[
        int, typer.Option(min=1, help="Changes of a batch, about; a transaction goes whole.")
    ] = MAX_CHANGES,
    timeout: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for an executor and for locks.")
    ] = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Apply what is staged to the facts that say engine='spark'.

    For instance: spark-submit spark/apply.py --interval 5 --fact ft_service_stats
    """

    def report(event: Applied | LoaderError) -> None:
        if isinstance(event, LoaderError):
            print_status(event.sentence)
        elif as_json:
            print_lines([json.dumps(event.as_json())])
        else:
            print_lines([event.line()])

    apply(
        ApplySettings(
            target or source,
            slot,
            schema,
            tuple(fact or ()),
            None if once else interval,
            max_changes,
            timeout,
        ),
        report,
    )
