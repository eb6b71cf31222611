"""The models that a slot follows, their source tables, and what its loader follows of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psycopg2.extras import Json

from loader.staging.logged_tables import Gap, Held, Root, from_row, to_row
from loader.staging.records import Registration
from waltally import locks, lsn
from waltally.database import Target
from waltally.errors import LoaderError
from waltally.models import Model
from waltally.tables import Table

# One statement: dbt may install a model between two.
_REGISTRATION = """
select
    {0}.models_version(log.slot_name),
    (
        select coalesce(jsonb_agg(logged order by logged.table_schema, logged.table_name), '[]')
        from {0}.logged_table as logged
        where logged.slot_name = log.slot_name
    ),
    (
        select coalesce(jsonb_agg(jsonb_build_array(
            model.model_name, model.relation_schema, model.relation_name, model.declaration
        ) order by model.model_name), '[]')
        from {0}.registered_model as model
        where model.slot_name = log.slot_name
    ),
    (
        select coalesce(jsonb_agg(distinct own.declaration), '[]')
        from {0}.installed_model as installed
        cross join lateral (
            select installed.declaration union all select installed.former -> 'declaration'
        ) as own
        where installed.slot_name = log.slot_name and own.declaration is not null
    )
from {0}.slot_position as log
where log.slot_name = %s
"""


def read_registration(target: Target) -> Registration:
    """Return what dbt has installed for the slot; nothing without a row. Raises LoaderError."""
    rows = target.ask_staging(_REGISTRATION, (target.slot,))
    if not rows:
        return Registration(0, (), {})
    ((models_version, stored, models, read_by),) = rows
    tables = {Table(row["table_schema"], row["table_name"]): row for row in stored}
    roots = {table: from_row(row) for table, row in tables.items()}
    return Registration(
        models_version,
        tuple(Model(name, Table(*relation), declared) for name, *relation, declared in models),
        {
            table: {name: lsn.parse(at) for name, at in row["held_since"].items()}
            for table, row in tables.items()
            if row["held_since"]
        },
        {table: root for table, root in roots.items() if root is not None},
        {table: row["fingerprint"] for table, row in tables.items()},
        tuple(Model("", Table("", ""), declared) for declared in read_by),
    )


def other_slot(target: Target, model: Model) -> str | None:
    """Return another slot that feeds the model, None where there is none. Raises LoaderError."""
    values = (target.slot, str(model.relation), model.name)
    ((other,),) = target.ask_staging("select {}.other_slot(%s, %s, %s)", values)
    return None if other is None else str(other)


def keep_applies_out(target: Target) -> None:
    """Wait for whoever applies for the slot; nobody begins until the open transaction ends.

    It would write down of the log, or of models, what is about to be taken back.
    """
    locks.wait(target, "slot", target.slot)
    installed = "select relation from {}.installed_model where slot_name = %s order by relation"
    for (model,) in target.ask_staging(installed, (target.slot,)):
        locks.wait(target, "model", model)


_FORGET_TABLES = """
delete from {0}.logged_table where slot_name = %(slot)s and (table_schema, table_name) not in (
    select table_schema, table_name from jsonb_populate_recordset(null::{0}.logged_table, %(rows)s)
)
"""
# Known values stay: the log holds changes of the former table too, and the loader
# compares the partitions with what it finds.
_REGISTER_TABLES = """
insert into {0}.logged_table as known
select * from jsonb_populate_recordset(null::{0}.logged_table, %(rows)s)
on conflict (slot_name, table_schema, table_name) do update set
    table_oid = coalesce(known.table_oid, excluded.table_oid),
    named_xid = coalesce(known.named_xid, excluded.named_xid),
    column_numbers = excluded.column_numbers || known.column_numbers,
    names = excluded.names,
    fingerprint = excluded.fingerprint || known.fingerprint,
    partitions = coalesce(known.partitions, excluded.partitions),
    lacks = excluded.lacks
"""
_FOLLOW = """
update {0}.logged_table as known set
    (held_since, fingerprint, partitions, emptied_lsn) = (
        now.held_since, now.fingerprint, now.partitions, now.emptied_lsn
    ),
    (gap_lsn, gap_event) = (
        coalesce(now.gap_lsn, known.gap_lsn), coalesce(now.gap_event, known.gap_event)
    )
from jsonb_populate_recordset(null::{0}.logged_table, %(rows)s) as now
where
    known.slot_name = %(slot)s
    and (known.table_schema, known.table_name) = (now.table_schema, now.table_name)
"""


def _row(
    target: Target, table: Table, root: Root | None, gap: Gap | None, **values: object
) -> dict[str, object]:
    """Return a row of logged_table as JSON."""
    return {
        **{"slot_name": target.slot, "table_schema": table.schema, "table_name": table.name},
        **({} if root is None else to_row(root)),
        **({} if gap is None else {"gap_lsn": lsn.show(gap.from_lsn), "gap_event": gap.event}),
        **values,
    }


_SEEN = "update {}.slot_position set catalog_lsn = %(seen)s where slot_name = %(slot)s"
_UNKNOWN: Mapping[str, Any] = {"column_numbers": {}, "fingerprint": {}}


def register_tables(
    target: Target,
    registered: Registration,
    identities: Mapping[str, Mapping[str, Any]],
    lacking: Mapping[Table, LoaderError],
    seen: int,
) -> None:
    """Make these the slot's tables, in the open transaction; forget all others.

    Those that are lacking something are not followed yet. They were like this up to the position
    `seen`.
    """
    rows = [
        _row(
            *(target, table, registered.leaves.get(table), None),
            **identities.get(str(table), _UNKNOWN),
            held_since={},
            lacks=None if (own := lacking.get(table)) is None else _lack(own),
        )
        for table in registered.tables
    ]
    values = {"slot": target.slot, "rows": Json(rows), "seen": lsn.show(seen)}
    for statement in (_FORGET_TABLES, _REGISTER_TABLES, _SEEN):
        target.ask_staging(statement, values)


def _lack(finding: LoaderError) -> dict[str, str]:
    return {"reason": str(finding), "remedy": finding.remedy}


def write_shapes(target: Target, shapes: Mapping[Table, Mapping[str, object]]) -> None:
    """Write down how tables of the source are, for dbt to read queries over them."""
    write = (
        "insert into {}.source_table values (%s, %s, %s, %s)"
        " on conflict (slot_name, table_schema, table_name) do update set shape = excluded.shape"
    )
    for table, shape in shapes.items():
        target.ask_staging(write, (target.slot, table.schema, table.name, Json(shape)))


def write_followed(target: Target, registered: Registration, held: Held) -> None:
    """Write down what a session follows, in the open transaction."""
    rows = [
        _row(
            *(target, table, held.roots.get(table), held.gaps.get(table)),
            fingerprint=held.fingerprints.get(table, {}),
            held_since={name: lsn.show(at) for name, at in held.followed.get(table, {}).items()},
        )
        for table in registered.tables
    ]
    target.ask_staging(_FOLLOW, {"slot": target.slot, "rows": Json(rows)})
