"""The parents of a counted table as current rows, and the fact by their names. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loader.setup.proposal import COUNT, Proposal, describe, table_name
from waltally.escapes import escaped
from waltally.tables import Table

if TYPE_CHECKING:
    from waltally.database import Connection

_LABELS = [
    "name",
    "title",
    "label",
    "display_name",
    "full_name",
    "username",
    "login",
    "domain",
    "slug",
    "code",
    "email",
    "subject",
]
"""Usual names of the column that a person knows a row by, the likeliest first."""


MOST = 2
"""Parents that a first fact counts by where no column is named: each multiplies the groups."""


@dataclass(frozen=True)
class Parent:
    """A table that a column of the counted table leads to."""

    column: str
    """That column."""
    table: Table
    key: str
    key_type: str
    label: str
    """The parent's column that says what a person calls the row."""

    @property
    def model(self) -> str:
        """The name of the model of its current rows."""
        return _plain(self.table.name)[:55]

    @property
    def lookup(self) -> str:
        """Its name in the roll-up: the column without `_id`."""
        return _plain(re.sub(r"_?id$", "", self.column, flags=re.I)) or self.model

    @property
    def dimension(self) -> str:
        """The name of its label in the roll-up."""
        return f"{self.lookup}_{_plain(self.label)}"


def roll_up_name(proposal: Proposal) -> str:
    """Return what the roll-up is called."""
    return f"{proposal.name[:40]}_by_name"


def files(proposal: Proposal, parents: Sequence[Parent]) -> dict[str, str]:
    """Return the models of the parents' current rows and of the roll-up, by path in the project.

    A name is in them as a literal alone, as in `model_sql`.
    """
    models: dict[str, str] = {}
    for parent in parents:
        models[f"models/{parent.model}.sql"] = (
            "{{ waltally.current_rows(\n"
            f"    table={table_name(parent.table)!r},\n"
            f"    key=[{parent.key!r}],\n"
            f"    columns={{{parent.key!r}: {parent.key_type!r}, {parent.label!r}: 'text'}},\n"
            ") }}\n"
        )
        models[f"models/{parent.model}.yml"] = describe(
            parent.model,
            "The table's rows as they are at the model's position.",
            {parent.key: "Its key.", parent.label: "What people call it."},
        )
    name = roll_up_name(proposal)
    looked_up = {parent.column for parent in parents}
    kept = [column for column in proposal.names if column not in looked_up]
    measures = [COUNT, *proposal.sums]
    lines = [
        "{# The fact by names: what lies under a parent row moves with its name. #}",
        "{{ waltally.roll_up(",
        f"    fact=ref({proposal.name!r}),",
        "    lookups={",
        *(
            f"        {parent.lookup!r}: {{'rows': ref({parent.model!r}), "
            f"'by': {{{parent.key!r}: {parent.column!r}}}}},"
            for parent in parents
        ),
        "    },",
        "    dimensions={",
        *(f"        {column!r}: {column!r}," for column in kept),
        *(f"        {p.dimension!r}: {f'{p.lookup}.{p.label}'!r}," for p in parents),
        "    },",
        "    measures={",
        *(f"        {measure!r}: {{'sum': {measure!r}}}," for measure in measures),
        "    },",
        ") }}",
    ]
    models[f"models/{name}.sql"] = "\n".join(lines) + "\n"
    models[f"models/{name}.yml"] = describe(
        name,
        "How many rows, one line per group, with the names of the parent rows.",
        {
            **dict.fromkeys(kept, "As the fact has it."),
            **dict.fromkeys(
                (parent.dimension for parent in parents), "Null: there is no such row."
            ),
            **dict.fromkeys(measures, "Summed over the fact's groups."),
        },
    )
    return models


def _plain(name: str) -> str:
    plain = re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_")
    return f"rows_{plain}" if plain[:1].isdigit() else plain


# Current rows are found by the primary key, so the column has to lead to it. Many applications have
# no foreign keys: there its name leads to a table of the same schema, as team_id to team or teams.
_PARENTS = """
select distinct on (a.attnum)
    a.attname::text, parents.nspname::text, c.relname::text, k.attname::text,
    format_type(k.atttypid, null), label.attname::text
from pg_class as own
inner join pg_namespace as n on n.oid = own.relnamespace
inner join pg_attribute as a on a.attrelid = own.oid and a.attnum > 0 and not a.attisdropped
left join pg_constraint as f
    on f.contype = 'f' and f.conrelid = own.oid and f.conkey = array[a.attnum]
inner join pg_class as c
    on c.oid <> own.oid and c.relkind in ('r', 'p') and case
        when f.oid is not null then c.oid = f.confrelid
        else c.relnamespace = own.relnamespace and a.attname ~* '._?id$' and c.relname::text = any(
            select regexp_replace(a.attname::text, '_?id$', '', 'i') || ending
            from unnest(array['', 's', 'es']) as ending
            union all
            select regexp_replace(a.attname::text, 'y_?id$', 'ies', 'i')
        )
    end
inner join pg_namespace as parents on parents.oid = c.relnamespace
inner join pg_index as i on i.indrelid = c.oid and i.indisprimary and i.indnkeyatts = 1
inner join pg_attribute as k
    on k.attrelid = c.oid and k.attnum = i.indkey[0] and k.attnum = coalesce(f.confkey[1], k.attnum)
    and k.atttypid = a.atttypid
cross join lateral (
    select l.attname
    from pg_attribute as l
    where
        l.attrelid = c.oid and l.attnum > 0 and not l.attisdropped
        and l.atttypid in ('text'::regtype, 'varchar'::regtype)
        and l.attname::text = any(%(labels)s)
    order by array_position(%(labels)s::text[], l.attname::text)
    limit 1
) as label
where n.nspname = %(schema)s and own.relname = %(name)s
order by a.attnum, f.oid
"""
_KEY_TYPES = ("uuid", "text", "smallint", "integer", "bigint")


def read_parents(connection: Connection, table: Table) -> list[Parent]:
    """Return the parents that have a name that a person knows, in the order of the columns."""
    asked = {"schema": table.schema, "name": table.name, "labels": _LABELS}
    parents = []
    for column, schema, name, key, type_, label in connection.ask(_PARENTS, asked):
        if type_ in _KEY_TYPES and all(escaped(text) == text for text in (schema, name, key)):
            parents.append(Parent(column, Table(schema, name), key, type_, label))
    return parents
