"""What the checks need to know of the source, asked in plain SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from waltally.tables import DIMENSIONS, Table


@dataclass(frozen=True)
class ServerFacts:
    """Settings and rights that decide whether a slot can be made and followed."""

    role: str
    in_recovery: bool
    wal_level: str
    may_replicate: bool
    has_rds_replication: bool
    """Whether the server gives the right by a role of this name, as Amazon RDS does."""
    allowed_plugins: str | None
    """The setting output_plugin_libraries; None where it is missing or may not be read."""
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
    primary_key: tuple[str, ...] = ()
    wide_index: str | None = None
    """An index that is there already and may become an identity with the dimensions."""
    by_session: Mapping[str, str] = field(default_factory=dict)
    """By dimension, the type whose text differs between sessions: its own or one within it."""
    names_taken: frozenset[str] = frozenset()
    """Names in the table's schema that end like those that the remedy gives to indexes."""


SERVER = """
select
    current_user::text,
    pg_is_in_recovery(),
    current_setting('wal_level'),
    (select rolsuper or rolreplication from pg_roles where rolname = current_user)
        or exists (
            select 1 from pg_roles
            where rolname = 'rds_replication'
            and pg_has_role(current_user, oid, 'usage')
        ),
    exists (select 1 from pg_roles where rolname = 'rds_replication'),
    -- No row for a role that may not read it, where current_setting() would raise.
    (select setting from pg_settings where name = 'output_plugin_libraries'),
    (select count(*) from pg_replication_slots),
    current_setting('max_replication_slots')::int,
    exists (select 1 from pg_replication_slots where slot_name = %s),
    (select count(*) from pg_stat_replication),
    current_setting('max_wal_senders')::int
"""

"""ServerFacts, given the slot's name; for whatever driver there is."""

BY_SESSION = (
    *("money", "aclitem", "regclass", "regcollation", "regconfig", "regdictionary"),
    *("regnamespace", "regoper", "regoperator", "regproc", "regprocedure", "regrole", "regtype"),
)
"""Types whose text depends on lc_monetary, search_path or a renaming, so on the session."""

_DIMENSIONS = ", ".join(f"'{name}'" for name in DIMENSIONS)
_IS_WIDE = f"array_agg(k.name) @> array[{_DIMENSIONS}]"

TABLE = f"""
with recursive wanted as (
    select c.oid
    from pg_class as c
    inner join pg_namespace as n on n.oid = c.relnamespace
    where n.nspname = %s and c.relname = %s
),

-- The type of each dimension, and those within it.
parts (attname, type) as (
    select a.attname, a.atttypid
    from wanted
    inner join pg_attribute as a on a.attrelid = wanted.oid
    where a.attname = any(array[{_DIMENSIONS}]) and not a.attisdropped
    union
    select parts.attname, inner_type.type
    from parts
    inner join pg_type as t on t.oid = parts.type
    cross join lateral (
        select t.typelem
        union all
        select t.typbasetype
        union all
        select r.rngsubtype from pg_range as r
        where t.oid in (r.rngtypid, r.rngmultitypid)
        union all
        select a.atttypid
        from pg_attribute as a
        where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
    ) as inner_type (type)
    where inner_type.type <> 0
),

keys as (
    select
        i.*,
        x.relname::text as index_name,
        a.attname::text as name,
        a.attnotnull,
        k.place
    from pg_index as i
    inner join pg_class as x on x.oid = i.indexrelid
    cross join unnest(i.indkey) with ordinality as k (attnum, place)
    inner join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = k.attnum
    -- An old row lacks what an index only includes.
    where k.place <= i.indnkeyatts
)

select
    c.relkind::text,
    c.relpersistence::text,
    c.relreplident::text,
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
        select k.name from keys as k
        where k.indrelid = c.oid
        and case c.relreplident when 'i' then k.indisreplident when 'd' then k.indisprimary end
    ),
    array(
        select k.name from keys as k
        where k.indrelid = c.oid and k.indisprimary
        order by k.place
    ),
    (
        select k.index_name from keys as k
        where k.indrelid = c.oid and k.indisunique and k.indisvalid and k.indimmediate
        and k.indpred is null and k.indexprs is null
        group by k.index_name
        having {_IS_WIDE} and bool_and(k.attnotnull)
        order by count(*), k.index_name
        limit 1
    ),
    array(
        select o.relname::text from pg_class as o
        where o.relnamespace = c.relnamespace and o.relname ~ '_replica_identity[_0-9]*$'
    ),
    (
        select jsonb_object_agg(found.attname, found.type) from (
            select parts.attname::text, min(format_type(parts.type, null)) as type
            from parts
            inner join pg_type as t on t.oid = parts.type
            where
                t.typnamespace = 'pg_catalog'::regnamespace
                and t.typname in ({", ".join(f"'{name}'" for name in BY_SESSION)})
            group by parts.attname
        ) as found
    )
from wanted
inner join pg_class as c on c.oid = wanted.oid
"""
"""What `table_facts` takes, given a table's schema and name; for whatever driver there is."""


def table_facts(table: Table, row: Sequence[Any] | None) -> TableFacts:
    """Return the facts from the row of the statement TABLE."""
    if row is None:
        return TableFacts(table, None, None, {}, None, frozenset())
    kind, persistence, identity, names, not_null, carried, key, wide_index, taken, types = row
    return TableFacts(
        table,
        kind,
        persistence,
        dict(zip(names, not_null, strict=True)),
        identity,
        frozenset(carried),
        tuple(key),
        wide_index,
        types or {},
        frozenset(taken),
    )
