"""A publication for all tables in the target, such as one of Debezium, stops nothing of ours."""

from __future__ import annotations

from testkit.databases import paste
from testkit.pipeline import Pipeline


def test_a_publication_for_all_tables_stops_nothing_and_check_finds_a_table_without_identity(
    pipeline: Pipeline,
) -> None:
    pipeline.target.execute("create publication everything for all tables")
    pipeline.begin()
    # History's deletes are ignored, so they are written down.
    columns = "id, service_id, template_id, notification_type, notification_status, created_at"
    pipeline.source.execute(
        f"insert into notification_history ({columns}) select {columns} from notifications"
    )
    pipeline.source.execute("delete from notification_history")
    pipeline.catch_up()
    assert pipeline.target.value("select count(*) from cdc.archived_delete") > 0
    pipeline.seed()
    pipeline.must_be_exact()
    pipeline.must("setup", "--check")
    pipeline.target.execute("alter table cdc.archived_delete replica identity nothing")
    code, said = pipeline.refused("setup", "--check")
    assert code == 18
    assert 'has "cdc"."archived_delete", which lack a replica identity' in said
    paste(pipeline.target.cluster, pipeline.target.name, said.split("Try: ")[1])
    pipeline.must("setup", "--check")
    pipeline.target.execute(
        "alter table cdc.archived_delete replica identity nothing; drop publication everything"
    )
    pipeline.must("setup", "--check")  # nobody publishes it
