"""Which tables were counted: a name may later mean another table, an oid does not. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from waltally.errors import LoaderError, TableReplaced, TableUnfit
from waltally.facts import Fact
from waltally.tables import Table


class TableIdentity(TypedDict):
    """What tells a table from another of the same name."""

    table_oid: int
    named_xid: int
    """The transaction that last gave it its name: the xmin of its row in pg_type.

    RENAME TO, SET SCHEMA and OWNER TO write that row again; no other command does, VACUUM FREEZE
    and FULL included."""
    column_numbers: dict[str, int]
    """The attribute numbers of the needed columns that it has."""


TableIdentities = Mapping[str, TableIdentity]
"""By `schema.name`."""


def of_fact(identities: TableIdentities, fact: Fact) -> TableIdentities:
    """Return what the identities say of the tables and columns of one fact."""
    return {
        label: {
            **identities[label],
            "column_numbers": {
                name: number
                for name, number in identities[label]["column_numbers"].items()
                if name in columns
            },
        }
        for label, columns in fact.needed.items()
        if label in identities
    }


def replaced_findings(
    facts: Sequence[Fact], counted: Mapping[str, TableIdentities], found: TableIdentities
) -> list[LoaderError]:
    """Return which tables or columns are not those that the facts counted, each table once."""
    said: dict[str, LoaderError] = {}
    for fact in facts:
        finding = replaced_finding(fact, counted.get(fact.name, {}), found)
        if finding is not None:
            said.setdefault(str(finding), finding)
    return list(said.values())


def replaced_finding(
    fact: Fact, counted: TableIdentities, found: TableIdentities
) -> LoaderError | None:
    """Return which table or column is not the one that was counted, None where all are.

    A table that was renamed and renamed back is the same one, but the log lacks the changes made
    under the other name. Tables and columns that are missing now are left to another check.
    """
    for name, before in of_fact(counted, fact).items():
        now = found.get(name, before)
        other = [
            column
            for column, number in before["column_numbers"].items()
            if now["column_numbers"].get(column, number) != number
        ]
        if now["table_oid"] != before["table_oid"]:
            said = (
                f"{name} is now another table than was counted: the former one's rows are "
                "still in the counts"
            )
        elif other:
            said = (
                f"{', '.join(other)} of {name} was dropped and made again: the former values are "
                "still in the counts"
            )
        elif now["named_xid"] != before["named_xid"]:
            said = (
                f"{name} was renamed, moved to another schema or given another owner after it was "
                "counted: changes that were made under another name are not in the counts"
            )
        else:
            continue
        return TableReplaced(
            said, "`spark-submit spark/seed.py` counts what is there now; then `dbt build`"
        )
    return None


def missing_finding(table: Table) -> LoaderError:
    """Return the error for a registered table that the source does not have."""
    return TableUnfit(
        f"The table {table} does not exist at the source, or has another name now",
        "give the table its name back or make it again; what was written under another name "
        "is not in the log, so then `spark-submit spark/seed.py`, then `dbt build`",
    )
