"""Notify for the demo and the tests; its source and its traffic are in demo/."""

from __future__ import annotations

from collections.abc import Sequence

from demo.example import Example
from testkit import source
from testkit.comparison import Recount
from testkit.notify_changes import Session
from testkit.notify_traffic import Traffic
from testkit.traffic import Sessions

_DAY_COLUMNS = ("key_type", "created_at")
"""What the model by day needs of an old row, besides the dimensions of ft_service_stats."""


def create(dsn: str) -> None:
    """Make the empty tables; an index carries what an old row must say."""
    source.create(dsn)
    source.set_identity(dsn, "covering", (*source.DIMENSIONS, *_DAY_COLUMNS))


def fill(dsn: str, rows: int, seed: int) -> None:
    """Fill the empty tables: two rows of five are live."""
    live_rows = rows * 2 // 5
    source.fill(dsn, live_rows=live_rows, history_rows=rows - live_rows, seed=seed)


def traffic(dsn: str, *, seed: int, rate: float | None, truncates: bool) -> Sessions[Session]:
    """Four sessions that write notifications and move them to history."""
    return Traffic(dsn, seed=seed, rate=rate, identity="covering", truncates=truncates)


def recount(model: str, keys: Sequence[tuple[str, str]], where: str = "true") -> Recount:
    """Return the recount of a model of both tables; `keys` are its columns, each with its SQL."""
    columns = (
        "service_id, template_id, notification_type, notification_status, key_type, created_at"
    )
    expressions = ", ".join(expression for _, expression in keys)
    return Recount(
        model,
        keys=tuple(column for column, _ in keys),
        values=("live_count", "archived_count", "count"),
        query=f"""
            with rows as (
                select 'live' as part, {columns} from notifications
                union all
                select 'archived', {columns} from notification_history
                union all
                select 'archived', {columns} from truth.purged
                where xid = any(%(purges)s::bigint[])
            )
            select
                {expressions},
                count(*) filter (where part = 'live'),
                count(*) filter (where part = 'archived'),
                count(*)
            from rows
            where {where}
            group by {", ".join(str(place) for place, _ in enumerate(keys, start=1))}
        """,
    )


_GROUP = tuple((column, column) for column in source.DIMENSIONS)
DAY = "(created_at at time zone 'UTC' at time zone 'Europe/London')::date"
NOT_TEST = "key_type not in ('test')"

SERVICES = Recount(
    "services",
    keys=("id",),
    values=("name",),
    query="select id, name from services",
    is_rows=True,
)

BY_SERVICE = Recount(
    "ft_services",
    keys=("service_id",),
    values=("live_count", "archived_count", "count", "template_count"),
    query="""
        with rows as (
            select service_id, template_id, 1 as live from notifications
            union all
            select service_id, null, 0 from notification_history
            union all
            select service_id, null, 0 from truth.purged
            where xid = any(%(purges)s::bigint[])
        )
        select
            service_id,
            sum(live),
            sum(1 - live),
            count(*),
            count(distinct template_id)
        from rows
        group by 1
    """,
    purges_since="ft_service_stats",
)

EXAMPLE = Example(
    name="notify",
    slots=("notify_dashboard_replication_slot",),
    about="inserts, moves, archiving, purges, services with other names, rollbacks",
    create=create,
    fill=fill,
    traffic=traffic,
    recounts=(
        recount("ft_service_stats", _GROUP),
        recount("ft_service_days", (("bst_date", DAY), *_GROUP), NOT_TEST),
        SERVICES,
        BY_SERVICE,
    ),
    total="""select coalesce(sum("count"), 0)::bigint from analytics.ft_service_stats""",
    total_of="notifications",
    table="""
        with largest as (
            select service_id
            from analytics.ft_service_stats
            group by service_id
            order by sum("count") desc
            limit 5
        )

        select stats.notification_status, services.name, sum(stats."count")::bigint
        from analytics.ft_service_stats as stats
        inner join largest using (service_id)
        inner join services on services.id = stats.service_id
        group by stats.notification_status, services.name
    """,
    corner="status",
)
