"""The shipped project: its data tests, its descriptions, and what the scheduled commands choose."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
import yaml
from dbt.artifacts.schemas.run import RunExecutionResult
from dbt.contracts.graph.manifest import Manifest
from dbt.contracts.graph.nodes import ModelNode

from tests.dbt.staged import MODEL, SHIPPED, STAGING, Warehouse
from tests.dbt.workload import ARCHIVE, LIVE, SERVICES, TEMPLATES, change, row

TABLE = "analytics.ft_service_stats"
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


@pytest.fixture
def counted(warehouse: Warehouse) -> Warehouse:
    """Two live rows and one archived of a service and a template that the application has."""
    warehouse.execute("insert into services values (%s, 'a service')", SERVICES[0])
    warehouse.execute(
        "insert into templates values (%s, %s, 'email', 'a template')", TEMPLATES[0], SERVICES[0]
    )
    new = [change("I", table, new=row()) for table in (LIVE, LIVE, ARCHIVE)]
    warehouse.append(new)
    warehouse.build()
    return warehouse


def statuses(warehouse: Warehouse, *words: str) -> dict[str, str]:
    """Each data test, and what else the command is for, with its status; the shipped ones."""
    done = warehouse.dbt(*(words or ("test", "--select", "test_type:data")), *SHIPPED)
    assert isinstance(done.result, RunExecutionResult), done.exception
    results: list[Any] = list(done.result.results)
    return {each.node.name: str(each.status) for each in results}


def test_each_data_test_fails_when_its_claim_is_broken(counted: Warehouse) -> None:
    assert set(statuses(counted).values()) == {"pass"}
    for statement, claims in BREAKAGES.items():
        counted.execute("begin; " + statement + "; commit")
        broken = {name for name, status in statuses(counted).items() if status == "fail"}
        silent = [each for each in claims if not any(name.startswith(each) for name in broken)]
        assert not silent


def test_an_id_that_has_no_name_is_a_warning_where_names_can_be_read(
    counted: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def status() -> str:
        return statuses(counted, "test", "--select", LOOK_UP)[LOOK_UP]

    counted.execute(f"update {TABLE} set template_id = service_id")
    assert status() == "warn"
    # The one role of docs/roles.md reads neither services nor templates.
    counted.execute(
        "drop role if exists looker; create role looker login; "
        "grant usage on schema cdc, analytics to looker; "
        "grant select on all tables in schema cdc, analytics to looker"
    )
    with monkeypatch.context() as patch:
        patch.setenv("PGUSER", "looker")
        assert status() == "pass"
    counted.execute("drop owned by looker; drop role looker")
    counted.execute("alter table templates rename to elsewhere")
    assert status() == "pass"


def test_a_failing_test_of_the_model_holds_up_no_rejection(warehouse: Warehouse) -> None:
    build = ("build", "--exclude", "test_type:unit")
    warehouse.build(MODEL)
    warehouse.append([change("I", LIVE, new=row(notification_type="fax")), {"action": "Z"}])
    found = statuses(warehouse, *build)
    assert (found["no_rejected_changes"], found[MODEL]) == ("fail", "success")
    listed = "select split_part(model_name, '.', 2), reason from analytics.rejected_changes"
    assert warehouse.execute(listed) == [(MODEL, "the action is not known")]
    # Nor does a rejection hold up what comes after it.
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.execute("delete from analytics.ft_service_stats where notification_type = 'fax'")
    found = statuses(warehouse, *build)
    not_done = {"fail", "error", "skipped"}
    assert [name for name in found if found[name] in not_done] == ["no_rejected_changes"]
    assert list(warehouse.counts().values()) == [(1, 0)]


def test_everything_works_on_an_empty_database(warehouse: Warehouse) -> None:
    warehouse.close()
    fresh = Warehouse(warehouse.cluster, warehouse.project, STAGING)
    build = ("build", "--exclude", "test_type:unit", "path:examples")
    for words in (build, ("docs", "generate", "--static")):
        fresh.must(*words)
    target = fresh.project.home / "target"
    assert (target / "static_index.html").exists()
    parents = json.loads((target / "manifest.json").read_text())["parent_map"]
    assert set(parents["model.waltally.ft_service_stats"]) == {
        f"source.waltally.notify.{table}" for table in ("notifications", "notification_history")
    }
    fresh.close()


def test_source_freshness_tells_of_a_model_that_stands_still(counted: Warehouse) -> None:
    for since, expected in (("0", "pass"), ("20 minutes", "warn"), ("2 hours", "error")):
        counted.execute(
            "update cdc.model_watermark set applied_lsn = '0/1', "
            f"moved_at = now() - interval '{since}' where model_name = '{TABLE}'"
        )
        done = counted.dbt("source", "freshness", "--select", "source:waltally.cdc.model_watermark")
        (result,) = cast("Any", done.result).results
        assert str(result.status) == expected


COMMENTS = """
    select a.attname::text, col_description(a.attrelid, a.attnum)
    from pg_attribute as a
    where
        a.attrelid = %s::regclass and a.attnum > 0 and not a.attisdropped
        and not starts_with(a.attname, 'waltally_')
"""


def test_the_database_has_the_descriptions_and_the_sources_have_its_columns(
    warehouse: Warehouse,
) -> None:
    manifest = warehouse.project.invoke("parse").result
    assert isinstance(manifest, Manifest)
    built = [
        node
        for node in manifest.nodes.values()
        if isinstance(node, ModelNode) and not node.original_file_path.startswith("examples/")
    ]
    materialized = {node.config.materialized for node in built}
    assert materialized == {"waltally", "kept_table"}
    for node in built:
        table = f"{node.schema}.{node.name}"
        assert node.description and all(each.description for each in node.columns.values()), table
        assert warehouse.value("select obj_description(%s::regclass)", table) == node.description
        described = [(name, column.description) for name, column in node.columns.items()]
        assert sorted(warehouse.execute(COMMENTS, table)) == sorted(described)
    for source in (each for each in manifest.sources.values() if each.source_name == "cdc"):
        columns = [name for name, _ in warehouse.execute(COMMENTS, f"cdc.{source.name}")]
        assert sorted(columns) == sorted(source.columns), source.name


def listed(warehouse: Warehouse, *words: str) -> set[tuple[str, str]]:
    """Return kind and name of what dbt would build."""
    output = ("--output", "json", "--output-keys", "resource_type", "name")
    done = warehouse.must("ls", *output, *words)
    lines = [yaml.safe_load(line) for line in done.result]  # type: ignore[union-attr]
    return {(each["resource_type"], each["name"]) for each in lines}


def test_the_selectors_of_the_service_files(warehouse: Warehouse) -> None:
    shipped = listed(warehouse, *SHIPPED)
    models = listed(warehouse, "--selector", "models") & shipped
    assert models == {("model", "ft_service_stats"), ("model", "rejected_changes")}
    checks = listed(warehouse, "--selector", "checks") & shipped
    assert checks == {each for each in shipped if each[0] == "test"} != set()
