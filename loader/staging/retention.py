"""Which partitions of the change log nobody needs any more, and who needs the others. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from loader.staging.layout import partition_bounds, partition_name
from loader.staging.log_consumers import Consumers, Watermark
from loader.staging.records import SlotPosition
from waltally import lsn
from waltally.errors import SettingError
from waltally.tables import Table, literal

State = Literal["attached", "pending", "detached"]
"""Pending: a detach has begun and waits for sessions that were reading the log before."""

_AGE = re.compile(r"(\d+)([smhdw])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@dataclass(frozen=True)
class Partition:
    """A partition of the change log; `age` is its newest row's in seconds, None without rows."""

    number: int
    state: State
    size: int
    age: float | None
    is_pruned: bool = False
    """Whether a prune has marked it. Nobody needs its rows since then."""

    @property
    def name(self) -> str:
        """The table's name in the staging schema."""
        return partition_name(self.number)

    @property
    def from_lsn(self) -> int:
        """The first position that belongs to it."""
        return partition_bounds(self.number)[0]

    @property
    def to_lsn(self) -> int:
        """The first position that belongs to the next."""
        return partition_bounds(self.number)[1]


@dataclass(frozen=True)
class Blocker:
    """Why a partition is kept, and the remedy where there is one."""

    reason: str
    remedy: str = ""


def parse_age(text: str) -> int:
    """Return the seconds of an age such as `7d`. Raises SettingError."""
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise SettingError(
            f"--keep is {text!r}: not a number with s, m, h, d or w", "--keep 7d keeps seven days"
        )
    return int(match[1]) * _UNITS[match[2]]


def show_age(seconds: float) -> str:
    """Return an age in the largest unit that it fills."""
    unit = next((u for u in ("d", "h", "m") if seconds >= _UNITS[u]), "s")
    return f"{seconds / _UNITS[unit]:.3g}{unit}"


def plan(
    partitions: Sequence[Partition], consumers: Consumers, keep: float
) -> Iterator[tuple[Partition, list[Blocker]]]:
    """Yield each partition, the oldest first, with its blockers; without any it may be dropped.

    `keep` is in seconds. A partition is dropped only when all older ones are, so that the log has
    no gap.
    """
    last = max((each.number for each in partitions if each.state == "attached"), default=None)
    is_held = False
    for partition in sorted(partitions, key=lambda each: each.number):
        if partition.state != "attached":
            found = find_detached_blockers(partition, consumers)
        elif partition.number == last:
            found = [Blocker("it is the newest partition")]
        else:
            found = find_blockers(partition, consumers, keep)
            if is_held and not found:
                found = [Blocker("an older partition is kept")]
            is_held = is_held or bool(found)
        yield partition, found


def find_detached_blockers(partition: Partition, consumers: Consumers) -> list[Blocker]:
    """Return which slots still need a partition that is detached or being detached.

    A prune moves start_lsn before it detaches, so such a partition was detached by somebody else.
    """
    table, log = (Table(consumers.schema, name).quoted for name in (partition.name, "change_log"))
    drop = f"drop table {table};"
    if not partition.is_pruned:
        bounds = (lsn.show(partition.from_lsn), lsn.show(partition.to_lsn))
        attach = attach_sql(table, log, bounds)
        drop = f"{attach} -- or, only where its rows are of no use: {drop}"
    return [
        Blocker(
            f"it is detached, but the log of slot {slot.slot_name} starts before its end, "
            f"at {lsn.show(slot.start_lsn)}",
            drop,
        )
        for slot in consumers.slots_starting_before(partition.to_lsn)
    ]


def attach_sql(table: str, log: str, bounds: tuple[str, str]) -> str:
    """Return the SQL that makes a table a partition of the log again; names in quotes."""
    first, end = bounds
    return f"alter table {log} attach partition {table} for values from ('{first}') to ('{end}');"


def find_blockers(partition: Partition, consumers: Consumers, keep: float) -> list[Blocker]:
    """Return everything that keeps an attached partition."""
    found = []
    for slot in consumers.slots_starting_before(partition.to_lsn):
        found += _slot_blockers(partition, slot) or [
            *_model_blockers(partition, slot, consumers),
            *_rebuild_blockers(partition, slot, consumers),
        ]
    if partition.age is not None and partition.age < keep:
        found.append(
            Blocker(f"its newest row is {show_age(partition.age)} old, --keep is {show_age(keep)}")
        )
    return found


def _slot_blockers(partition: Partition, slot: SlotPosition) -> list[Blocker]:
    if slot.position_lsn >= partition.to_lsn:
        return []
    name = slot.slot_name
    return [
        Blocker(
            f"slot {name} is at {lsn.show(slot.position_lsn)} and may still write to it",
            f"loader run for slot {name}, if it does not run; only where the source has no "
            f"such slot any more and nobody will renew it: loader teardown --slot {name}",
        )
    ]


def _model_blockers(
    partition: Partition, slot: SlotPosition, consumers: Consumers
) -> list[Blocker]:
    marks = [mark for mark in consumers.watermarks if mark.slot == slot.slot_name]
    built = {mark.model for mark in marks}
    unbuilt = [
        fact
        for fact in consumers.facts_of(slot)
        if fact.relation not in built
        and not fact.awaits_seed
        and (fact.baseline_lsn is None or fact.baseline_lsn < partition.to_lsn)
    ]
    return [
        *(
            Blocker(f"{fact.name} has applied nothing of slot {slot.slot_name}", "dbt build")
            for fact in unbuilt
        ),
        *(
            Blocker(
                f"{mark.model}{'' if mark.exists else ', which does not exist,'} has applied slot "
                f"{slot.slot_name} only up to {lsn.show(mark.applied_lsn)}",
                _catch_up(mark, consumers.schema),
            )
            for mark in marks
            if mark.applied_lsn < partition.to_lsn
        ),
    ]


def _catch_up(mark: Watermark, schema: str) -> str:
    if mark.awaits_seed_of is not None:
        return f"spark-submit spark/seed.py --fact {mark.awaits_seed_of}; then dbt build"
    return "dbt build" if mark.exists else _delete_watermark_sql(mark, schema)


def _delete_watermark_sql(mark: Watermark, schema: str) -> str:
    table = Table(schema, "model_watermark").quoted
    return (
        f"if the model is gone for good: delete from {table} "
        f"where model_name = {literal(mark.model)} and slot_name = {literal(mark.slot)};"
    )


def _rebuild_blockers(
    partition: Partition, slot: SlotPosition, consumers: Consumers
) -> list[Blocker]:
    """A rebuild reads the log from the fact's baseline on, unless an archive has that part."""
    first = max(partition.from_lsn, slot.start_lsn)
    if any(
        each.slot == slot.slot_name and each.from_lsn <= first and each.to_lsn >= partition.to_lsn
        for each in consumers.archives
    ):
        return []
    return [
        Blocker(
            f"a rebuild of {fact.name} from slot {slot.slot_name} needs it: there is "
            + (
                "no baseline"
                if fact.baseline_lsn is None
                else f"a baseline at {lsn.show(fact.baseline_lsn)}"
            )
            + " and no archive of it",
            "spark-submit spark/seed.py, or spark-submit spark/archive.py",
        )
        for fact in consumers.facts_of(slot)
        if not fact.awaits_seed
        and (fact.baseline_lsn is None or fact.baseline_lsn < partition.to_lsn)
    ]
