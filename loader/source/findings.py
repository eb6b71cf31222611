"""What is wrong with the source's tables for these facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from loader.source import table_checks, table_identity
from loader.source.leaf_catalog import LeafCatalog
from loader.source.table import ask_table
from loader.source.table_checks import identity_change
from loader.staging.logged_tables import Root
from waltally.database import Connection, Target
from waltally.errors import IdentityTooNarrow, LoaderError, TableUnfit
from waltally.facts import Fact, identity_columns, source_tables
from waltally.tables import Table


def table_findings(facts: Sequence[Fact], source: Connection) -> list[LoaderError]:
    """Return what is wrong with the source's tables."""
    tables = source_tables(facts)
    findings: list[LoaderError] = []
    for table in tables:
        findings += table_checks.table_findings(ask_table(source, table, facts), facts)
    roots = LeafCatalog(source, tables, {}).roots
    return findings + declared_leaves(roots, tables) + leaf_findings(source, roots, facts)


def value_notes(facts: Sequence[Fact], source: Connection) -> list[str]:
    """Return which columns can hold values that are not counted, or count as null."""
    found: list[str] = []
    for table in source_tables(facts):
        info = ask_table(source, table, facts)
        found += table_checks.texts_notes(info, facts)
        if note := table_checks.special_numbers_note(info, facts):
            found.append(note)
    return found


def tables_replaced(
    source: Connection, target: Target, counted: Sequence[Fact]
) -> list[LoaderError]:
    """Return which tables or columns are no longer those that the facts counted."""
    before = table_identity.read_counted(target)
    now = table_identity.read_current(source, counted)
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
    findings: list[LoaderError] = []
    for table, root in roots.items():
        findings += _unfit_leaves(table, root)
        if table in counted and (narrow := _narrow_leaves(source, table, root, facts)) is not None:
            findings.append(narrow)
    return findings


def _unfit_leaves(table: Table, root: Root) -> Iterator[LoaderError]:
    """Yield which leaves have rows that change without WAL."""
    tables = {member.oid: member.table for member in root.members}
    for leaf in root.members:
        if not leaf.is_unfit:
            continue
        if leaf.kind == "f":
            what = "a foreign table"
            parent = tables[leaf.parent].quoted
            remedy = f"alter table {parent} detach partition {leaf.table.quoted};"
        else:
            what = "not logged"
            remedy = f"alter table {leaf.table.quoted} set logged;"
        yield TableUnfit(
            f"The partition {leaf.table} of {table} is {what}, so its changes reach no slot", remedy
        )


def _narrow_leaves(
    source: Connection, table: Table, root: Root, facts: Sequence[Fact]
) -> LoaderError | None:
    """Return which leaves have a replica identity without what the facts need of an old row.

    A new leaf does not inherit the identity of its parent.
    """
    needed = identity_columns(facts, table)
    leaves = {
        leaf.oid: leaf.table for leaf in root.members if leaf.kind != "p" and not leaf.is_unfit
    }
    rows = source.ask(_NARROW, {"leaves": list(leaves), "needed": list(needed)})
    narrow = [table for oid, table in leaves.items() if (oid,) in rows]
    if not narrow:
        return None
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
