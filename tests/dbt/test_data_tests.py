"""`dbt test` passes on what is right and fails on each thing that is not."""

from __future__ import annotations

from typing import Any, cast

import pytest
from dbt.artifacts.schemas.run import RunExecutionResult

from tests.dbt.project import messages
from tests.dbt.staged import SHIPPED, Warehouse
from tests.dbt.workload import ARCHIVE, LIVE, SERVICES, TEMPLATES, change, row

FACT = "analytics.ft_service_stats"

# Two rounds: what the constraints allow, and what only a lost constraint lets in.
BREAKAGES = {
    (
        f"update {FACT} set count = count + 1, live_count = live_count - 1, "
        "notification_type = 'fax', notification_status = 'unheard of', template_id = service_id; "
        "insert into analytics.rejected_changes values "
        "('f', 's', '0/1', 1, 1, now(), null, null, 'because', 'payload')"
    ): {
        "accepted_values_ft_service_stats_notification_type",
        "follows_expressions_ft_service_stats",
        "no_rejected_changes",
    },
    (
        f"alter table {FACT} drop constraint uix_ft_service_stats_dimensions; "
        f"insert into {FACT} select gen_random_uuid(), service_id, template_id, "
        f"notification_type, notification_status, 0, 0, 0 from {FACT}; "
        f"alter table {FACT} alter service_id drop not null; "
        f"insert into {FACT} select gen_random_uuid(), null, template_id, "
        f"notification_type, notification_status, 0, 0, 0 from {FACT} limit 1"
    ): {
        "not_null_ft_service_stats_service_id",
        "unique_dimensions_ft_service_stats",
    },
}


@pytest.fixture
def counted(warehouse: Warehouse) -> Warehouse:
    """A source with two live rows and one archived, and a fact that says so."""
    columns = "id, service_id, template_id, notification_type, notification_status"
    warehouse.execute("insert into services values (%s, 'a service')", SERVICES[0])
    warehouse.execute(
        "insert into templates values (%s, %s, 'email', 'a template')", TEMPLATES[0], SERVICES[0]
    )
    for table, extra, value, copies in (
        ("notifications", '"to"', "'someone'", 2),
        ("notification_history", "created_at", "now()", 1),
    ):
        warehouse.execute(
            f"insert into {table} ({columns}, {extra}) select gen_random_uuid(), %s, %s, "
            f"'email', 'created', {value} from generate_series(1, %s)",
            SERVICES[0],
            TEMPLATES[0],
            copies,
        )
    warehouse.append(
        [
            change("I", LIVE, new=row()),
            change("I", LIVE, new=row()),
            change("I", ARCHIVE, new=row()),
        ]
    )
    warehouse.build(*SHIPPED)
    return warehouse


def statuses(warehouse: Warehouse, *words: str, tests: str = "test_type:data") -> dict[str, str]:
    """Each data test with its status."""
    done = warehouse.dbt("test", "--select", tests, *words)
    assert isinstance(done.result, RunExecutionResult), done.exception
    results: list[Any] = list(done.result.results)
    return {each.node.name: str(each.status) for each in results}


def failures(warehouse: Warehouse, *words: str, tests: str = "test_type:data") -> set[str]:
    """The data tests that failed."""
    found = statuses(warehouse, *words, tests=tests)
    return {name for name, status in found.items() if status not in ("pass", "warn")}


LOOK_UP = "belongs_to_source_ft_service_stats_template_id__templates_table"


def test_each_data_test_fails_when_its_claim_is_broken(counted: Warehouse) -> None:
    before = failures(counted)
    assert before == set()
    for statement, claims in BREAKAGES.items():
        counted.execute("begin; " + statement + "; commit")
        broken = failures(counted)
        newly = broken - before
        silent = {claim for claim in claims if not any(name.startswith(claim) for name in newly)}
        assert not silent
        before = broken


def test_an_id_that_has_no_name_is_a_warning_and_no_more(counted: Warehouse) -> None:
    assert statuses(counted, tests=LOOK_UP)[LOOK_UP] == "pass"
    counted.execute(f"update {FACT} set template_id = service_id")
    assert statuses(counted, tests=LOOK_UP)[LOOK_UP] == "warn"
    # Also where the ids are of another type.
    counted.execute("drop view if exists reader; alter table templates rename to others")
    counted.execute("create table templates as select 'none'::text as id")
    assert statuses(counted, tests=LOOK_UP)[LOOK_UP] == "warn"
    assert failures(counted) == set()


def test_relationships_are_skipped_where_the_tables_are_elsewhere(counted: Warehouse) -> None:
    counted.execute("alter table templates rename to elsewhere")
    counted.execute(f"update {FACT} set template_id = service_id")
    assert statuses(counted, tests=LOOK_UP)[LOOK_UP] == "pass"


def test_relationships_are_skipped_where_the_role_may_not_read(
    counted: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one role of docs/roles.md: it reads neither services nor templates."""
    counted.execute(
        "drop role if exists looker; create role looker login; "
        "grant usage on schema cdc, analytics to looker; "
        "grant select on all tables in schema cdc, analytics to looker"
    )
    counted.execute(f"update {FACT} set template_id = service_id")
    monkeypatch.setenv("PGUSER", "looker")
    assert statuses(counted, tests=LOOK_UP)[LOOK_UP] == "pass"
    counted.execute("grant select (id) on templates to looker")
    assert statuses(counted, tests=LOOK_UP)[LOOK_UP] == "warn"


def test_everything_works_on_an_empty_database(warehouse: Warehouse) -> None:
    build = ("build", "--exclude", "test_type:unit")
    for words in (build, ("docs", "generate", "--static"), ("source", "freshness")):
        done = warehouse.dbt(*words)
        assert done.success, messages(done)
    assert (warehouse.project.home / "target/static_index.html").exists()


def test_source_freshness_tells_of_a_fact_that_stands_still(counted: Warehouse) -> None:
    def status() -> str:
        done = counted.dbt("source", "freshness", "--select", "source:waltally.cdc.model_watermark")
        (found,) = cast("Any", done.result).results
        return str(found.status)

    stands = (
        "update cdc.model_watermark set applied_lsn = '0/1', moved_at = now() - interval '{}' "
        "where model_name = 'analytics.ft_service_stats'"
    )
    assert status() == "pass"
    counted.execute(stands.format("20 minutes"))
    assert status() == "warn"
    counted.execute(stands.format("2 hours"))
    assert status() == "error"


def test_a_count_of_the_live_rows_alone(counted: Warehouse) -> None:
    assert counted.execute(f"select count from {FACT}") == [(3,)]
    live_alone = ("--vars", "{count_archived: false}", "--select", "ft_service_stats")
    counts = f"select count, archived_count from {FACT}"
    # With nothing new, with a change of another group, and in a rebuild: every group at once.
    counted.build(*live_alone)
    assert counted.execute(counts) == [(2, 1)]
    counted.append([change("I", ARCHIVE, new=row(notification_type="sms"))])
    counted.build("--select", "ft_service_stats")
    assert sorted(counted.execute(counts)) == [(1, 1), (3, 1)]
    counted.append([change("I", LIVE, new=row(notification_type="letter"))])
    counted.build(*live_alone)
    assert sorted(counted.execute(counts)) == [(0, 1), (1, 0), (2, 1)]
    state = f"select xmin::text from {FACT} order by 1"
    before = counted.execute(state)
    counted.build(*live_alone)
    assert counted.execute(state) == before
    counted.build("--full-refresh", "--select", "ft_service_stats")
    assert sorted(counted.execute(counts)) == [(1, 0), (1, 1), (3, 1)]
