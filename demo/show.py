"""What the demo prints from the database: its state while it runs, and a table at the end."""

from __future__ import annotations

from typing import NamedTuple

from rich.table import Table

from demo.source import transaction

_STATE = """
select
    (select coalesce(sum("count"), 0)::bigint from analytics.ft_service_stats),
    pg_wal_lsn_diff(pg_current_wal_lsn(), slot_position.position_lsn)::bigint,
    (
        select extract(epoch from clock_timestamp() - change_log.committed_at)::float
        from cdc.change_log
        where
            change_log.slot_name = slot_position.slot_name
            and change_log.commit_lsn < (
                select max(model_watermark.applied_lsn)
                from cdc.model_watermark
                where
                    model_watermark.slot_name = slot_position.slot_name
                    and model_watermark.model_name = 'analytics.ft_service_stats'
            )
        order by change_log.commit_lsn desc, change_log.ordinal desc
        limit 1
    )
from cdc.slot_position
"""

_BY_STATUS = """
select
    services.name,
    notification_status,
    sum(stats."count")::bigint
from analytics.ft_service_stats as stats
inner join services on services.id = stats.service_id
where services.name in (
    select services.name
    from analytics.ft_service_stats
    inner join services on services.id = ft_service_stats.service_id
    group by services.name
    order by sum(ft_service_stats."count") desc
    limit %s
)
group by services.name, notification_status
order by services.name, notification_status
"""


class PipelineState(NamedTuple):
    """The state of the pipeline."""

    rows: int
    """The sum of `count` over the fact."""
    unstaged_bytes: int
    """WAL that the server has written since the position of record."""
    age: float | None
    """Seconds since the commit of the newest change that the fact holds; None before the first."""


def pipeline_state(dsn: str) -> PipelineState | None:
    """Read the state of the pipeline; None before the fact is built for the first time."""
    with transaction(dsn) as cursor:
        cursor.execute("select to_regclass('analytics.ft_service_stats') is not null")
        if cursor.fetchall() == [(False,)]:
            return None
        cursor.execute(_STATE)
        row = cursor.fetchone()
    assert row is not None, "loader setup has written the slot's position"
    return PipelineState(*row)


def counts_by_status(dsn: str, services: int = 5) -> Table:
    """Return the largest services' counts by status, as the fact has them."""
    with transaction(dsn) as cursor:
        cursor.execute(_BY_STATUS, (services,))
        cells = {(row[0], row[1]): row[2] for row in cursor}
    names = sorted({service for service, _ in cells})
    table = Table("status", *names, padding=0)
    table.columns[0].no_wrap = True
    for column in table.columns[1:]:
        column.justify = "right"
    for status in sorted({status for _, status in cells}):
        table.add_row(status, *(f"{cells.get((name, status), 0):,}" for name in names))
    return table
