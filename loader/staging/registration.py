"""The registered models and source tables of a slot, and what its loader follows for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from psycopg2.extras import Json

from loader.staging.difference import Difference
from loader.staging.logged_tables import Gap, Held, Root, from_row, to_row
from loader.staging.records import Registration
from waltally import locks, lsn
from waltally.database import Target
from waltally.errors import Interrupted
from waltally.models import Model
from waltally.tables import Table

# One statement: a setup may come between two.
_REGISTRATION = """
select
    log.registration,
    (
        select coalesce(jsonb_agg(logged order by logged.table_schema, logged.table_name), '[]')
        from {0}.logged_table as logged
        where logged.slot_name = log.slot_name
    ),
    registered_model.declared_name,
    registered_model.relation_schema,
    registered_model.relation_name,
    registered_model.declaration,
    registered_model.project_name
from {0}.slot_position as log
left join {0}.registered_model using (slot_name)
where log.slot_name = %s
order by registered_model.declared_name
"""

_REGISTER = """
insert into {}.registered_model (
    slot_name, declared_name, declaration, needed, reading, relation_schema, relation_name
)
values (%s, %s, %s, %s, %s, %s, %s)
on conflict (slot_name, declared_name) do update set
    declaration = excluded.declaration,
    needed = excluded.needed,
    reading = excluded.reading,
    relation_schema = excluded.relation_schema,
    relation_name = excluded.relation_name,
    registered_at = now()
"""
_MODELS = """
select known.relation_schema || '.' || known.relation_name from {0}.registered_model as known
where known.slot_name = %(slot)s and known.declared_name = %(model)s
union
select installed.model_name from {0}.installed_model as installed
where installed.slot_name = %(slot)s and installed.declared_name = %(model)s
"""
_FORGET = "delete from {}.{} where slot_name = %(slot)s and "
_OF_RELATIONS = ("model_watermark", "archived_delete", "computed_change", "installed_model")
"""Tables with rows for each relation of a model."""
_OF_MODELS = ("baseline_rejection", "baseline_group", "baseline", "registered_model")
# Ignored deletes that are in the baseline go with the model to its new relation; those after it
# are written down again where it applies them.
_OF_BASELINE = """
own.slot_name = %(slot)s
and own.model_name = {0}
and own.commit_lsn < (
    select baseline.snapshot_lsn from {{0}}.baseline
    where baseline.slot_name = own.slot_name and baseline.declared_name = %(model)s
)
"""
_MOVE_DELETES = (
    f"delete from {{0}}.archived_delete as own where {_OF_BASELINE.format('%(to)s')}",
    "update {0}.archived_delete as own set model_name = %(to)s"
    f" where {_OF_BASELINE.format('%(from)s')}",
)
_BUMP = "update {}.slot_position set registration = registration + 1 where slot_name = %s"
_WRITE_PROJECT = """
update {}.registered_model set project_name = %(project)s
where slot_name = %(slot)s and project_name is distinct from %(project)s
"""


def forget_downstream(
    target: Target, project: str, declared: Sequence[tuple[str, Table]], schemas: Collection[str]
) -> list[str]:
    """Forget the models over models that a project no longer declares; return their names.

    One of a declared name stays where none of the project's models are in its schema: another dbt
    target has it there.
    """
    forget = (
        "with gone as ("
        "delete from {0}.downstream_model where project = %s and model_name <> all (%s) and"
        " (name <> all (%s) or split_part(model_name, '.', 1) = any (%s))"
        " returning name, model_name"
        "), unasked as ("
        "delete from {0}.to_fill using gone where to_fill.model_name = gone.model_name"
        ") select name from gone"
    )
    tables = [str(table) for _, table in declared]
    values = (project, tables, [name for name, _ in declared], list(schemas))
    return sorted(name for (name,) in target.ask_staging(forget, values))


def read_registration(target: Target) -> Registration:
    """Return what is registered for the slot; nothing where it has no row. Raises LoaderError."""
    rows = target.ask_staging(_REGISTRATION, (target.slot,))
    if not rows:
        return Registration(0, (), {})
    number, stored = rows[0][:2]
    models = tuple(
        Model(name, Table(*relation), declaration)
        for _, _, name, *relation, declaration, _ in rows
        if name is not None
    )
    tables = {Table(row["table_schema"], row["table_name"]): row for row in stored}
    roots = {table: from_row(row) for table, row in tables.items()}
    return Registration(
        number,
        models,
        {
            table: {name: lsn.parse(at) for name, at in row["held_since"].items()}
            for table, row in tables.items()
            if row["held_since"]
        },
        {table: root for table, root in roots.items() if root is not None},
        {name: project for _, _, name, *_, project in rows},
        {table: row["labels"] for table, row in tables.items()},
    )


def other_slot(target: Target, model: Model) -> str | None:
    """Return another slot that feeds the model, None where there is none. Raises LoaderError."""
    values = (target.slot, str(model.relation), model.name)
    ((other,),) = target.ask_staging("select {}.other_slot(%s, %s, %s)", values)
    return None if other is None else str(other)


def register(
    target: Target,
    declared: Sequence[Model],
    readings: Mapping[str, Mapping[str, object]],
    changes: Difference,
) -> None:
    """Write the difference down, in the open transaction; forget what is removed.

    `readings` says of each query how it was read.
    """
    written = {*changes.new, *changes.changed, *changes.moved}
    for model in declared:
        if model.name in written:
            relation = (model.relation.schema, model.relation.name)
            if model.name in changes.moved:
                before = changes.moved[model.name]
                place = {"model": model.name, "from": str(before), "to": str(model.relation)}
                for statement in _MOVE_DELETES:
                    target.ask_staging(statement, {"slot": target.slot, **place})
            reading = readings.get(model.name)
            known = (target.slot, model.name, Json(model.declaration), Json(model.needed))
            read = None if reading is None else Json(reading)
            target.ask_staging(_REGISTER, (*known, read, *relation))
    for model in changes.removed:
        values: dict[str, object] = {"slot": target.slot, "model": model.name}
        values["models"] = [name for (name,) in target.ask_staging(_MODELS, values)]
        for table in _OF_RELATIONS:
            target.ask_staging(f"{_FORGET}model_name = any(%(models)s)", values, table)
        for table in _OF_MODELS:
            target.ask_staging(f"{_FORGET}declared_name = %(model)s", values, table)
    target.ask_staging(_BUMP, (target.slot,))


def keep_applies_out(target: Target) -> None:
    """Wait for whoever applies for the slot; nobody begins until the open transaction ends.

    It would write down of the log, or of models, what is about to be taken back.
    """
    locks.wait(target, "slot", target.slot)
    installed = "select model_name from {}.installed_model where slot_name = %s order by model_name"
    for (model,) in target.ask_staging(installed, (target.slot,)):
        locks.wait(target, "model", model)


def write_project(target: Target, project: str) -> None:
    """Write down that a dbt project declares all models that are registered for the slot."""
    target.ask_staging(_WRITE_PROJECT, {"slot": target.slot, "project": project})


# Who writes the rows locks the slot's row first, so that setup and loader never wait in a circle.
_LOCK = "select registration from {0}.slot_position where slot_name = %(slot)s for no key update"
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
    labels = excluded.labels || known.labels,
    shape = excluded.shape,
    partitions = coalesce(known.partitions, excluded.partitions)
"""
_FOLLOW = """
update {0}.logged_table as known set
    (held_since, labels, partitions, emptied_lsn) = (
        now.held_since, now.labels, now.partitions, now.emptied_lsn
    ),
    (gap_lsn, gap_event) = (
        coalesce(now.gap_lsn, known.gap_lsn), coalesce(now.gap_event, known.gap_event)
    )
from jsonb_populate_recordset(null::{0}.logged_table, %(rows)s) as now
where
    known.slot_name = %(slot)s
    and (known.table_schema, known.table_name) = (now.table_schema, now.table_name)
"""


def logged_row(
    slot: str, table: Table, root: Root | None, gap: Gap | None, **values: object
) -> dict[str, object]:
    """Return a row of logged_table as JSON."""
    return {
        **{"slot_name": slot, "table_schema": table.schema, "table_name": table.name},
        **({} if root is None else to_row(root)),
        **({} if gap is None else {"gap_lsn": lsn.show(gap.from_lsn), "gap_event": gap.event}),
        **values,
    }


def register_tables(target: Target, rows: list[dict[str, object]]) -> None:
    """Make these the slot's tables, in the open transaction; forget all others."""
    for statement in (_LOCK, _FORGET_TABLES, _REGISTER_TABLES):
        target.ask_staging(statement, {"slot": target.slot, "rows": Json(rows)})


def write_followed(target: Target, registered: Registration, held: Held) -> None:
    """Write down what a session follows, in the open transaction.

    Raises Interrupted where another registration has come since this one was read.
    """
    rows = [
        logged_row(
            *(target.slot, table, held.roots.get(table), held.gaps.get(table)),
            labels=held.labels.get(table, {}),
            held_since={name: lsn.show(at) for name, at in held.followed.get(table, {}).items()},
        )
        for table in registered.tables
    ]
    if target.ask_staging(_LOCK, {"slot": target.slot}) != [(registered.number,)]:
        raise Interrupted(
            "`loader setup` has registered other models meanwhile", "nothing; it starts again"
        )
    target.ask_staging(_FOLLOW, {"slot": target.slot, "rows": Json(rows)})
