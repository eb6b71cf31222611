"""What stands in the way of following or counting a table: one finding per function. Pure."""

from __future__ import annotations

import itertools

from loader.preflight.source_facts import TableFacts
from waltally.errors import IdentityTooNarrow, LoaderError, TableUnfit
from waltally.tables import DIMENSIONS, quoted


def table_findings(facts: TableFacts, counted: bool) -> list[LoaderError]:
    """Return what is wrong with a table; one that is only logged needs no dimensions."""
    if not counted:
        return [unfit] if (unfit := table_fit(facts)) else []
    unfit = countable(facts)
    if unfit is not None:
        return [unfit]
    narrow = identity_wide(facts)
    return [narrow] if narrow else []


def countable(facts: TableFacts) -> LoaderError | None:
    """Return why the rows of a table cannot be counted, None where they can."""
    return table_fit(facts) or dimensions_present(facts) or dimensions_readable(facts)


def table_fit(facts: TableFacts) -> LoaderError | None:
    """Only an ordinary, logged table that has the dimensions can be followed."""
    remedy = "name existing tables in LOADER_TABLES or --tables"
    if facts.kind is None:
        return TableUnfit(f"The table {facts.table} does not exist at the source", remedy)
    if facts.kind == "p":
        return TableUnfit(
            f"The table {facts.table} is partitioned: its changes come under its partitions' names",
            "name the partitions in LOADER_TABLES; counting a partitioned table is not supported",
        )
    if facts.kind != "r":
        return TableUnfit(f"{facts.table} is not a table", remedy)
    if facts.persistence != "p":
        return TableUnfit(
            f"The table {facts.table} is not logged, so its changes reach no slot",
            f"alter table {facts.table.quoted} set logged;",
        )
    return None


def dimensions_present(facts: TableFacts) -> LoaderError | None:
    """A counted table must have every dimension."""
    missing = [name for name in DIMENSIONS if name not in facts.columns]
    if not missing:
        return None
    return TableUnfit(
        f"The table {facts.table} has no column {', '.join(missing)}",
        "name tables that have " + ", ".join(DIMENSIONS) + " in LOADER_TABLES",
    )


def dimensions_readable(facts: TableFacts) -> LoaderError | None:
    """A value must have the same text in every session: the stream and the seed are two."""
    if not facts.by_session:
        return None
    found = facts.by_session.items()
    listed = ", ".join(f"column {name} with values of type {type_}" for name, type_ in found)
    changes = ", ".join(f"alter {quoted(name)} type text" for name, _ in found)
    return TableUnfit(
        f"The table {facts.table} has {listed}, whose text depends on the session that reads it, "
        "so it cannot be a dimension",
        f"alter table {facts.table.quoted} {changes};",
    )


def identity_wide(facts: TableFacts) -> LoaderError | None:
    """An old row must carry the dimensions, or its count cannot be found again.

    Source: PostgreSQL documentation, "ALTER TABLE", REPLICA IDENTITY.
    """
    if facts.identity == "f":
        return None
    missing = [name for name in DIMENSIONS if name not in facts.identity_columns]
    if not missing and facts.identity != "n":
        return None
    return IdentityTooNarrow(
        f"The replica identity of {facts.table} does not carry {', '.join(missing)}: "
        "deletes and moves between groups could not be counted",
        identity_remedy(facts),
    )


def identity_remedy(facts: TableFacts) -> str:
    """Return the SQL that gives the table an identity wide enough."""
    table = facts.table
    choose = f"alter table {table.quoted} replica identity"
    if facts.wide_index is not None:
        return f"{choose} using index {quoted(facts.wide_index)};"
    nullable = [name for name in DIMENSIONS if not facts.columns.get(name)]
    if nullable or not facts.primary_key:
        why = f"{', '.join(nullable)} may be null" if nullable else "the table has no primary key"
        return f"{choose} full; -- an index would write less WAL, but {why}"
    index = quoted(_free_name(table.name, facts.names_taken))
    columns = ", ".join(map(quoted, dict.fromkeys((*facts.primary_key, *DIMENSIONS))))
    return (
        f"create unique index concurrently {index} on {table.quoted} ({columns}); "
        f"{choose} using index {index};"
    )


def _free_name(table: str, taken: frozenset[str]) -> str:
    """Return a name for the table's index: the server would cut a longer one at 63 bytes."""
    for number in itertools.count(1):
        suffix = "_replica_identity" + (f"_{number}" if number > 1 else "")
        name = table.encode()[: 63 - len(suffix)].decode(errors="ignore") + suffix
        if name not in taken:
            return name
    raise AssertionError("the numbers have no end")
