"""The registered facts of a slot, and what its loader follows because of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg2 import extensions, sql
from psycopg2.extras import Json

from loader.staging.records import Registration
from waltally import lsn
from waltally.database import explained
from waltally.facts import Fact, parse
from waltally.leaves import from_row
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
    fact.fact_name,
    fact.relation_schema,
    fact.relation_name,
    fact.declaration
from {0}.slot_position as log
left join {0}.fact using (slot_name)
where log.slot_name = %s
order by fact.fact_name
"""

_REGISTER = """
insert into {}.fact (slot_name, fact_name, declaration, needed, relation_schema, relation_name)
values (%s, %s, %s, %s, %s, %s)
on conflict (slot_name, fact_name) do update set
    declaration = excluded.declaration,
    needed = excluded.needed,
    relation_schema = excluded.relation_schema,
    relation_name = excluded.relation_name,
    registered_at = now()
"""
_FORGET_MODELS = """
with forgotten as (
    select fact.relation_schema || '.' || fact.relation_name as model_name from {0}.fact
    where fact.slot_name = %(slot)s and fact.fact_name = %(fact)s
    union
    select installed.model_name from {0}.installed_model as installed
    where installed.slot_name = %(slot)s and installed.fact_name = %(fact)s
)

delete from {0}.{1} as stored
where stored.slot_name = %(slot)s and stored.model_name in (select model_name from forgotten)
"""
_OF_MODELS = ("model_watermark", "archived_delete", "installed_model")
"""What is stored for each relation of a fact; in this order, as the last names the relations."""
_OF_FACTS = ("baseline_rejection", "baseline_group", "baseline", "fact")
_BUMP = "update {}.slot_position set registration = registration + 1 where slot_name = %s"
# Before a setup of this release the table has no such column.
_PROJECTS = """
select fact_name, to_jsonb(fact) ->> 'project_name' from {}.fact where slot_name = %s
"""
_WRITE_PROJECT = """
update {}.fact set project_name = %(project)s
where slot_name = %(slot)s and project_name is distinct from %(project)s
"""
_OTHER_SLOTS = """
select slot_name from {0}.fact where fact_name = %(name)s and slot_name <> %(slot)s
union
select slot_name from {0}.model_watermark
where model_name = %(relation)s and slot_name <> %(slot)s
order by slot_name
"""


@dataclass(frozen=True)
class Difference:
    """How the declared facts differ from the registered ones: by name."""

    new: tuple[str, ...]
    changed: tuple[str, ...]
    """Declared otherwise than registered: they need a new baseline."""
    moved: tuple[str, ...]
    """Only their relation is another one."""
    removed: tuple[Fact, ...]

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.moved or self.removed)

    def __str__(self) -> str:
        said = [
            *(f"{name} is new" for name in self.new),
            *(f"{name} has changed" for name in self.changed),
            *(f"{name} is now another table" for name in self.moved),
            *(f"{fact.name} is no longer declared" for fact in self.removed),
        ]
        return ", ".join(said)


def difference(registered: Registration, declared: Sequence[Fact]) -> Difference:
    """Return what registering the declared facts would change."""
    before = {fact.name: fact for fact in registered.facts}
    now = {fact.name: fact for fact in declared}
    both = [(before[name], fact) for name, fact in now.items() if name in before]
    return Difference(
        tuple(name for name in now if name not in before),
        tuple(new.name for old, new in both if old.declaration != new.declaration),
        tuple(
            new.name
            for old, new in both
            if old.declaration == new.declaration and old.relation != new.relation
        ),
        tuple(fact for name, fact in before.items() if name not in now),
    )


def read_registration(connection: extensions.connection, schema: str, slot: str) -> Registration:
    """Return what is registered for the slot; nothing where it has no row. Raises LoaderError."""
    with explained("target"), connection, connection.cursor() as cursor:
        return read_registered(cursor, schema, slot)


def read_registered(cursor: extensions.cursor, schema: str, slot: str) -> Registration:
    """Return what is registered for the slot, in the transaction of the cursor."""
    cursor.execute(sql.SQL(_REGISTRATION).format(sql.Identifier(schema)), (slot,))
    rows = cursor.fetchall()
    if not rows:
        return Registration(0, (), {})
    number, stored = rows[0][:2]
    facts = tuple(
        parse(name, Table(*relation), declaration)
        for _, _, name, *relation, declaration in rows
        if name is not None
    )
    tables = {Table(row["table_schema"], row["table_name"]): row for row in stored}
    roots = {table: from_row(row) for table, row in tables.items()}
    return Registration(
        number,
        facts,
        {
            table: {name: lsn.parse(at) for name, at in row["held_since"].items()}
            for table, row in tables.items()
            if row["held_since"]
        },
        {table: root for table, root in roots.items() if root is not None},
    )


def other_slot(connection: extensions.connection, schema: str, slot: str, fact: Fact) -> str | None:
    """Return another slot that feeds the fact, None where there is none. Raises LoaderError."""
    query = sql.SQL(_OTHER_SLOTS).format(sql.Identifier(schema))
    with explained("target"), connection, connection.cursor() as cursor:
        cursor.execute(query, {"name": fact.name, "relation": str(fact.relation), "slot": slot})
        row = cursor.fetchone()
    return None if row is None else str(row[0])


def register(
    cursor: extensions.cursor,
    schema: str,
    slot: str,
    declared: Sequence[Fact],
    found: Difference,
) -> None:
    """Write the difference down, in the transaction of the cursor; forget what is removed."""
    place = sql.Identifier(schema)
    written = {*found.new, *found.changed, *found.moved}
    for fact in declared:
        if fact.name in written:
            cursor.execute(
                sql.SQL(_REGISTER).format(place),
                (
                    *(slot, fact.name, Json(fact.declaration), Json(fact.needed)),
                    *(fact.relation.schema, fact.relation.name),
                ),
            )
    for fact in found.removed:
        values = {"slot": slot, "fact": fact.name}
        for table in _OF_MODELS:
            forget = sql.SQL(_FORGET_MODELS).format(place, sql.Identifier(table))
            cursor.execute(forget, values)
        for table in _OF_FACTS:
            cursor.execute(
                sql.SQL(
                    "delete from {} where slot_name = %(slot)s and fact_name = %(fact)s"
                ).format(sql.Identifier(schema, table)),
                values,
            )
    cursor.execute(sql.SQL(_BUMP).format(place), (slot,))


def read_projects(cursor: extensions.cursor, schema: str, slot: str) -> dict[str, str | None]:
    """Return by registered fact which dbt project declares it; None where that is not known."""
    cursor.execute(sql.SQL(_PROJECTS).format(sql.Identifier(schema)), (slot,))
    return dict(cursor.fetchall())


def write_project(cursor: extensions.cursor, schema: str, slot: str, project: str) -> None:
    """Write down that a dbt project declares all facts that are registered for the slot."""
    query = sql.SQL(_WRITE_PROJECT).format(sql.Identifier(schema))
    cursor.execute(query, {"slot": slot, "project": project})
