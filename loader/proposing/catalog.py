"""What the server's catalog says: tables, views, functions, and the types of a query's columns."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg2

from waltally.database import Connection
from waltally.errors import LoaderError, SettingError
from waltally.server_errors import ServerError
from waltally.tables import Table

# The query's name without a schema: public first, else the only schema that has one.
_RELATION = """
select
    n.nspname::text, c.relname::text, c.relkind::text, c.relrowsecurity,
    c.relowner = (select oid from pg_roles where rolname = current_user),
    case when c.reltuples < 0 then pg_relation_size(c.oid) / 100.0 else c.reltuples end::float8,
    (
        select array_agg(a.attname::text order by a.attnum) from pg_attribute as a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    ),
    coalesce((
        select array_agg(a.attname::text order by k.ordinal)
        from pg_index as i
        cross join unnest(i.indkey) with ordinality as k (attnum, ordinal)
        inner join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = k.attnum
        where i.indrelid = c.oid and i.indisprimary
    ), '{}'),
    case when c.relkind = 'v' then pg_get_viewdef(c.oid) end
from pg_class as c
inner join pg_namespace as n on n.oid = c.relnamespace
where
    c.relname = %(name)s and c.relkind in ('r', 'p', 'v', 'm', 'f')
    and case
        when %(schema)s = '' then n.nspname !~ '^(pg_|information_schema)'
        else n.nspname = %(schema)s
    end
order by n.nspname <> 'public', 1
"""
_FUNCTIONS = """
select array_agg(proname::text), array_agg(proname::text) filter (where prokind = 'a'),
    array_agg(proname::text) filter (where provolatile = 'v')
from pg_proc where pronamespace = 'pg_catalog'::regnamespace
"""
# What an extension has is over types of its own.
_OVERLOAD = """
select p.oid::regprocedure::text
from pg_proc as p
where
    p.proname = %(name)s
    and p.pronamespace <> 'pg_catalog'::regnamespace
    and %(count)s between p.pronargs - p.pronargdefaults
        and case p.provariadic when 0 then p.pronargs else %(count)s end
    and not exists (
        select from pg_depend
        where classid = 'pg_proc'::regclass and objid = p.oid and deptype = 'e'
    )
union all
select o.oid::regoperator::text
from pg_operator as o
where
    o.oprname = %(name)s
    and o.oprnamespace <> 'pg_catalog'::regnamespace
    and not exists (
        select from pg_depend
        where classid = 'pg_operator'::regclass and objid = o.oid and deptype = 'e'
    )
limit 1
"""

_CHOICES = 20
"""A column with more values is compared with what an application fills in."""
_VARIED = """
select attname::text from pg_stats
inner join unnest(%s::text[], %s::text[]) as t (schema, name)
    on t.schema = schemaname and t.name = tablename
where attname = any(%s) and n_distinct not between 0 and %s
"""
_DELETED = """
select relid from pg_stat_all_tables where schemaname = %s and relname = %s and n_tup_del > 0
"""


@dataclass(frozen=True)
class Relation:
    """A table or view that the query reads."""

    table: Table
    kind: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    """Its primary key."""
    rows: float
    """By its statistics, or as many as its size allows."""
    definition: str | None
    """A view's query."""


class Catalog:
    """A read-only session at the source."""

    def __init__(self, connection: Connection, timezone: str) -> None:
        self.connection = connection
        connection.give_up_locks()
        connection.ask("select set_config('default_transaction_read_only', 'on', false)")
        self.use_zone(timezone)
        functions, aggregates, volatile = map(frozenset, connection.ask(_FUNCTIONS)[0])
        self.functions: frozenset[str] = functions
        """PostgreSQL's own."""
        self.aggregates: frozenset[str] = aggregates
        self.volatile: frozenset[str] = volatile
        """Those of which each call may give something else."""
        self._overloads: dict[tuple[str, int], str | None] = {}
        self._columns: dict[str, list[tuple[str, str]]] = {}

    def use_zone(self, timezone: str) -> None:
        """Let dates be of a time zone; empty for the session's."""
        self.zone = timezone
        self._truths: dict[str, bool] = {}
        if timezone:
            self.connection.ask("select set_config('timezone', %s, false)", (timezone,))
        ((self.timezone,),) = self.connection.ask("select current_setting('timezone')")

    def relation(self, schema: str, name: str) -> Relation:
        """Return what a name of the query means. Raises SettingError where it may not be read."""
        rows = self.connection.ask(_RELATION, {"schema": schema, "name": name})
        named = f"{schema}.{name}" if schema else name
        if not rows:
            raise SettingError(f"The source has no table {named}", "connect with --source to it")
        if not schema and rows[0][0] != "public" and len(rows) > 1:
            known = ", ".join(f"{row[0]}.{name}" for row in rows)
            raise SettingError(f"{name} may be {known}", "name the schema in the query")
        schema, name, kind, has_policies, is_own, count, columns, key, view = rows[0]
        table = Table(schema, name)
        if has_policies:
            raise SettingError(
                f"{table} has row security: whose rows the query sees is not the model's to know",
                "take a query over other tables",
            )
        if kind in "mf" or (kind == "v" and not is_own):
            what = {"m": "a materialized view", "f": "a foreign table"}.get(kind, "another's view")
            raise SettingError(f"{table} is {what}: its changes are not seen", "name the tables")
        return Relation(table, kind, tuple(columns), tuple(key), count, view)

    def overload(self, name: str, count: int) -> str | None:
        """Return a user's function of this name for so many arguments, or a user's operator."""
        if (name, count) not in self._overloads:
            rows = self.connection.ask(_OVERLOAD, {"name": name, "count": count})
            self._overloads[name, count] = rows[0][0] if rows else None
        return self._overloads[name, count]

    def is_enum(self, type_: str) -> bool:
        """Return whether a type, as SQL names it, is an enum."""
        enum = "select 1 from pg_type where oid = to_regtype(%s) and typtype = 'e'"
        return bool(self.connection.ask(enum, (type_,)))

    def columns(self, query: str) -> list[tuple[str, str]]:
        """Return the names and types of what a query gives. Raises LoaderError."""
        if query not in self._columns:
            self._columns[query] = self._ask_columns(query)
        return self._columns[query]

    def _ask_columns(self, query: str) -> list[tuple[str, str]]:
        with self.connection.explained(), self.connection.cursor() as cursor:
            cursor.execute(f"select * from ({query}) as query limit 0")
            described = [(one.name, one.type_code) for one in cursor.description or ()]
        types = ", ".join(f"format_type({oid}, null)" for _, oid in described)
        names = (name for name, _ in described)
        return list(zip(names, self.connection.ask(f"select {types}")[0], strict=True))

    def check(self, query: str) -> None:
        """Raise SettingError where PostgreSQL does not take a query; nothing of it is run."""
        with self.connection.explained(), self.connection.cursor() as cursor:
            try:
                cursor.execute(f"prepare waltally_asked as {query}; deallocate waltally_asked")
            except (psycopg2.ProgrammingError, psycopg2.DataError) as error:
                raise SettingError(
                    f"PostgreSQL refuses the query: {ServerError.of(error).message}",
                    "give it as it runs in psql, types with their schema",
                ) from error

    def is_true(self, condition: str) -> bool:
        """Return whether a condition without columns holds now; what cannot be asked does not."""
        if condition not in self._truths:
            try:
                self._truths[condition] = bool(self.connection.ask(f"select {condition}")[0][0])
            except LoaderError:
                self._truths[condition] = False
        return self._truths[condition]

    def have_many_values(self, columns: list[str], relations: list[Relation]) -> set[str]:
        """Return the columns that have more values than a list of choices, by the statistics."""
        tables = [relation.table for relation in relations]
        names = [table.schema for table in tables], [table.name for table in tables]
        rows = self.connection.ask(_VARIED, (*names, columns, _CHOICES))
        return {row[0] for row in rows}

    def has_deletes(self, relation: Relation) -> bool:
        """Return whether rows were deleted, as far as the server's statistics go back."""
        rows = self.connection.ask(_DELETED, (relation.table.schema, relation.table.name))
        return bool(rows)
