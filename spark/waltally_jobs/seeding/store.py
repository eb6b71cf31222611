"""Takes the counted groups into a table beside the baselines, and then puts them in their place."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from loader.source import table_identity
from loader.source.table_identity import TableIdentities
from loader.staging.records import SlotPosition
from waltally import locks, lsn
from waltally.errors import SettingError
from waltally.models import Model
from waltally_jobs.common.command import Settings
from waltally_jobs.common.connections import TargetSession
from waltally_jobs.common.errors import AnotherSeed, CountingFailed
from waltally_jobs.common.progress import print_status
from waltally_jobs.evaluation import checks, tables
from waltally_jobs.seeding import ignored_deletes
from waltally_jobs.seeding.ignored_deletes import IgnoredDeletes, summed


@dataclass(frozen=True)
class Rejection:
    """Rows of one part of a model that cannot be counted for one reason, with one example."""

    part: str
    reason: str
    row_count: int
    example: dict[str, str]


@dataclass(frozen=True)
class StoredBaseline:
    """A model's stored baseline: how many rows were counted, and groups of each of its tables."""

    rows: int
    groups: int
    rejections: list[Rejection]
    ignored: IgnoredDeletes


@dataclass(frozen=True)
class Counted:
    """What was counted: where, and which tables the names meant there."""

    snapshot_lsn: int
    identities: TableIdentities | None = None
    slot: SlotPosition | None = None
    """The slot's row when the seed began."""
    gaps: Mapping[str, int] = field(default_factory=dict)
    """As seeding.ignored_deletes.wait says."""
    written: Mapping[int, int] = field(default_factory=dict)
    """By attempt how many rows of the incoming table are what was counted."""
    baseline_id: uuid.UUID = field(default_factory=uuid.uuid4)


@contextlib.contextmanager
def acquire_seed_lock(
    target: TargetSession, settings: Settings, models: Sequence[Model]
) -> Iterator[None]:
    """Keep other seeds of the slot away, and make an empty incoming table for the block.

    Waits `settings.timeout` seconds for another seed, then raises AnotherSeed. So no seed takes its
    snapshot before another one has stored a baseline that it would replace.
    """
    names = (target.schema, target.slot)
    if not locks.acquire(target, "seed", *names):
        print_status(f"waiting for another seed of slot {target.slot}")
        if not locks.acquire(target, "seed", *names, seconds=settings.timeout):
            raise AnotherSeed(
                f"another seed of slot {target.slot} is running",
                "let it end, then run the seed again, or raise --timeout",
            )
    for model in models:
        # model_state says that a seed is counting it, and asks for no other one.
        locks.share(target, "seeding", target.slot, str(model.relation))
    with tables.made(target, [tables.GROUPS]) as (target.incoming,):
        # Rows of no group are few among millions of groups.
        index = f"create index on {target.incoming.quoted} (model, reason)"
        target.ask(f"{index} where reason is not null")
        yield


def keep_log(target: TargetSession, models: Sequence[Model], position: int) -> None:
    """Let no prune take what comes after the position, while the seed has its locks.

    Raises BeginAgain where one has.
    """
    with target.transaction():
        # A prune, which locks the log, ends before this or sees the row.
        target.ask_staging("lock table {}.change_log in access share mode")
        checks.not_older(target, models, position)
        target.ask_staging(
            "insert into {}.reader_position (slot_name, reader, applied_lsn)"
            " values (%s, 'spark/seed.py', %s) on conflict (slot_name, reader)"
            " do update set applied_lsn = excluded.applied_lsn, moved_at = now()",
            (target.slot, lsn.show(position)),
        )


def keep(target: TargetSession, written: Mapping[int, int]) -> None:
    """Keep only what these attempts have written, so many rows each. Raises CountingFailed."""
    incoming = target.incoming.quoted
    ((stored, others),) = target.ask(
        "select count(*) filter (where attempt = any(%(known)s)),"
        f" count(*) filter (where attempt <> all(%(known)s)) from {incoming}",
        {"known": [*written]},
    )
    if others:
        target.ask(f"delete from {incoming} where attempt <> all(%s)", ([*written],))
    if stored != sum(written.values()):
        raise CountingFailed(
            f"Spark reports {sum(written.values()):,} groups and {stored:,} are stored",
            "run the seed again",
        )


def replace(
    target: TargetSession, settings: Settings, models: Sequence[Model], counted: Counted
) -> dict[str, StoredBaseline]:
    """Replace the baselines of these models, and of no other, by what is in the incoming table.

    Ignored deletes are added to the counted rows of their group. Returns by model what is stored.
    Raises CountingFailed, SnapshotTooOld, and NotSetUp where the slot was torn down
    meanwhile.
    """
    with target.transaction():
        ignored_deletes.keep_still(target, models)
        slot = target.position()
        before = counted.slot or slot
        origins = {(each.system_identifier, each.source_database) for each in (before, slot)}
        if len(origins) > 1 or before.timeline not in (None, slot.timeline):
            raise CountingFailed(
                "the loader went over to another server while the seed was counting",
                "run the seed again",
            )
        refuse_changed(target, models)
        # Again: the log may have begun anew meanwhile.
        checks.not_older(target, models, counted.snapshot_lsn, is_counted=True)
        # A task that Spark has given up may have committed since. From here on none can.
        target.ask(f"lock table {target.incoming.quoted} in share mode")
        keep(target, counted.written)
        return {
            model.name: _replace_one(target, settings, model, counted, slot.system_identifier)
            for model in models
        }


def refuse_changed(target: TargetSession, models: Sequence[Model]) -> None:
    """Raise CountingFailed where a declaration is another one now; keep the others from changing.

    A baseline that was counted by another declaration would leave its model waiting for a new one.
    """
    # dbt takes it to install a model.
    target.ask(
        f"select pg_advisory_xact_lock({target.table('lock_key')}("
        f"'reader', {target.table('reader_name')}(%s)))",
        (target.slot,),
    )
    names = [model.name for model in models]
    try:
        now = target.registered_models(names)
    except SettingError:
        now = []
    declared = {model.name: model for model in now}
    changed = [model.name for model in models if declared.get(model.name) != model]
    if changed:
        raise CountingFailed(
            f"dbt changed the query of {', '.join(changed)} while the seed was counting",
            "run the seed again",
        )


def _replace_one(
    target: TargetSession, settings: Settings, model: Model, counted: Counted, system: str
) -> StoredBaseline:
    incoming = target.incoming.quoted
    groups = target.table("baseline_group")
    this = (target.slot, model.name)
    target.ask(f"delete from {groups} where slot_name = %s and model_name = %s", this)
    position = counted.snapshot_lsn
    ignored = ignored_deletes.settle(
        target, settings, model, position, counted.gaps.get(model.name)
    )
    counted_rows = f"{incoming} where model = %(model)s and reason is null"
    totals = target.ask(
        "select sum(row_count)::bigint, count(*), min(attempt) = max(attempt)"
        f" from {counted_rows} group by part",
        {"model": model.name},
    )
    counts = f"select part, dimensions, sums from {counted_rows}"
    # One query gives a part's group once, and to add up two million of them takes 20 s.
    is_added_up = bool(ignored.groups) or not all(is_of_one_query for *_, is_of_one_query in totals)
    if ignored.groups:
        known_deletes = ignored_deletes.of_model(target, model, position)
        counts += f" union all select part, dimensions, measures::text[] {known_deletes}"
    elif not is_added_up:
        counts += " and row_count <> 0"
    query = "select %(slot)s, %(model)s, part, dimensions, "
    if (ordinal := model.counting_ordinal) is None or not is_added_up:
        query += f"sums::numeric[] from ({counts}) as together"
    else:
        # A query is evaluated range by range, and a group may have rows in several. Each number is
        # cast where it is added: a cast of the whole array would be made once for each.
        query += (
            f"{summed(model, 'sum(sums[{}]::numeric)')} from ({counts}) as together"
            f" group by part, dimensions having sum(sums[{ordinal + 1}]::numeric) <> 0"
        )
    target.ask(
        f"insert into {groups} (slot_name, model_name, part, dimensions, measures) {query}",
        {"slot": target.slot, "model": model.name},
    )
    rejections = _store_uncounted(target, model)
    known = counted.identities
    target.ask(
        f"insert into {target.table('baseline')} (slot_name, model_name,"
        " baseline_id, declaration, snapshot_lsn, system_identifier, table_identities,"
        f" major_version) values (%s, %s, %s, %s, %s, %s, %s, {target.table('major_version')}())"
        " on conflict (slot_name, model_name) do update set"
        " baseline_id = excluded.baseline_id, declaration = excluded.declaration,"
        " snapshot_lsn = excluded.snapshot_lsn, system_identifier = excluded.system_identifier,"
        " counted_at = now(), table_identities = excluded.table_identities,"
        " major_version = excluded.major_version",
        (
            *this,
            str(counted.baseline_id),
            json.dumps(model.declaration),
            lsn.show(counted.snapshot_lsn),
            system,
            None if known is None else json.dumps(table_identity.of_model(known, model)),
        ),
    )
    rows, group_count = (sum(row[ordinal] for row in totals) for ordinal in (0, 1))
    return StoredBaseline(rows, group_count, rejections, ignored)


def _store_uncounted(target: TargetSession, model: Model) -> list[Rejection]:
    """Store what cannot be counted, and return it."""
    rejections = target.table("baseline_rejection")
    this = (target.slot, model.name)
    target.ask(f"delete from {rejections} where slot_name = %s and model_name = %s", this)
    listed = target.ask(
        f"insert into {rejections} (slot_name, model_name, part, reason, row_count, example)"
        " select %s, model, part, reason, sum(row_count), min(example)::jsonb"
        f" from {target.incoming.quoted} where model = %s and reason is not null"
        " group by model, part, reason having sum(row_count) > 0"
        " returning part, reason, row_count, example",
        this,
    )
    return sorted(
        (Rejection(part, reason, int(count), example) for part, reason, count, example in listed),
        key=lambda each: (each.part, each.reason),
    )
