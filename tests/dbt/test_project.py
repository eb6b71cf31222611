"""The shipped project: its data tests, its descriptions, and what the scheduled commands choose.

The tests share one database, in which each leaves the model as it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from testkit.databases import ARCHIVE, application_database
from testkit.fixtures import WAREHOUSE
from testkit.servers import Cluster
from tests.dbt.warehouse import MODEL, TABLE, Warehouse

BUILD = ("build", "--exclude", "test_type:unit")
# Two rounds: what the constraints allow, and what only a lost constraint lets in.
BREAKAGES = {
    (
        f"update {TABLE} set notification_type = 'fax', template_id = service_id; "
        "insert into analytics.rejected_changes values "
        "('f', 's', '0/1', 1, 1, now(), null, null, 'because', 'payload')"
    ): {"accepted_values_ft_service_stats_notification_type", "no_rejected_changes"},
    (
        f"alter table {TABLE} drop constraint uix_ft_service_stats_dimensions; "
        f"create temporary table again as select * from {TABLE}; "
        "update again set id = gen_random_uuid(); "
        f"insert into {TABLE} select * from again"
    ): {"unique_dimensions_ft_service_stats"},
}
LOOK_UP = "belongs_to_source_ft_service_stats_template_id__templates_table"


@pytest.fixture(scope="module")
def project(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    """The shipped models, which dbt has built in an empty schema over a few rows."""
    with application_database(cluster, WAREHOUSE) as database:
        made = Warehouse(database, tmp_path_factory.mktemp("project"))
        made.register(MODEL)
        made.target.execute("drop schema analytics cascade")
        made.source.insert(2)
        made.source.execute(ARCHIVE)
        made.stage()
        made.do("dbt", *BUILD)
        yield made


def statuses(project: Warehouse, *words: str) -> dict[str, str]:
    """Run dbt; return the status of each node, by name."""
    project.call("dbt", *words)
    name, place = ("sources", 3) if words[0] == "source" else ("run_results", 2)
    results = json.loads((project.home / "target" / f"{name}.json").read_text())["results"]
    return {each["unique_id"].split(".")[place]: each["status"] for each in results}


def test_each_data_test_fails_when_its_claim_is_broken(project: Warehouse) -> None:
    data = ("test", "--select", "test_type:data")
    assert set(statuses(project, *data).values()) == {"pass"}
    for statement, claims in BREAKAGES.items():
        project.target.execute(f"begin; {statement}; commit")
        found = statuses(project, *data)
        broken = {name for name, status in found.items() if status == "fail"}
        assert not [each for each in claims if not any(name.startswith(each) for name in broken)]
    project.target.execute(f"truncate analytics.rejected_changes, {TABLE}")
    project.do("dbt", "run", "--full-refresh")


def test_an_id_that_has_no_name_is_a_warning_where_names_can_be_read(project: Warehouse) -> None:
    def status(role: str = "postgres") -> str:
        return statuses(project.by(role), "test", "--select", LOOK_UP)[LOOK_UP]

    project.target.execute(f"update {TABLE} set template_id = service_id")
    assert status() == "warn"
    # The one role of docs/roles.md reads neither services nor templates.
    project.target.execute(
        "create role looker login; grant usage on schema cdc, analytics to looker; "
        "grant select on all tables in schema cdc, analytics to looker"
    )
    assert status("looker") == "pass"
    project.target.execute("drop owned by looker; drop role looker")
    project.target.execute("alter table templates rename to elsewhere")
    assert status() == "pass"
    project.target.execute("alter table elsewhere rename to templates")
    project.do("dbt", "run", "--full-refresh")


def test_a_failing_test_of_the_model_holds_up_no_rejection(project: Warehouse) -> None:
    project.damage()
    project.target.execute(f"update {TABLE} set notification_type = 'fax'")
    found = statuses(project, *BUILD)
    assert (found["no_rejected_changes"], found[MODEL]) == ("fail", "success")
    assert "fail" in (found[name] for name in found if name.startswith("accepted_values"))
    listed = "select model_name, reason from analytics.rejected_changes"
    assert project.target.execute(listed) == [(TABLE, "the action is not known")]
    # Nor does a rejection hold up what comes after it.
    project.target.execute(f"update {TABLE} set notification_type = 'email'")
    project.source.insert(1)
    project.stage()
    found = statuses(project, *BUILD)
    not_done = {"fail", "error", "skipped"}
    assert [name for name in found if found[name] in not_done] == ["no_rejected_changes"]
    assert project.target.value(f"select sum(live_count) from {TABLE}") == 3


def test_source_freshness_tells_of_a_model_that_stands_still(project: Warehouse) -> None:
    applied = project.target.value("select applied_lsn from cdc.model_watermark")
    source = ("source", "freshness", "--select", "source:waltally.cdc.model_watermark")
    for since, expected in (("0", "pass"), ("20 minutes", "warn"), ("2 hours", "error")):
        project.target.execute(
            "update cdc.model_watermark set applied_lsn = '0/1', "
            f"moved_at = now() - interval '{since}'"
        )
        assert statuses(project, *source) == {"model_watermark": expected}
    project.target.execute("update cdc.model_watermark set applied_lsn = %s", applied)


COMMENTS = """
    select a.attname::text, col_description(a.attrelid, a.attnum)
    from pg_attribute as a
    where
        a.attrelid = %s::regclass and a.attnum > 0 and not a.attisdropped
        and not starts_with(a.attname, 'waltally_')
"""


def test_the_database_has_the_descriptions_and_the_sources_have_its_columns(
    project: Warehouse,
) -> None:
    project.do("dbt", "docs", "generate", "--static")
    assert (project.home / "target" / "static_index.html").exists()
    manifest: dict[str, Any] = json.loads((project.home / "target" / "manifest.json").read_text())
    assert set(manifest["parent_map"][f"model.waltally.{MODEL}"]) == {
        f"source.waltally.notify.{table}" for table in ("notifications", "notification_history")
    }
    built = [each for each in manifest["nodes"].values() if each["resource_type"] == "model"]
    assert {each["config"]["materialized"] for each in built} == {"waltally", "kept_table"}
    for node in built:
        table = f"{node['schema']}.{node['name']}"
        described = [(name, column["description"]) for name, column in node["columns"].items()]
        assert all(text for _, text in described), table
        own = project.target.value("select obj_description(%s::regclass)", table)
        assert own == node["description"] != ""
        assert sorted(project.target.execute(COMMENTS, table)) == sorted(described)
    for source in manifest["sources"].values():
        if source["source_name"] == "cdc":
            columns = project.target.execute(COMMENTS, f"cdc.{source['name']}")
            assert sorted(name for name, _ in columns) == sorted(source["columns"])


def test_the_selectors_of_the_service_files(project: Warehouse) -> None:
    def listed(*words: str) -> set[str]:
        return set(project.do("dbt", "--quiet", "ls", "--output", "name", *words).split())

    assert listed("--selector", "models") == {MODEL, "rejected_changes"}
    assert listed("--selector", "checks") == listed("--resource-type", "test") != set()
