"""Reads the change log in parallel ranges, each of whole source transactions."""

from __future__ import annotations

from collections.abc import Iterator

from waltally import lsn
from waltally.tables import Table
from waltally_jobs.common import messages
from waltally_jobs.common.connections import TargetSession
from waltally_jobs.common.messages import Position

SCHEMA = (
    "commit_lsn bigint, ordinal bigint, xid bigint, committed_at timestamp_ltz,"
    " staged_at timestamp_ltz, action string, payload string"
)
"""The columns of cdc.change_log for Spark; positions are integers, in bytes of WAL."""

CHANGES_PER_RANGE = 200_000
"""A few seconds of reading, and one step of progress."""

_ALL = (
    "(commit_lsn - '0/0')::bigint as commit_lsn, ordinal, xid, committed_at, staged_at,"
    " action::text as action, payload"
)
COUNTED = "(commit_lsn - '0/0')::bigint as commit_lsn, ordinal, action::text as action, payload"
"""What counting needs of a change."""

_SELECT = """
    select {columns}
    from {log}
    where slot_name = '{slot}' and commit_lsn >= '{begin}' and commit_lsn < '{end}'
"""


def query(schema: str, slot: str, from_lsn: int, to_lsn: int, columns: str = _ALL) -> str:
    """Return the SQL of the changes with from_lsn <= commit_lsn < to_lsn."""
    return _SELECT.format(
        columns=columns,
        log=Table(schema, "change_log").quoted,
        slot=slot,
        begin=lsn.show(from_lsn),
        end=lsn.show(to_lsn),
    )


def ends(
    target: TargetSession, from_lsn: int, to_lsn: int, changes: int = CHANGES_PER_RANGE
) -> Iterator[int]:
    """Yield the ends of ranges of about `changes` changes; each lies between two transactions.

    The last is `to_lsn`. A transaction larger than a range is a range of its own.
    """
    query = f"select end_lsn::text from {target.table('batch_end')}(%s, %s, %s, %s)"
    end = from_lsn
    while end < to_lsn:
        ((found,),) = target.ask(query, (target.slot, lsn.show(end), lsn.show(to_lsn), changes))
        end = lsn.parse(found)
        yield end


def truncates(target: TargetSession, from_lsn: int, to_lsn: int) -> dict[Table, Position]:
    """Return where each table was last emptied in between."""
    rows = target.ask(
        f"select log.commit_lsn::text, ordinal, payload from {target.table('change_log')} as log"
        " where slot_name = %s and commit_lsn >= %s and commit_lsn < %s"
        # The condition of the index change_log_truncates, word for word.
        " and (action is null or action = 'T')",
        (target.slot, lsn.show(from_lsn), lsn.show(to_lsn)),
    )
    return messages.truncates(
        ((lsn.parse(at), ordinal), payload.encode()) for at, ordinal, payload in rows
    )


def count(target: TargetSession, from_lsn: int, to_lsn: int) -> int:
    """Return how many changes of the slot there are with from_lsn <= commit_lsn < to_lsn."""
    ((count,),) = target.ask(
        f"select count(*) from {target.table('change_log')}"
        " where slot_name = %s and commit_lsn >= %s and commit_lsn < %s",
        (target.slot, lsn.show(from_lsn), lsn.show(to_lsn)),
    )
    return int(count)
