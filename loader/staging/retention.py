"""Which partitions of the change log nobody needs any more, and who needs the others. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from loader.staging.layout import Block
from loader.staging.log_consumers import Archive, Consumers, Model
from loader.staging.records import SlotPosition
from loader.staging.units import duration, size
from waltally import lsn
from waltally.tables import Table, literal

State = Literal["attached", "pending", "detached"]
"""Pending: a detach has begun and waits for sessions that were reading the log before."""

_STILL_SECONDS = 86_400
"""A slot that has not moved for so long may be one that nobody follows any more."""


@dataclass(frozen=True)
class Partition:
    """A partition of the change log, of `size` bytes with its indexes.

    `age` is its newest row's in seconds, None without rows.
    """

    block: Block
    state: State
    size: int
    age: float | None
    rows: int = 0
    rows_estimated: bool = False
    is_pruned: bool = False
    """Whether a prune has marked it. Nobody needs its rows since then."""

    @property
    def name(self) -> str:
        """The table's name in the staging schema."""
        return self.block.name

    @property
    def from_lsn(self) -> int:
        """The first position that belongs to it."""
        return self.block.from_lsn

    @property
    def to_lsn(self) -> int:
        """The first position that belongs to the next."""
        return self.block.to_lsn


@dataclass(frozen=True)
class Blocker:
    """Why a partition is kept, and the remedy where there is one."""

    reason: str
    remedy: str = ""


def plan(
    partitions: Sequence[Partition], consumers: Consumers, keep: float
) -> Iterator[tuple[Partition, list[Blocker]]]:
    """Yield each partition, the oldest first, with its blockers; without any it may be dropped.

    `keep` is in seconds. A partition is dropped only when all older ones are, so that the log has
    no gap.
    """
    last = max((each.block for each in partitions if each.state == "attached"), default=None)
    is_held = False
    for partition in sorted(partitions, key=lambda each: each.block):
        if partition.state != "attached":
            found = find_detached_blockers(partition, consumers)
        elif partition.block == last:
            found = [Blocker(_newest(partition))]
        else:
            found = find_blockers(partition, consumers, keep)
            if is_held and not found:
                found = [Blocker("an older partition is kept")]
            is_held = is_held or bool(found)
        yield partition, found


def _newest(partition: Partition) -> str:
    what = " and empty" if partition.age is None else ""
    return f"it is the newest partition{what}: the log goes on in it"


def find_detached_blockers(partition: Partition, consumers: Consumers) -> list[Blocker]:
    """Return which slots still need a partition that is detached or being detached.

    A prune moves start_lsn before it detaches, so such a partition was detached by somebody else.
    """
    table, log = (Table(consumers.schema, name).quoted for name in (partition.name, "change_log"))
    drop = f"drop table {table};"
    if not partition.is_pruned:
        attach = attach_sql(table, log, partition.block)
        drop = f"{attach} -- or, only where its rows are of no use: {drop}"
    return [
        Blocker(
            f"it is detached, but the log of slot {slot.slot_name} starts before its end, "
            f"at {lsn.show(slot.start_lsn)}",
            drop,
        )
        for slot in consumers.slots_starting_before(partition.to_lsn)
    ]


def attach_sql(table: str, log: str, block: Block) -> str:
    """Return the SQL that makes a table a partition of the log again; names in quotes."""
    first, end = lsn.show(block.from_lsn), lsn.show(block.to_lsn)
    return f"alter table {log} attach partition {table} for values from ('{first}') to ('{end}');"


def find_blockers(partition: Partition, consumers: Consumers, keep: float) -> list[Blocker]:
    """Return everything that keeps an attached partition."""
    found = []
    for slot in consumers.slots_starting_before(partition.to_lsn):
        found += _slot_blockers(partition, slot, consumers) or [
            *_model_blockers(partition, slot, consumers),
            *_reader_blockers(partition, slot, consumers),
            *_rebuild_blockers(partition, slot, consumers),
        ]
    if partition.age is not None and partition.age < keep:
        found.append(
            Blocker(f"its newest row is {duration(partition.age)} old, --keep is {duration(keep)}")
        )
    return found


def _slot_blockers(partition: Partition, slot: SlotPosition, consumers: Consumers) -> list[Blocker]:
    if slot.position_lsn >= partition.to_lsn:
        return []
    name = slot.slot_name
    still = consumers.still_seconds.get(name, 0.0)
    if still >= _STILL_SECONDS:
        return [
            Blocker(
                f"slot {name} is at {lsn.show(slot.position_lsn)}, where it has been for "
                f"{duration(still)}, and may still write to it",
                f"`loader run --slot {name}`; or, only where its source is gone for good: "
                f"`loader teardown --slot {name}`",
            )
        ]
    rest = size(partition.to_lsn - slot.position_lsn)
    return [Blocker(f"slot {name} still writes to it: it ends after {rest} more of WAL")]


def _model_blockers(
    partition: Partition, slot: SlotPosition, consumers: Consumers
) -> list[Blocker]:
    """Whatever it waits for, a model needs what it has not applied; a rebuild begins elsewhere."""
    return [
        Blocker(_said(model), _catch_up(model, consumers.schema))
        for model in consumers.models_of(slot)
        if not (model.applied_lsn is None and model.awaits_seed(slot))
        and _begin(model, slot) < partition.to_lsn
    ]


def _begin(model: Model, slot: SlotPosition) -> int:
    if model.applied_lsn is not None and not model.is_rebuilt:
        return model.applied_lsn
    return slot.start_lsn if model.baseline_lsn is None else model.baseline_lsn


def _said(model: Model) -> str:
    name = model.name if model.exists else f"{model.name}, which does not exist,"
    if model.applied_lsn is None:
        said = f"{name} has applied nothing of slot {model.slot}"
    else:
        said = f"{name} has applied slot {model.slot} only up to {lsn.show(model.applied_lsn)}"
    return f"{said}: {model.reason}" if model.reason else said


def _catch_up(model: Model, schema: str) -> str:
    remedy = model.remedy or "`loader run --build` or `dbt build`"
    if model.exists or model.applied_lsn is None:
        return remedy
    key = f"model_name = {literal(model.name)} and slot_name = {literal(model.slot)};"
    tables = (Table(schema, name).quoted for name in ("installed_model", "model_watermark"))
    forget = " ".join(f"delete from {table} where {key}" for table in tables)
    return f"{remedy}; or, if the model is gone for good: {forget}"


def _reader_blockers(
    partition: Partition, slot: SlotPosition, consumers: Consumers
) -> list[Blocker]:
    table = Table(consumers.schema, "reader_position").quoted
    return [
        Blocker(
            f"the reader {reader.name} has read slot {reader.slot} only up to "
            f"{lsn.show(reader.applied_lsn)}",
            "let it read on; or, if it is gone for good: "
            f"delete from {table} where slot_name = {literal(reader.slot)} "
            f"and reader = {literal(reader.name)};",
        )
        for reader in consumers.readers
        if reader.slot == slot.slot_name and reader.applied_lsn < partition.to_lsn
    ]


def _rebuild_blockers(
    partition: Partition, slot: SlotPosition, consumers: Consumers
) -> list[Blocker]:
    """A rebuild reads the log from the fact's baseline on, unless an archive has that part."""
    first = max(partition.from_lsn, slot.start_lsn)
    archives = [each for each in consumers.archives if each.slot == slot.slot_name]
    if any(each.from_lsn <= first and each.to_lsn >= partition.to_lsn for each in archives):
        return []
    lacking, archive = _lacking(archives, first, partition.to_lsn)
    return [
        Blocker(
            f"a rebuild of {model.name} from slot {slot.slot_name} needs it: there is "
            + (
                "no baseline"
                if model.baseline_lsn is None
                else f"a baseline at {lsn.show(model.baseline_lsn)}"
            )
            + f" and {lacking}",
            f"{archive}; or count again, `spark-submit spark/seed.py --fact {model.fact}`",
        )
        for model in consumers.models_of(slot)
        if not model.awaits_seed(slot)
        and (model.baseline_lsn is None or model.baseline_lsn < partition.to_lsn)
    ]


def _lacking(archives: Sequence[Archive], first: int, end: int) -> tuple[str, str]:
    """Return what the archives lack of these positions, and the command that archives it."""
    growing = [each for each in archives if each.from_lsn <= first]
    if not growing:
        # An archive that begins later can only go on from where it ends.
        late = "".join(
            f"; {each.place} has only what is after {lsn.show(each.from_lsn)}" for each in archives
        )
        return f"no archive of it{late}", "`spark-submit spark/archive.py --to FOLDER`, a new one"
    newest = max(growing, key=lambda each: each.to_lsn)
    return (
        f"the archive in {newest.place} lacks {size(end - max(first, newest.to_lsn))} of WAL "
        f"from {lsn.show(max(first, newest.to_lsn))} on",
        f"`spark-submit spark/archive.py --to {shlex.quote(newest.place)}`",
    )
