"""What the checks need to know of the source, asked in plain SQL."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg2 import extensions

from loader.database import explained
from loader.tables import Table


@dataclass(frozen=True)
class ServerFacts:
    """Settings and rights that decide whether a slot can be made and followed."""

    role: str
    in_recovery: bool
    wal_level: str
    may_replicate: bool
    allowed_plugins: str | None
    """The setting output_plugin_libraries; None where there is none or this role may not see it."""
    slots_used: int
    slots_limit: int
    slot_exists: bool
    senders_used: int
    senders_limit: int


@dataclass(frozen=True)
class TableFacts:
    """A source table as the catalog has it."""

    table: Table
    kind: str | None
    """pg_class.relkind, None where the table does not exist."""
    persistence: str | None
    columns: dict[str, bool]
    """Column names, and whether they are NOT NULL."""
    identity: str | None
    """pg_class.relreplident."""
    identity_columns: frozenset[str]
    """What an old row carries under `default` and `using index`."""


_SERVER = """
select
    current_user,
    pg_is_in_recovery(),
    current_setting('wal_level'),
    (select rolsuper or rolreplication from pg_roles where rolname = current_user)
        or exists (
            select 1 from pg_roles
            where rolname = 'rds_replication'
            and pg_has_role(current_user, oid, 'usage')
        ),
    -- No row for a role that may not read it, where current_setting() would raise.
    (select setting from pg_settings where name = 'output_plugin_libraries'),
    (select count(*) from pg_replication_slots),
    current_setting('max_replication_slots')::int,
    exists (select 1 from pg_replication_slots where slot_name = %s),
    (select count(*) from pg_stat_replication),
    current_setting('max_wal_senders')::int
"""

_TABLE = """
select
    c.relkind,
    c.relpersistence,
    c.relreplident,
    array(
        select a.attname::text from pg_attribute as a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        order by a.attnum
    ),
    array(
        select a.attnotnull from pg_attribute as a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        order by a.attnum
    ),
    array(
        select a.attname::text
        from pg_index as i
        inner join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
        where i.indrelid = c.oid
        and case c.relreplident when 'i' then i.indisreplident when 'd' then i.indisprimary end
    )
from pg_class as c
inner join pg_namespace as n on n.oid = c.relnamespace
where n.nspname = %s and c.relname = %s
"""


def ask_server(connection: extensions.connection, slot: str) -> ServerFacts:
    """Return the server's facts. Raises LoaderError."""
    with explained("source"), connection, connection.cursor() as cursor:
        cursor.execute(_SERVER, (slot,))
        row = cursor.fetchone()
    assert row is not None
    return ServerFacts(*row)


def ask_table(connection: extensions.connection, table: Table) -> TableFacts:
    """Return a table's facts. Raises LoaderError."""
    with explained("source"), connection, connection.cursor() as cursor:
        cursor.execute(_TABLE, (table.schema, table.name))
        row = cursor.fetchone()
    if row is None:
        return TableFacts(table, None, None, {}, None, frozenset())
    kind, persistence, identity, names, not_null, identity_columns = row
    return TableFacts(
        table,
        kind,
        persistence,
        dict(zip(names, not_null, strict=True)),
        identity,
        frozenset(identity_columns),
    )
