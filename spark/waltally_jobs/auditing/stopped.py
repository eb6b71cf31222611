"""Stops the models at a snapshot of the source, until the warehouse's own snapshot is taken."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from psycopg2 import errors
from pyspark.sql import SparkSession

from loader.source import slot_admin
from waltally import locks, lsn
from waltally.database import Connection
from waltally.errors import CannotConnect, Interrupted, SettingError
from waltally.models import Model
from waltally_jobs.applying import batch
from waltally_jobs.applying.batch import ApplySettings
from waltally_jobs.common import changes
from waltally_jobs.common.command import Settings
from waltally_jobs.common.connections import TargetSession, one_moment
from waltally_jobs.common.errors import AuditIncomplete, SnapshotBlocked
from waltally_jobs.common.progress import polls, print_status
from waltally_jobs.common.session import Sessions
from waltally_jobs.evaluation import snapshot
from waltally_jobs.evaluation.snapshot import ExportedSnapshot
from waltally_jobs.warehouse import loader_progress
from waltally_jobs.warehouse.model import bring_on

_FEW_CHANGES = 100_000
"""Up to here one core is done in two seconds."""
_APPLYING: tuple[locks.Kind, ...] = ("slot", "computed")


def open_snapshots(
    stack: contextlib.ExitStack,
    work: Sessions,
    warehouse: TargetSession,
    models: Sequence[Model],
) -> tuple[ExportedSnapshot, Callable[[], None]]:
    """Return a snapshot of the models' tables; `warehouse` reads as of a moment with them there.

    Both live as long as the stack, the first one until the function beside it is called. Apply by
    others is held meanwhile, for `settings.hold` seconds a try. A model that has not come there is
    not at the snapshot's position.
    Raises SnapshotBlocked or AuditIncomplete after `settings.timeout` seconds.
    """
    settings, target, source = work.settings, work.target, work.source
    deadline = time.monotonic() + settings.timeout
    while True:
        _wait_for_long_writers(source, settings, deadline)
        # What is left to stage and to apply while others are held is little then.
        loader_progress.emit_message(source)
        ((end,),) = source.ask("select pg_current_wal_insert_lsn()::text")
        loader_progress.wait_for_position(target, settings, lsn.parse(end))
        with _not_for_ever(warehouse, settings):
            bring_on(warehouse, models, deadline)
        with contextlib.ExitStack() as opened:
            reading = opened.enter_context(contextlib.ExitStack())
            try:
                with _held(warehouse, settings) as until:
                    exported = _exported(reading, work, models)
                    bring_on(warehouse, models, until, position=exported.position)
                    _compute(work.spark, warehouse, settings, models, exported.position)
                    exported.watch.holds(warehouse)
                    opened.enter_context(one_moment(warehouse))
                stack.enter_context(opened.pop_all())
                return exported, reading.close
            except (SnapshotBlocked, AuditIncomplete) as error:
                if time.monotonic() > deadline:
                    raise type(error)(
                        f"{error} (at each try for {settings.timeout:.0f} s; --hold lets one last"
                        " longer)",
                        error.remedy,
                    ) from None
                print_status(f"{error}; others apply again before the next try")


def _exported(
    opened: contextlib.ExitStack, work: Sessions, models: Sequence[Model]
) -> ExportedSnapshot:
    """Return a snapshot whose changes the loader has staged; both within the time of a try."""
    until = time.monotonic() + work.settings.hold
    hasty = replace(work.settings, timeout=work.settings.hold)
    exported = opened.enter_context(snapshot.export(hasty, models, work.source))
    loader_progress.emit_message(work.source)
    left = replace(hasty, timeout=max(until - time.monotonic(), 0.0))
    loader_progress.wait_for_position(work.target, left, exported.position)
    return exported


def _compute(
    spark: SparkSession,
    warehouse: TargetSession,
    settings: Settings,
    models: Sequence[Model],
    position: int,
) -> None:
    """Bring the models that Spark applies to the position, where little is left to do."""
    relations = {model.relation for model in models}
    own = ApplySettings(settings.target, settings.slot, settings.schema)
    with contextlib.suppress(SettingError):  # there is none
        due = [
            plan
            for plan in batch.read(warehouse, own)
            if plan.model.relation in relations
            and plan.is_due(position)
            and not plan.is_rebuild
            and changes.count(warehouse, plan.from_lsn, position) <= _FEW_CHANGES
        ]
        if due:
            made = batch.compute(spark, warehouse, due, position)
            for each in made.computed:
                batch.add(warehouse, made, each)


@contextlib.contextmanager
def _held(warehouse: TargetSession, settings: Settings) -> Iterator[float]:
    """Let nobody else bring the slot's models further within the block; yield until when at most.

    Whoever calls cdc.apply waits, and spark/apply.py, and this session does not. Raises
    AuditIncomplete.
    """
    begun = time.monotonic()
    try:
        with _not_for_ever(warehouse, settings):
            for kind in _APPLYING:
                locks.hold(warehouse, kind, warehouse.slot)
        begun = time.monotonic()
        yield begun + settings.hold
    finally:
        with contextlib.suppress(CannotConnect, Interrupted):
            warehouse.ask("select pg_advisory_unlock_all()")
        print_status(f"apply by others was held for {time.monotonic() - begun:.3f} s")


@contextlib.contextmanager
def _not_for_ever(warehouse: TargetSession, settings: Settings) -> Iterator[None]:
    """Wait within the block for a call of cdc.apply that others make, but not for ever.

    Raises AuditIncomplete.
    """
    warehouse.ask(f"set lock_timeout to '{settings.timeout:.0f}s'")
    try:
        yield
    except Interrupted as error:
        if not isinstance(error.__cause__, errors.LockNotAvailable):
            raise
        keys = [{"key": locks.key(kind, warehouse.slot)} for kind in _APPLYING]
        pids = ", ".join(str(pid) for key in keys for (pid,) in warehouse.ask(locks.HOLDERS, key))
        raise AuditIncomplete(
            f"after {settings.timeout:.0f} s another session still applies to the slot"
            f" {warehouse.slot}: pid {pids or 'unknown'}",
            f"let it end its transaction, then run the {settings.work} again",
        ) from None
    finally:
        warehouse.ask("set lock_timeout to 0")


def _wait_for_long_writers(source: Connection, settings: Settings, deadline: float) -> None:
    """Return once no transaction is older than a try: the snapshot would wait for it in vain.

    Raises SnapshotBlocked, which names those that are.
    """
    writers: slot_admin.Writers = []

    def overdue() -> SnapshotBlocked:
        return SnapshotBlocked(
            "a snapshot waits for every transaction that is writing,"
            f" {slot_admin.describe_writers(writers)}: longer than the {settings.hold:g} s for"
            " which an audit may hold cdc.apply",
            "let them end or end them; --hold lets a try last longer"
            + slot_admin.ends_of_prepared(writers),
        )

    def say() -> None:
        snapshot.print_waiting("writers", writers)

    for _ in polls(deadline, overdue, say, silent=0):
        writers = [
            writer
            for writer in source.ask(slot_admin.WRITERS, {"xids": None})
            # A role without pg_read_all_stats does not see the age.
            if writer[3] is not None and writer[3] > settings.hold
        ]
        if not writers:
            return
