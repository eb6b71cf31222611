"""What can run beside the application's writers: nothing, a slot and loader, or triggers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from testkit import source
from testkit.source import transaction

Identity = Literal["default", "covering", "narrow", "full"]
Triggers = Literal["statement", "row"]

_TRIGGERS = Path(__file__).with_name("triggers.sql")

_PER = {
    "statement": """
create trigger count_inserted after insert on notifications
referencing new table as new_rows for each statement execute function count_inserted();
create trigger count_updated after update on notifications
referencing old table as old_rows new table as new_rows
for each statement execute function count_updated();
""",
    "row": """
create trigger count_inserted after insert on notifications
for each row execute function count_inserted_row();
create trigger count_updated after update on notifications
for each row when (
    (old.service_id, old.template_id, old.notification_type, old.notification_status)
    is distinct from
    (new.service_id, new.template_id, new.notification_type, new.notification_status)
) execute function count_updated_row();
""",
}

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


@dataclass(frozen=True)
class Condition:
    """What runs beside the writers."""

    name: str
    identity: Identity = "default"
    is_followed: bool = False
    triggers: Triggers | None = None
    wal_level: str = "logical"


NOTHING = Condition("nothing")

CONDITIONS = (
    NOTHING,
    Condition("nothing, wal_level = replica", wal_level="replica"),
    Condition("covering index, no slot", "covering"),
    Condition("loader, identity default", "default", is_followed=True),
    Condition("loader, identity (id, status)", "narrow", is_followed=True),
    Condition("loader, covering index", "covering", is_followed=True),
    Condition("loader, identity full", "full", is_followed=True),
    Condition("triggers per statement", triggers="statement"),
    Condition("triggers per row", triggers="row"),
)


def set_identity(dsn: str, identity: Identity) -> None:
    """Give both tables the identity, with the index that it needs."""
    if identity in ("full", "covering"):
        source.set_identity(dsn, "full" if identity == "full" else "covering")
        return
    with transaction(dsn) as cursor:
        for table in source.TABLES:
            if identity == "default":
                cursor.execute(f"alter table {table} replica identity default")
                continue
            index = f"{table}_identity"
            cursor.execute(f"alter table {table} alter notification_status set not null")
            cursor.execute(f"create unique index {index} on {table} (id, notification_status)")
            cursor.execute(f"alter table {table} replica identity using index {index}")


def make_triggers(dsn: str, triggers: Triggers) -> None:
    """Count what is there and keep the counts by triggers from here on."""
    with transaction(dsn) as cursor:
        cursor.execute(_TRIGGERS.read_text() + _PER[triggers])


def check_triggers(dsn: str) -> None:
    """Raise RuntimeError unless the counts that the triggers kept equal a recount."""
    with transaction(dsn) as cursor:
        cursor.execute(_WRONG_COUNTS)
        ((wrong,),) = cursor.fetchall()
    if wrong:
        raise RuntimeError(f"the triggers' counts of {wrong} groups differ from a recount")
