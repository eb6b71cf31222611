"""A model compared with a recount, which is plain SQL on the source and none of its code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from psycopg2 import sql

from testkit.source import transaction

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Recount:
    """What a model must hold, as SQL that is run on each of its sources."""

    model: str
    """The model's name."""
    keys: tuple[str, ...]
    """The columns that tell its rows apart."""
    values: tuple[str, ...]
    """The columns to be compared."""
    query: str
    """Gives keys and values in this order, one row per group.

    Parameters: `%(slot)s`, and `%(purges)s`, the transaction ids whose purged rows still count.
    """
    purges_since: str | None = None
    """The model since whose baseline purged rows count, where it is another one."""
    is_rows: bool = False
    """Whether it holds current rows. Else a group whose values are all zero or null is no group."""


def apart(stored: str, asked: str) -> str:
    """Return a query for the rows that one query gives and the other does not, as texts.

    Each has its side: what a model has stored, or what its query gives when it is asked.
    """
    return (
        f"with stored as ({stored}\n), asked as ({asked}\n)"
        " (select 'stored' as side, t::text from (table stored except all table asked) as t)"
        " union all (select 'asked', t::text from (table asked except all table stored) as t)"
    )


class Difference(NamedTuple):
    """A group whose model and recount differ; None where the group is missing."""

    model: str
    group: Row
    expected: Row | None
    actual: Row | None


def differences(
    recount: Recount,
    sources: Mapping[str, str],
    warehouse: str,
    since: str | None = None,
) -> list[Difference]:
    """Compare a model with a recount, group by group; an empty list means exact.

    `sources` are slots with the DSNs of their databases; `warehouse` is where the model is. Purged
    rows count where their transaction is in the change log from the position `since` on; None means
    from the model's newest baseline on. Meaningful once the sources are quiet and the model has
    applied everything.
    """
    wanted: dict[Row, Row] = {}
    for slot, dsn in sources.items():
        purges = None
        if "%(purges)s" in recount.query:
            model = recount.purges_since or recount.model
            purges = staged_transactions(warehouse, slot, model, since)
        wanted |= read_rows(dsn, recount, {"slot": slot, "purges": purges})
    return compare(recount, wanted, read_model(warehouse, recount))


def compare(
    recount: Recount, wanted: Mapping[Row, Row], found: Mapping[Row, Row]
) -> list[Difference]:
    """Return the groups of the recount and of the model that are not the same."""
    return [
        Difference(recount.model, group, wanted.get(group), found.get(group))
        for group in sorted(wanted.keys() | found.keys(), key=repr)
        if wanted.get(group) != found.get(group)
    ]


_STAGED = """
select coalesce(array_agg(distinct xid), '{}')
from cdc.change_log
where
    slot_name = %(slot)s
    and commit_lsn >= coalesce(
        %(since)s::pg_lsn,
        (
            select snapshot_lsn from cdc.baseline
            where slot_name = %(slot)s and declared_name = %(model)s
        ),
        '0/0'
    )
"""


def staged_transactions(dsn: str, slot: str, model: str, since: str | None = None) -> list[int]:
    """Return the ids of the transactions in the change log from a position on.

    `since` is the position; None means the model's baseline, or the log's start where it has none.
    This hides no error: if a purge were missing from the change log, its rows would still be in the
    model and no longer in the recount.
    """
    with transaction(dsn) as cursor:
        cursor.execute(_STAGED, {"slot": slot, "model": model, "since": since})
        [[ids]] = cursor.fetchall()
        return [int(xid) for xid in ids]


def read_model(dsn: str, recount: Recount) -> dict[Row, Row]:
    """Read what the model holds, by group."""
    columns = sql.SQL(", ").join(map(sql.Identifier, (*recount.keys, *recount.values)))
    table = sql.Identifier("analytics", recount.model)
    return _rows(dsn, sql.SQL("select {} from {}").format(columns, table), recount, {})


def read_rows(dsn: str, recount: Recount, parameters: Mapping[str, object]) -> dict[Row, Row]:
    """Count one source, by group."""
    return _rows(dsn, sql.SQL(recount.query), recount, parameters)


def _rows(
    dsn: str, query: sql.Composable, recount: Recount, parameters: Mapping[str, object]
) -> dict[Row, Row]:
    width = len(recount.keys)
    with transaction(dsn) as cursor:
        cursor.execute(query, parameters or None)
        rows: Sequence[Row] = cursor.fetchall()
    found = {row[:width]: row[width:] for row in rows}
    assert len(found) == len(rows), f"{recount.model}: two rows of one group"
    return {
        group: values
        for group, values in found.items()
        if recount.is_rows or any(value not in (0, None) for value in values)
    }
