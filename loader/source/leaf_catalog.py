"""Asks a server's catalog for the leaves of partitioned tables, in plain SQL."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from loader.staging.logged_tables import Member, Root
from waltally import lsn
from waltally.database import Connection
from waltally.tables import Table


def tree(roots: str) -> str:
    """Return SQL: a query's beginning that has the tables of `roots` with all their partitions.

    `roots` gives label, oid, 0 and an empty text. It reads pg_inherits, because pg_partition_tree
    ignores the snapshot and waits for the tables' locks. A leaf that is being detached concurrently
    is no longer part of the table for new queries.
    """
    return f"""
with recursive tree (label, oid, parent, attached) as (
    {roots}
    union all
    select tree.label, i.inhrelid, i.inhparent, i.xmin::text
    from tree
    inner join pg_class as parent on parent.oid = tree.oid and parent.relkind = 'p'
    inner join pg_inherits as i on i.inhparent = parent.oid
    where not i.inhdetachpending
)"""


_ROOTS = """
    select listed.label, c.oid, 0::oid, ''
    from jsonb_to_recordset(%(tables)s) as listed (label text, schema text, name text)
    inner join pg_namespace as n on n.nspname = listed.schema
    inner join pg_class as c on c.relnamespace = n.oid and c.relname = listed.name
    where c.relkind = 'p'
"""
_MEMBERS = f"""
{tree(_ROOTS)},

members as (
    select
        tree.*,
        (
            select a.xmin::text from pg_attribute as a
            where a.attrelid = c.oid and a.attname = 'tableoid'
        ) as born,
        t.xmin::text as named,
        c.relkind::text as kind,
        c.relpersistence::text as persistence,
        n.nspname::text as schema,
        c.relname::text as name,
        -- The first file has the table's number. ALTER TABLE makes a file, then a TOAST table;
        -- TRUNCATE keeps the TOAST table. A table without one may have been truncated.
        c.relfilenode not in (0, c.oid)
            and (c.reltoastrelid = 0 or c.reltoastrelid > c.relfilenode)
        -- A later command of the transaction that made it gave it its name, if not its owner.
        or exists (
            select from pg_attribute as a
            where
                a.attrelid = c.oid
                and a.attname = 'tableoid'
                and a.cmin::text <> t.cmin::text
                and not exists (
                    select from pg_shdepend as d
                    inner join pg_database as own on own.oid = d.dbid
                    where
                        own.datname = current_database()
                        and d.classid = 'pg_class'::regclass
                        and d.objid = c.oid
                        and d.deptype = 'o'
                        and d.cmin::text <> a.cmin::text
                )
        ) as is_rewritten
    from tree
    inner join pg_class as c on c.oid = tree.oid
    inner join pg_namespace as n on n.oid = c.relnamespace
    inner join pg_type as t on t.oid = c.reltype
)
"""
_FINGERPRINT = """
(
    select coalesce(md5(string_agg(
        concat_ws(' ', label, oid, parent, attached, born, named, persistence, schema, name),
        ';' order by label, oid
    )), '')
    from members
)
"""
# The position is read after the snapshot was taken: what the snapshot shows was committed before.
_READ = f"""
{_MEMBERS}
select
    (
        select coalesce(jsonb_agg(jsonb_build_array(
            label, oid::bigint, parent::bigint, attached, born, named, kind, persistence,
            schema, name, is_rewritten
        ) order by label, parent <> 0, oid), '[]')
        from members
    ),
    {_FINGERPRINT},
    (
        select coalesce(jsonb_agg(known.oid), '[]')
        from jsonb_to_recordset(%(known)s) as known (oid bigint, schema text, name text)
        where
            exists (select from pg_class as c where c.oid = known.oid)
            or exists (
                select from pg_class as c
                inner join pg_namespace as n on n.oid = c.relnamespace
                where n.nspname = known.schema and c.relname = known.name
            )
    ),
    {lsn.WAL_END}
"""
_CHECK = f"{_MEMBERS} select {_FINGERPRINT}, pg_current_snapshot()::text"
# The columns of the primary key that no partition depends on, in the bytes of a change.
_KEYS = f"""
{_MEMBERS}
select root.label, coalesce((
    select jsonb_agg(encode(convert_to(a.attname::text, getdatabaseencoding()), 'hex'))
    from pg_index as i
    cross join unnest(i.indkey) with ordinality as k (attnum, ordinal)
    inner join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = k.attnum
    where
        i.indrelid = root.oid
        and i.indisprimary
        and k.ordinal <= i.indnkeyatts
        and not exists (
            select from members as other
            inner join pg_partitioned_table as p on p.partrelid = other.oid
            inner join pg_attribute as b
                on b.attrelid = p.partrelid and b.attnum = any(p.partattrs)
            where other.label = root.label and b.attname = a.attname
        )
), '[]')
from members as root
where root.parent = 0
"""
# As the plugin prints them, in the bytes of the server's encoding.
_SPELL = """
select encode(convert_to(
    '"schema":' || to_json(schema)::text || ',"table":' || to_json(name)::text,
    getdatabaseencoding()
), 'hex')
from rows from (jsonb_to_recordset(%(tables)s) as (schema text, name text))
    with ordinality as listed (schema, name, ordinal)
order by ordinal
"""


class LeafCatalog:
    """The partitioned tables and their leaves, as one server has them at one moment."""

    def __init__(
        self,
        connection: Connection,
        tables: Iterable[Table],
        before: Mapping[Table, Root],
    ) -> None:
        """Read those of the tables that are partitioned. `before` is stored. Raises LoaderError."""
        self._connection = connection
        known = [
            {"oid": member.oid, "schema": member.table.schema, "name": member.table.name}
            for root in before.values()
            for member in root.members
        ]
        self._tables = listed(tables)
        values = {"tables": self._tables, "known": json.dumps(known)}
        ((members, fingerprint, present, read_lsn),) = connection.ask(_READ, values)
        self._fingerprint = fingerprint
        self.present: frozenset[int] = frozenset(present)
        """The oids of stored members that still exist, or whose name another table has now."""
        self.read_lsn = lsn.parse(read_lsn)
        """Everything that the catalog showed was committed before this."""
        by_label: dict[str, list[Member]] = {}
        for label, *row in members:
            by_label.setdefault(label, []).append(Member(*row))
        self.roots: dict[Table, Root] = {
            members[0].table: Root(self.read_lsn, tuple(members)) for members in by_label.values()
        }
        """By partitioned table; the first member is the table itself."""

    def look_again(self) -> tuple[bool, str]:
        """Return whether nothing has changed since, and the snapshot that shows it."""
        ((fingerprint, snapshot),) = self._connection.ask(_CHECK, {"tables": self._tables})
        return fingerprint == self._fingerprint, str(snapshot)

    def spell(self, tables: Sequence[Table]) -> list[bytes]:
        """Return the names of the tables as a change spells them."""
        rows = self._connection.ask(_SPELL, {"tables": listed(tables)})
        return [bytes.fromhex(spelled) for (spelled,) in rows]

    def lasting_keys(self) -> dict[str, tuple[str, ...]]:
        """Return by `schema.name` the key's columns that stay when a row moves between leaves.

        Names are the bytes of a change as Latin-1. Without a primary key there are none.
        """
        return {
            label: tuple(bytes.fromhex(name).decode("latin-1") for name in names)
            for label, names in self._connection.ask(_KEYS, {"tables": self._tables})
        }


def listed(tables: Iterable[Table]) -> str:
    """Return the tables as JSON, for jsonb_to_recordset."""
    return json.dumps(
        [{"label": str(table), "schema": table.schema, "name": table.name} for table in tables]
    )
