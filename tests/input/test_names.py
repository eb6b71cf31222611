"""Tables of any name and kind, or a sentence why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.facts import declare
from testkit.pipeline import Pipeline
from testkit.project import host_project, notify_model
from waltally.errors import TableUnfit


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.mark.parametrize(
    ("schema", "live", "archive"),
    [
        pytest.param("Mixed", "Notifications", "History", marks=pytest.mark.slow),
        ('Notify, the "App".v2', "live rows, it's", "archive\\rows *"),
    ],
)
def test_quoted_names_are_counted(
    pipeline: Pipeline, tmp_path: Path, schema: str, live: str, archive: str
) -> None:
    pipeline.source.execute(f"create schema {quoted(schema)}")
    for old, new in (("notifications", live), ("notification_history", archive)):
        pipeline.source.execute(f"alter table {old} set schema {quoted(schema)}")
        pipeline.source.execute(f"alter table {quoted(schema)}.{old} rename to {quoted(new)}")
    named = [f"{quoted(schema)}.{quoted(name)}" for name in (live, archive)]
    pipeline.use_project(host_project(tmp_path, {"ft_service_stats": notify_model(*named)}))
    pipeline.set_up()
    pipeline.source.execute(f"create view notifications as select * from {named[0]}")
    pipeline.source.insert(3)
    pipeline.source.execute("update notifications set notification_status = 'sent'")
    pipeline.source.execute(
        f"insert into {named[1]} (id, service_id, template_id, notification_type, "
        "notification_status, created_at) select id, service_id, template_id, notification_type, "
        "notification_status, created_at from notifications"
    )
    pipeline.must_be_exact()
    assert sum(pipeline.fact()[0].values()) == 3
    pipeline.source.insert(2)
    pipeline.stage()
    pipeline.build()
    assert pipeline.fact() == pipeline.recount()


def test_a_view_is_refused(pipeline: Pipeline) -> None:
    pipeline.source.execute("create view shown as select * from notifications")
    pipeline.source.declare(ft=declare("public.shown", ("service_id", "uuid")))
    with pytest.raises(TableUnfit, match="is not a table"):
        pipeline.set_up()


def test_a_partition_is_counted_under_its_own_name(pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline.source.execute(
        "create table parts (like notifications including defaults) "
        "partition by list (notification_type);"
        "create table parts_email partition of parts for values in ('email');"
        "create table parts_other partition of parts default;"
        "alter table parts_email replica identity full;"
        "alter table parts_other replica identity full"
    )
    model = notify_model("public.parts_email", "public.notification_history")
    pipeline.use_project(host_project(tmp_path, {"ft_service_stats": model}))
    pipeline.set_up()
    pipeline.source.execute(
        "alter table notifications rename to former; alter table parts rename to notifications"
    )
    pipeline.source.insert(5)
    pipeline.source.execute(
        "update notifications set notification_type = 'sms' where ctid = '(0,1)'"
    )
    pipeline.must_be_exact()
    assert sum(pipeline.fact()[0].values()) == 4
