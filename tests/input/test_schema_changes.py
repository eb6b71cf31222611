"""The source's tables change while they are followed."""

from __future__ import annotations

from testkit.pipeline import Pipeline
from tests.input.test_values import churn

MISSING = "the row has no column notification_status"
NOT_CARRIED = "the replica identity does not carry the old "


def test_keys_and_other_columns_come_go_and_are_renamed(pipeline: Pipeline) -> None:
    pipeline.set_up()
    pipeline.source.insert(6)
    for ddl in (
        "add extra text default 'x'",
        'rename normalised_to to "service_id "',
        "drop job_id",
        "add job_id int",
        "alter billable_units type numeric",
        "drop extra",
    ):
        pipeline.source.execute(f"alter table notifications {ddl}")
        churn(pipeline)
        pipeline.source.insert(2)
    pipeline.source.execute("update notifications set id = gen_random_uuid()")
    pipeline.source.execute(
        "alter table notifications drop constraint notifications_pkey, "
        "add serial bigserial primary key"
    )
    pipeline.source.execute(
        "update notifications set serial = serial + 100, notification_status = 'sent'"
    )
    pipeline.source.execute("delete from notifications where serial = 101")
    pipeline.must_be_exact()


def test_an_identity_narrowed_for_a_while_is_rejected_for_that_while(pipeline: Pipeline) -> None:
    pipeline.set_up()
    pipeline.source.insert(4)
    pipeline.source.execute("update notifications set notification_status = 'sending'")
    pipeline.source.execute(
        "alter table notifications replica identity default;"
        "alter table notification_history replica identity nothing"
    )
    pipeline.source.insert(1, status="sent")
    one = "where id = (select id from notifications order by id limit 1)"
    pipeline.source.execute(f"update notifications set notification_status = 'delivered' {one}")
    pipeline.source.execute(f"delete from notifications {one}")
    pipeline.source.execute(
        "insert into notification_history (id, service_id, template_id, notification_type, "
        "notification_status, created_at) select id, service_id, id, 'sms', 'sent', now() "
        "from templates; delete from notification_history"
    )
    for table in ("notifications", "notification_history"):
        pipeline.source.execute(f"alter table {table} replica identity full")
    pipeline.source.execute("update notifications set notification_status = 'pending'")
    pipeline.catch_up()
    # The deletes that the model ignores are among them: nobody could write down what they took.
    rejected = pipeline.rejected()
    assert [action for action, _ in rejected] == ["U", "D", "D", "D", "D"]
    lost = [NOT_CARRIED] * 2 + ["the replica identity carries no old row"] * 3
    assert all(said.startswith(words) for (_, said), words in zip(rejected, lost, strict=True))


def test_a_renamed_dimension_is_rejected_until_it_is_back(pipeline: Pipeline) -> None:
    pipeline.set_up()
    pipeline.source.insert(3)
    pipeline.catch_up()
    pipeline.source.execute("alter table notifications rename notification_status to status")
    pipeline.source.execute(
        'insert into notifications ("to", service_id, template_id, notification_type, status) '
        "select 'x', service_id, id, 'sms', 'created' from templates limit 1"
    )
    pipeline.source.execute(
        "update notifications set status = 'sent' where notification_type = 'sms'"
    )
    pipeline.source.execute("delete from notifications where notification_type = 'sms'")
    pipeline.source.execute("alter table notifications rename status to notification_status")
    pipeline.source.insert(2, status="sent")
    pipeline.catch_up()
    assert pipeline.rejected() == [
        ("I", MISSING),
        ("U", MISSING),
        ("D", NOT_CARRIED + "notification_status"),
    ]
    assert pipeline.model() == pipeline.recount()
