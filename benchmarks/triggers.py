"""The counts that an application would keep by triggers in its own transactions."""

from __future__ import annotations

from pathlib import Path

from benchmarks.workload import ask

_TRIGGERS = Path(__file__).with_name("triggers.sql")
_WRONG_COUNTS = """
select count(*)
from (
    select service_id, template_id, notification_type, notification_status, count(*) as count
    from notifications
    group by service_id, template_id, notification_type, notification_status
) as recount
full join (select * from trigger_counts where count <> 0) as counts
using (service_id, template_id, notification_type, notification_status)
where recount.count is distinct from counts.count
"""


def make_triggers(dsn: str) -> None:
    """Count what is there and keep the counts by triggers per statement from here on."""
    ask(dsn, _TRIGGERS.read_text())


def check_triggers(dsn: str) -> None:
    """Raise RuntimeError unless the counts that the triggers kept equal a recount."""
    if (wrong := ask(dsn, _WRONG_COUNTS)) != [(0,)]:
        raise RuntimeError(f"the triggers' counts of {wrong[0][0]} groups differ from a recount")
