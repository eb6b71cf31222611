"""What the demo prints from the warehouse: its state while it runs, and a table at the end."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.table import Table

from testkit.source import transaction

# Over all slots: the number whose changes are in the model, the most that is not staged, and how
# long ago the model was exact.
_STATE = """
select
    count(exact.as_of),
    max(pg_wal_lsn_diff(pg_current_wal_lsn(), slot_position.position_lsn))::bigint,
    max(extract(epoch from clock_timestamp() - exact.as_of)::float8)
from cdc.slot_position
cross join lateral cdc.exact_as_of(slot_position.slot_name, %(model)s) as exact (as_of)
"""


class PipelineState(NamedTuple):
    """The state of the pipeline."""

    total: int
    """What the model counts altogether."""
    unstaged_bytes: int
    """WAL that the server has written since the position of record."""
    age: float | None
    """How long ago, in seconds, all that was committed is in the model; None before the first."""


def pipeline_state(dsn: str, model: str, total: str, slots: int) -> PipelineState | None:
    """Read the state of the pipeline; None before all slots have built the model.

    `total` is SQL that gives what the model counts altogether.
    """
    with transaction(dsn) as cursor:
        cursor.execute(_STATE, {"model": model})
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
