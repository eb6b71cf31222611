"""The source's tables change while they are followed."""

from __future__ import annotations

import pytest

from tests.input.bench import Bench
from tests.input.test_values import churn

MISSING = "the row has no column notification_status"
NOT_CARRIED = "the replica identity does not carry the old "


def test_other_columns_come_go_and_are_renamed(bench: Bench) -> None:
    bench.set_up()
    bench.database.insert(6)
    for ddl in (
        "add extra text default 'x'",
        'rename normalised_to to "service_id "',
        "drop job_id",
        "add job_id int",
        "alter billable_units type numeric",
        "drop extra",
    ):
        bench.execute(f"alter table notifications {ddl}")
        churn(bench)
        bench.database.insert(2)
    bench.must_be_exact()


def test_a_renamed_dimension_is_rejected_until_it_is_back(bench: Bench) -> None:
    bench.set_up()
    bench.database.insert(3)
    bench.catch_up()
    bench.execute("alter table notifications rename notification_status to status")
    bench.execute(
        'insert into notifications ("to", service_id, template_id, notification_type, status) '
        "select 'x', service_id, id, 'sms', 'created' from templates limit 1"
    )
    bench.execute("update notifications set status = 'sent' where notification_type = 'sms'")
    bench.execute("delete from notifications where notification_type = 'sms'")
    bench.execute("alter table notifications rename status to notification_status")
    bench.database.insert(2, status="sent")
    bench.catch_up()
    assert bench.rejected() == [
        ("I", MISSING),
        ("U", MISSING),
        ("D", NOT_CARRIED + "notification_status"),
    ]
    assert bench.fact() == bench.recount()


def test_a_dropped_dimension_is_rejected_and_the_archive_goes_on(bench: Bench) -> None:
    bench.set_up()
    bench.database.insert(2)
    churn(bench)
    bench.execute("alter table notifications drop service_id")
    bench.execute(
        'insert into notifications ("to", template_id, notification_type, notification_status) '
        "select 'x', id, 'sms', 'sent' from templates limit 1"
    )
    bench.execute(
        "insert into notification_history (id, service_id, template_id, notification_type, "
        "notification_status, created_at) select id, service_id, id, 'sms', 'sent', now() "
        "from templates"
    )
    bench.catch_up()
    assert bench.rejected() == [("I", "the row has no column service_id")]
    assert bench.fact()[1] == bench.rows_of("notification_history")


@pytest.mark.parametrize("narrow", ["default", "nothing"])
def test_an_identity_narrowed_for_a_while_is_rejected_for_that_while(
    bench: Bench, narrow: str
) -> None:
    bench.set_up()
    bench.database.insert(4)
    bench.execute("update notifications set notification_status = 'sending'")
    for table in ("notifications", "notification_history"):
        bench.execute(f"alter table {table} replica identity {narrow}")
    bench.database.insert(1, status="sent")
    one = "where id = (select id from notifications order by id limit 1)"
    bench.execute(f"update notifications set notification_status = 'delivered' {one}")
    bench.execute(f"delete from notifications {one}")
    bench.execute(
        "insert into notification_history (id, service_id, template_id, notification_type, "
        "notification_status, created_at) select id, service_id, id, 'sms', 'sent', now() "
        "from templates; delete from notification_history"
    )
    for table in ("notifications", "notification_history"):
        bench.execute(f"alter table {table} replica identity full")
    bench.execute("update notifications set notification_status = 'pending'")
    bench.catch_up()
    lost = NOT_CARRIED if narrow == "default" else "the replica identity carries no old row"
    assert [action for action, _ in bench.rejected()] == ["U", "D"]
    assert all(reason.startswith(lost) for _, reason in bench.rejected())


def test_primary_keys_may_change(bench: Bench) -> None:
    bench.set_up()
    bench.database.insert(4)
    bench.execute("update notifications set id = gen_random_uuid()")
    bench.execute(
        "alter table notifications drop constraint notifications_pkey, "
        "add serial bigserial primary key"
    )
    bench.execute("update notifications set serial = serial + 100, notification_status = 'sent'")
    bench.execute("delete from notifications where serial = 101")
    bench.must_be_exact()


def test_columns_in_another_order_change_nothing(bench: Bench) -> None:
    bench.execute("alter table notifications rename to former")
    bench.execute(
        "create table notifications (notification_status text, personalisation text, "
        'notification_type notification_type, "to" text, template_id uuid, '
        "template_version int default 1, service_id uuid, reference text, "
        "created_at timestamp default now(), id uuid default gen_random_uuid()); "
        "alter table notifications replica identity full"
    )
    bench.set_up()
    bench.database.insert(3)
    churn(bench)
    bench.must_be_exact()
