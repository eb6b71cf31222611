"""What the demo prints from the warehouse: its state while it runs, and a table at the end."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.table import Table

from testkit.source import transaction

# Over all slots: the number that have built the model, the most that is not staged, the oldest of
# their newest changes.
_STATE = """
select
    count(model_watermark.applied_lsn),
    max(pg_wal_lsn_diff(pg_current_wal_lsn(), slot_position.position_lsn))::bigint,
    max((
        select extract(epoch from clock_timestamp() - change_log.committed_at)::float
        from cdc.change_log
        where
            change_log.slot_name = slot_position.slot_name
            and change_log.commit_lsn < model_watermark.applied_lsn
        order by change_log.commit_lsn desc, change_log.ordinal desc
        limit 1
    ))
from cdc.slot_position
left join cdc.model_watermark
    on model_watermark.slot_name = slot_position.slot_name
    and model_watermark.model_name = %s
"""


class PipelineState(NamedTuple):
    """The state of the pipeline."""

    total: int
    """What the fact counts altogether."""
    unstaged_bytes: int
    """WAL that the server has written since the position of record."""
    age: float | None
    """Seconds since the commit of the newest change that the fact holds; None before the first."""


def pipeline_state(dsn: str, fact: str, total: str, slots: int) -> PipelineState | None:
    """Read the state of the pipeline; None before all slots have built the fact.

    `total` is SQL that gives what the fact counts altogether.
    """
    with transaction(dsn) as cursor:
        cursor.execute(_STATE, (f"analytics.{fact}",))
        [(built, unstaged_bytes, age)] = cursor.fetchall()
        if built < slots:
            return None
        cursor.execute(total)
        [(counted,)] = cursor.fetchall()
    return PipelineState(counted, unstaged_bytes, age)


def pivot(dsn: str, corner: str, query: str) -> Table:
    """Return a table of what the query gives: the name of a row and of a column, and the number."""
    with transaction(dsn) as cursor:
        cursor.execute(query)
        cells: dict[tuple[str, str], int | Decimal] = {
            (row, column): number for row, column, number in cursor
        }
    columns = sorted({column for _, column in cells})
    table = Table(corner, *columns, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.columns[0].no_wrap = True
    for each in table.columns[1:]:
        each.justify = "right"
    for row in sorted({row for row, _ in cells}):
        table.add_row(row, *(f"{cells.get((row, column), 0):,}" for column in columns))
    return table
