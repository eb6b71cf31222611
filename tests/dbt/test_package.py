"""A project of one's own that has waltally as a package: its facts, and the cases of the rules."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from testkit.commands import ROOT, dbt_runner, profiles, run_dbt
from testkit.hostile import SECRET
from testkit.project import host_project
from testkit.traps import traps
from tests.dbt.project import QUIET, Project
from tests.dbt.staged import DATABASE, Warehouse
from tests.dbt.workload import LIVE, change, row

SERVICE = "00000000-0000-0000-0000-000000000001"


class HostProject(Project):
    """dbt_project/integration_tests with the package installed, as `dbt deps` does it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._adapter = None
        self._manifests = {}
        shutil.copytree(ROOT / "dbt_project/integration_tests", home, dirs_exist_ok=True)
        (home / "packages.yml").write_text(f"packages:\n  - local: {ROOT}\n")
        shutil.copy(ROOT / "profiles.yml.example", home / "profiles.yml")
        places = ("--project-dir", str(home), "--profiles-dir", str(home))
        done = dbt_runner().invoke(["deps", *places, *QUIET[:-1]])
        assert done.success, done.exception


@pytest.fixture
def host_warehouse(fresh: Warehouse, tmp_path: Path) -> Warehouse:
    fresh.execute("delete from cdc.fact; delete from cdc.baseline")
    fresh.project = HostProject(tmp_path / "host")
    fresh.register(*fresh.project.facts())
    return fresh


def test_the_package_builds_the_host_s_facts_and_no_other(
    host_warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no statement looks a name up where others create, dbt's own neither."""
    host_warehouse.execute(
        "create schema analytics; create table analytics.theirs as select 1 as a; "
        "create view analytics.their_view as select a from analytics.theirs; "
        f"create schema hostile; {traps('hostile')}; "
        f"alter database {DATABASE} set search_path = hostile, pg_catalog"
    )
    host_warehouse.append(
        [
            change("I", LIVE, new=row()),
            change("I", LIVE, new=row(notification_status="sent")),
            change("I", "public.services", new={"id": SERVICE, "name": "a"}),
        ]
    )
    with host_warehouse.project.without_search_path():
        host_warehouse.must("run")
    host_warehouse.must("build", "--exclude", "test_type:unit")
    assert host_warehouse.execute(
        "select notification_status, notifications from analytics.ft_statuses order by 1"
    ) == [("created", 1), ("sent", 1)]
    assert host_warehouse.execute("select * from analytics.current_services") == [(SERVICE, "a")]
    assert host_warehouse.value("select count(*) from analytics.statuses") == 2
    theirs = "their_view theirs"
    assert (
        host_warehouse.value(
            "select string_agg(table_name, ' ' order by table_name) from information_schema.tables "
            "where table_schema = 'analytics'"
        )
        == f"current_services ft_statuses rejected_changes statuses {theirs}"
    )

    # Every case of the rules passes, whatever the slot is.
    monkeypatch.setenv("LOADER_SLOT", "another")
    done = host_warehouse.must("test", "--select", "test_type:unit")
    results = getattr(done.result, "results", [])
    assert {each.status for each in results} == {"pass"}
    assert len(results) > 25

    # A setting may be a variable of the host, and the environment goes before it.
    variables = ("--vars", "{loader_slot: no_such_slot, changed: x}")
    for slot in ("another", "no_such_slot"):
        said = host_warehouse.must_fail("run", "--select", "ft_statuses", *variables)
        assert f"no change log for slot {slot}" in said
        monkeypatch.delenv("LOADER_SLOT", raising=False)


def test_a_fact_is_a_semantic_model(warehouse: Warehouse, tmp_path: Path) -> None:
    # dbt runs Jinja in the YAML of a semantic model, so a name that is code must not get there.
    models = {
        "ft_days": "{{ waltally.fact(tables={'orders': 'public.orders'}, dimensions={'region': "
        """'text', "{{ env_var('PGPASSWORD') }}": 'text', """
        "'day': {'date_of': 'placed_at', 'timezone': 'UTC'}}, measures={'order_count': "
        """{'count': 'orders'}, "{{ env_var('PGPORT') }}": {'sum': 'amount'}, """
        "'amount': {'sum': 'amount'}}) }}",
        "days": "select date '2026-01-01' as date_day",
    }
    project = host_project(tmp_path, models)
    (project / "models/days.yml").write_text(
        "models: [{name: days, time_spine: {standard_granularity_column: date_day}, "
        "columns: [{name: date_day, granularity: day}]}]"
    )
    own = {"DBT_PROJECT_DIR": str(project), "PGPASSWORD": SECRET}
    environment = {**os.environ, **profiles(tmp_path), **own}

    def dbt(*words: str) -> str:
        done = run_dbt(("--quiet", *words, "--vars", "{notify_facts: true}"), environment)
        assert done.returncode == 0, done.stdout
        return done.stdout

    printed = dbt("run-operation", "print_semantic_model", "--args", "{fact: ft_days}")
    (project / "models/metrics.yml").write_text(printed)
    dbt("parse")
    (manifest,) = tmp_path.rglob("semantic_manifest.json")
    found = json.loads(manifest.read_text())
    (model,) = found["semantic_models"]
    assert [(each["name"], each["type"]) for each in model["dimensions"]] == [
        ("region", "categorical"),
        ("in_day", "time"),
    ]
    metrics = {each["name"]: each["type"] for each in found["metrics"]}
    assert metrics == {"ft_days_order_count": "simple", "ft_days_amount": "simple"}
