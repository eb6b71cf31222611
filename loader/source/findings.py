"""Everything at the source that keeps these facts from being followed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from loader.source import server_checks, table_checks, table_identity
from loader.source.leaf_catalog import LeafCatalog
from loader.source.server import ask_server
from loader.source.synchronous import synchronous_finding
from loader.source.table import ask_table
from loader.source.table_checks import identity_change
from waltally.database import Connection
from waltally.errors import IdentityTooNarrow, LoaderError, TableUnfit
from waltally.facts import Fact, identity_columns, source_tables
from waltally.leaves import Root
from waltally.settings import Settings
from waltally.tables import Table


def source_findings(
    settings: Settings, facts: Sequence[Fact], source: Connection
) -> list[LoaderError]:
    """Return everything at the source that must be put right before a slot is made."""
    server = server_checks.server_findings(ask_server(source, settings.slot))
    found = server + table_findings(facts, source)
    synchronous = synchronous_finding(source)
    return found if synchronous is None else [*found, synchronous]


def table_findings(facts: Sequence[Fact], source: Connection) -> list[LoaderError]:
    """Return what is wrong with the source's tables."""
    found: list[LoaderError] = []
    wanted = table_identity.wanted(facts)
    for table in wanted:
        found += table_checks.table_findings(ask_table(source, table, facts), facts)
    roots = LeafCatalog(source, wanted, {}).roots
    found += declared_leaves(roots, wanted)
    return found + leaf_findings(source, roots, facts)


def tables_replaced(
    settings: Settings,
    source: Connection,
    target: Connection,
    counted: Sequence[Fact],
) -> list[LoaderError]:
    """Return which tables or columns are no longer those that the facts counted."""
    before = table_identity.read_counted(target, settings.schema, settings.slot)
    now = table_identity.read_current(source, table_identity.wanted(counted))
    return table_identity.replaced_findings(counted, before, now)


_LISTED = 5
"""How many leaves a sentence names; the remedy has all."""

# As `table_checks.identity_wide` judges, for all leaves at once.
_NARROW = """
select c.oid::bigint
from pg_class as c
where
    c.oid = any(%(leaves)s::oid[])
    and c.relreplident <> 'f'
    and not coalesce((
        select array_agg(a.attname::text) @> %(needed)s::text[]
        from pg_index as i
        cross join unnest(i.indkey) with ordinality as k (attnum, place)
        inner join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = k.attnum
        where
            i.indrelid = c.oid
            and k.place <= i.indnkeyatts
            and case c.relreplident when 'i' then i.indisreplident when 'd' then i.indisprimary end
    ), false)
"""


def leaf_findings(
    source: Connection, roots: Mapping[Table, Root], facts: Sequence[Fact]
) -> list[LoaderError]:
    """Return what is wrong with the leaves of the tables. Raises LoaderError."""
    counted = source_tables(facts)
    found: list[LoaderError] = []
    for table, root in roots.items():
        found += unfit_leaves(table, root)
        if table in counted and (narrow := narrow_leaves(source, table, root, facts)) is not None:
            found.append(narrow)
    return found


def unfit_leaves(table: Table, root: Root) -> list[LoaderError]:
    """Return which leaves have rows that change without WAL."""
    found: list[LoaderError] = []
    for each in root.members:
        if each.is_unfit:
            is_foreign = each.kind == "f"
            found.append(
                TableUnfit(
                    f"The partition {each.table} of {table} is "
                    + ("a foreign table" if is_foreign else "not logged")
                    + ", so its changes reach no slot",
                    f"alter table {_parent(root, each.parent).quoted} "
                    f"detach partition {each.table.quoted};"
                    if is_foreign
                    else f"alter table {each.table.quoted} set logged;",
                )
            )
    return found


def narrow_leaves(
    source: Connection, table: Table, root: Root, facts: Sequence[Fact]
) -> LoaderError | None:
    """Return which leaves have a replica identity without what the facts need of an old row.

    A new leaf does not inherit the identity of its parent.
    """
    needed = identity_columns(facts, table)
    leaves = [each.oid for each in root.members if each.kind != "p" and not each.is_unfit]
    rows = source.ask(_NARROW, {"leaves": leaves, "needed": list(needed)})
    found = {oid for (oid,) in rows}
    if not found:
        return None
    narrow = [each.table for each in root.members if each.oid in found]
    # What the facts need of the table they need of each leaf, which has the same columns.
    asked = (ask_table(source, leaf, facts, table) for leaf in narrow)
    names = ", ".join(map(str, narrow[:_LISTED]))
    more = f" and {len(narrow) - _LISTED} more" if len(narrow) > _LISTED else ""
    return IdentityTooNarrow(
        f"The replica identity of the partitions {names}{more} of {table} does not carry all of "
        f"{', '.join(needed) or 'a key'}: deletes and moves between groups could not be counted",
        " ".join(identity_change(each, needed)[0] for each in asked),
    )


def declared_leaves(roots: Mapping[Table, Root], tables: Iterable[Table]) -> list[LoaderError]:
    """Return which tables are to be followed both by themselves and as a part of another."""
    named = set(tables)
    return [
        TableUnfit(
            f"{each.table} is a partition of {table}, and both are to be followed: a change could "
            "have one name only",
            f"take one of them out of the declarations; {table} has all rows",
        )
        for table, root in roots.items()
        for each in root.members[1:]
        if each.table in named
    ]


def _parent(root: Root, oid: int) -> Table:
    return next(each.table for each in root.members if each.oid == oid)
