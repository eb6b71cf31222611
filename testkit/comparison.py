"""A model compared with a recount, which is plain SQL on the source and none of its code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from testkit.source import transaction
from waltally.tables import quoted

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Recount:
    """What a model must hold, as SQL that is run on each of its sources.

    `keys` are the columns that tell the model's rows apart, `values` those that are compared. The
    query gives keys and values in this order, one row per group. Its parameters are `%(slot)s` and
    `%(purges)s`, the transaction ids whose purged rows still count: since the baseline of the model
    itself, or of `purges_since`. A model that `is_rows` holds current rows. In any other a group
    whose values are all zero or null is no group.
    """

    model: str
    keys: tuple[str, ...]
    values: tuple[str, ...]
    query: str
    purges_since: str | None = None
    is_rows: bool = False


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
    recount: Recount, sources: Mapping[str, str], warehouse: str, since: str | None = None
) -> list[Difference]:
    """Compare a model with a recount, group by group; an empty list means exact.

    `sources` are slots with the DSNs of their databases; `warehouse` is where the model is. Purged
    rows count where their transaction is in the change log from the position `since` on; None means
    from the model's newest baseline on. Meaningful once the sources are quiet and the model has
    applied everything.
    """
    expected: dict[Row, Row] = {}
    for slot, dsn in sources.items():
        model = recount.purges_since or recount.model
        staged = ask(warehouse, _STAGED, {"slot": slot, "model": model, "since": since})
        purges = [int(xid) for (xid,) in staged]
        expected |= read_rows(dsn, recount, {"slot": slot, "purges": purges})
    actual = read_model(warehouse, recount)
    return [
        Difference(recount.model, group, expected.get(group), actual.get(group))
        for group in sorted(expected.keys() | actual.keys(), key=repr)
        if expected.get(group) != actual.get(group)
    ]


# This hides no error: if a purge were missing from the change log, its rows would still be in the
# model and no longer in the recount.
_STAGED = """
select distinct xid
from cdc.change_log
where
    slot_name = %(slot)s
    and commit_lsn >= coalesce(
        %(since)s::pg_lsn,
        (
            select snapshot_lsn from cdc.baseline
            where slot_name = %(slot)s and model_name = %(model)s
        ),
        '0/0'
    )
"""


def read_model(dsn: str, recount: Recount) -> dict[Row, Row]:
    """Read what the model holds, by group."""
    columns = ", ".join(map(quoted, (*recount.keys, *recount.values)))
    return _by_group(recount, ask(dsn, f"select {columns} from analytics.{quoted(recount.model)}"))


def read_rows(dsn: str, recount: Recount, parameters: Mapping[str, object]) -> dict[Row, Row]:
    """Count one source, by group."""
    return _by_group(recount, ask(dsn, recount.query, parameters))


def ask(dsn: str, query: str, parameters: Mapping[str, object] | None = None) -> list[Row]:
    """Return the rows of a query."""
    with transaction(dsn) as cursor:
        cursor.execute(query, parameters or None)
        return cursor.fetchall()


def _by_group(recount: Recount, rows: Sequence[Row]) -> dict[Row, Row]:
    width = len(recount.keys)
    found = {row[:width]: row[width:] for row in rows}
    assert len(found) == len(rows), f"{recount.model}: two rows of one group"
    return {
        group: values
        for group, values in found.items()
        if recount.is_rows or any(value not in (0, None) for value in values)
    }
