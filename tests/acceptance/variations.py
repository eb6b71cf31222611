"""Facts that are added to an example, and facts that are declared otherwise, while it runs."""

from __future__ import annotations

from typing import NamedTuple

from examples.notify.example import DAY, recount
from examples.time_entries.example import recount_months
from testkit.comparison import Recount
from testkit.source import DIMENSIONS


class Model(NamedTuple):
    """The body of a fact's model, and what it must hold."""

    declaration: str
    recount: Recount
    roll_ups: tuple[Recount, ...] = ()
    """What each of its roll-ups must hold then, whose models stay."""


class Variation(NamedTuple):
    """What happens to an example's facts; a changed one is named like one of the example's."""

    added: Model
    changed: Model


_NOTIFY_TABLES = """{
    'live': 'public.notifications',
    'archived': {'table': 'public.notification_history', 'deletes': 'ignore'},
}"""

# One measure of both tables: what a TRUNCATE of one of them takes away is in no number of its own.
_BY_MONTH = recount(
    "ft_months",
    (
        ("month", f"date_trunc('month', {DAY})::date"),
        ("service_id", "service_id"),
        ("key_type", "key_type"),
    ),
    "notification_status not in ('created', 'technical-failure')",
)
NOTIFY = Variation(
    added=Model(
        f"""{{{{ waltally.fact(
    tables={_NOTIFY_TABLES},
    dimensions={{
        'month': {{'month_of': 'created_at', 'timezone': 'Europe/London'}},
        'service_id': 'uuid',
        'key_type': 'text',
    }},
    measures={{'all_count': {{'count': ['live', 'archived']}}}},
    where={{'notification_status': {{'not_in': ['created', 'technical-failure']}}}},
) }}}}""",
        Recount(
            "ft_months",
            keys=_BY_MONTH.keys,
            values=("all_count",),
            query=f"""
                select month, service_id, key_type, both_count
                from ({_BY_MONTH.query})
                    as counted (month, service_id, key_type, live_count, archived_count, both_count)
            """,
        ),
    ),
    # Another zone, no condition, one more dimension.
    changed=Model(
        f"""{{{{ waltally.fact(
    tables={_NOTIFY_TABLES},
    dimensions={{
        'bst_date': {{'date_of': 'created_at', 'timezone': 'Pacific/Auckland'}},
        'service_id': 'uuid',
        'template_id': 'uuid',
        'notification_type': 'text',
        'notification_status': 'text',
        'key_type': 'text',
    }},
    measures={{
        'live_count': {{'count': 'live'}},
        'archived_count': {{'count': 'archived'}},
    }},
    derived={{'count': 'live_count + archived_count'}},
) }}}}""",
        recount(
            "ft_service_days",
            (
                (
                    "bst_date",
                    "(created_at at time zone 'UTC' at time zone 'Pacific/Auckland')::date",
                ),
                *((column, column) for column in DIMENSIONS),
                ("key_type", "key_type"),
            ),
        ),
    ),
)

SHOP = Variation(
    added=Model(
        """{{ waltally.fact(
    tables={
        'orders': {
            'table': '"Web Shop"."Orders"',
            'columns': {
                'shop_id': 'Shop id',
                'channel': 'Channel',
                'placed_at': 'placedAt',
                'amount': 'Total, gross',
            },
        },
    },
    dimensions={
        'shop_id': 'integer',
        'month': {'month_of': 'placed_at', 'timezone': 'America/New_York'},
    },
    measures={
        'amount': {'sum': 'amount'},
        'order_count': {'count': 'orders'},
    },
    where={
        'channel': {'in': ['web', 'app', 'odd "channel", \\\\ %s']},
        'amount': {'is_null': false},
    },
) }}""",
        Recount(
            "ft_shops",
            keys=("shop_id", "month"),
            values=("amount", "order_count"),
            query="""
                select
                    "Shop id",
                    date_trunc('month', "placedAt" at time zone 'America/New_York')::date,
                    sum("Total, gross"),
                    count(*)
                from "Web Shop"."Orders"
                where
                    "Channel" in ('web', 'app', 'odd "channel", \\ %%s')
                    and "Total, gross" is not null
                group by 1, 2
            """,
        ),
    ),
    changed=Model(
        """{{ waltally.fact(
    tables={
        'orders': {
            'table': '"Web Shop"."Orders"',
            'columns': {
                'channel': 'Channel',
                'status': 'Status',
                'placed_at': 'placedAt',
                'amount': 'Total, gross',
            },
        },
    },
    dimensions={
        'day': {'date_of': 'placed_at', 'timezone': 'UTC'},
        'channel': 'text',
        'status': 'text',
    },
    measures={
        'order_count': {'count': 'orders'},
        'amount': {'sum': 'amount'},
    },
) }}""",
        Recount(
            "ft_orders",
            keys=("day", "channel", "status"),
            values=("order_count", "amount"),
            query="""
                select
                    ("placedAt" at time zone 'UTC')::date,
                    "Channel",
                    "Status",
                    count(*),
                    coalesce(sum("Total, gross"), 0)
                from "Web Shop"."Orders"
                where "Channel" is not null
                group by 1, 2, 3
            """,
        ),
    ),
)

TIME_ENTRIES = Variation(
    added=Model(
        """{{ waltally.fact(
    tables={'entries': 'public.time_entries'},
    dimensions={'person': 'text', 'office': {'from': 'slot'}},
    measures={
        'hours': {'sum': 'hours', 'type': 'numeric(14, 3)'},
        'entry_count': {'count': 'entries'},
    },
    where={'project_id': {'is_null': false}},
) }}""",
        Recount(
            "ft_people",
            keys=("person", "office"),
            values=("hours", "entry_count"),
            query="""
                select person, %(slot)s, coalesce(sum(hours), 0), count(*)
                from time_entries
                where project_id is not null
                group by 1
            """,
        ),
    ),
    # Another zone, no entries without a project, one more dimension.
    changed=Model(
        """{{ waltally.fact(
    tables={'entries': 'public.time_entries'},
    dimensions={
        'office': {'from': 'slot'},
        'project_id': 'bigint',
        'month': {'month_of': 'started_at', 'timezone': 'Pacific/Auckland'},
        'day': {'date_of': 'started_at', 'timezone': 'Europe/Lisbon'},
    },
    measures={
        'entry_count': {'count': 'entries'},
        'hours': {'sum': 'hours', 'of': 'entries'},
    },
) }}""",
        Recount(
            "ft_project_hours",
            keys=("office", "project_id", "month", "day"),
            values=("entry_count", "hours"),
            query="""
                select
                    %(slot)s,
                    project_id,
                    date_trunc(
                        'month', started_at at time zone 'UTC' at time zone 'Pacific/Auckland'
                    )::date,
                    (started_at at time zone 'UTC' at time zone 'Europe/Lisbon')::date,
                    count(*),
                    coalesce(sum(hours), 0)
                from time_entries
                where project_id is not null
                group by 2, 3, 4
            """,
        ),
        (recount_months("Pacific/Auckland", "e.project_id is not null"),),
    ),
)

VARIATIONS = {"notify": NOTIFY, "shop": SHOP, "time_entries": TIME_ENTRIES}
