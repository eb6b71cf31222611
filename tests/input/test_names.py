"""Tables of any name and kind, or a sentence why not."""

from __future__ import annotations

import pytest

from tests.input.bench import Bench
from waltally.errors import TableUnfit


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.mark.parametrize(
    ("schema", "live", "archive"),
    [
        ("Mixed", "Notifications", "History"),
        ('Notify, the "App".v2', "live rows, it's", "archive\\rows *"),
    ],
)
def test_quoted_names_are_counted(bench: Bench, schema: str, live: str, archive: str) -> None:
    bench.execute(f"create schema {quoted(schema)}")
    for old, new in (("notifications", live), ("notification_history", archive)):
        bench.execute(f"alter table {old} set schema {quoted(schema)}")
        bench.execute(f"alter table {quoted(schema)}.{old} rename to {quoted(new)}")
    named = [f"{quoted(schema)}.{quoted(name)}" for name in (live, archive)]
    bench.set_up(f" {named[0]} , {named[1]}")
    bench.execute(f"create view notifications as select * from {named[0]}")
    bench.database.insert(3)
    bench.execute("update notifications set notification_status = 'sent'")
    bench.execute(
        f"insert into {named[1]} (id, service_id, template_id, notification_type, "
        "notification_status, created_at) select id, service_id, template_id, notification_type, "
        "notification_status, created_at from notifications"
    )
    bench.must_be_exact()
    assert sum(bench.fact()[0].values()) == 3
    bench.database.insert(2)
    bench.stage()
    bench.build(exported=True)
    assert bench.fact() == bench.recount()


def test_a_partitioned_table_and_a_view_are_refused(bench: Bench) -> None:
    bench.execute(
        "create table parts (like notifications) partition by list (notification_type);"
        "create view shown as select * from notifications"
    )
    with pytest.raises(TableUnfit, match="is partitioned"):
        bench.set_up("public.parts,public.notification_history")
    with pytest.raises(TableUnfit, match="is not a table"):
        bench.set_up("public.shown,public.notification_history")


def test_a_partition_is_counted_under_its_own_name(bench: Bench) -> None:
    bench.execute(
        "create table parts (like notifications including defaults) "
        "partition by list (notification_type);"
        "create table parts_email partition of parts for values in ('email');"
        "create table parts_other partition of parts default;"
        "alter table parts_email replica identity full;"
        "alter table parts_other replica identity full"
    )
    bench.set_up("public.parts_email,public.notification_history")
    bench.execute(
        "alter table notifications rename to former; alter table parts rename to notifications"
    )
    bench.database.insert(5)
    bench.execute("update notifications set notification_type = 'sms' where ctid = '(0,1)'")
    bench.must_be_exact()
    assert sum(bench.fact()[0].values()) == 4
