"""Whatever the batches, the counts are those of the rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from loader.build import builder
from tests.dbt.warehouse import DATABASE, FACT, SLOT, Warehouse, messages
from tests.dbt.workload import ARCHIVE, LIVE, Row, Source, change, row
from waltally.settings import Settings

NO_UNIT_TESTS = ("--exclude", "path:examples", "test_type:unit")


@pytest.mark.parametrize("seed", [1, 2])
def test_any_cut_into_batches_gives_the_counts_of_the_rows(warehouse: Warehouse, seed: int) -> None:
    source = Source(seed)
    for size in (1, 150, 2, 40, 0, 200):
        warehouse.append(*(source.transaction() for _ in range(size)))
        warehouse.build(*FACT)
        assert warehouse.counts() == source.counts()
    assert source.truncated
    in_batches = warehouse.execute("select * from analytics.ft_service_stats order by id")

    warehouse.build("--full-refresh", *FACT)
    rebuilt = warehouse.execute("select * from analytics.ft_service_stats order by id")
    assert rebuilt == in_batches


def test_a_first_build_equals_many_small_ones(warehouse: Warehouse) -> None:
    source = Source(4)
    warehouse.append(*(source.transaction() for _ in range(300)))
    warehouse.build(*FACT)
    assert source.truncated
    assert warehouse.counts() == source.counts()


def test_the_last_truncate_of_a_transaction_counts(warehouse: Warehouse) -> None:
    warehouse.append([change("I", LIVE, new=row(id="1")), change("I", ARCHIVE, new=row(id="9"))])
    warehouse.build(*FACT)
    warehouse.append(
        [
            change("I", LIVE, new=row(id="2")),
            change("T", LIVE),
            change("I", LIVE, new=row(id="3")),
            change("T", LIVE),
            change("I", LIVE, new=row(id="4")),
        ]
    )
    warehouse.build(*FACT)
    assert list(warehouse.counts().values()) == [(1, 1)]


def test_an_unseeded_delete_is_remembered_below_the_floor(warehouse: Warehouse) -> None:
    warehouse.append([change("D", LIVE, old=row(id="1"))])
    warehouse.build(*FACT)
    stats = "select count, live_count from analytics.ft_service_stats"
    assert warehouse.execute(stats) == [(0, -1)]
    warehouse.append([change("I", LIVE, new=row(id=str(number))) for number in (2, 3)])
    warehouse.build(*FACT)
    assert warehouse.execute(stats) == [(1, 1)]


def test_a_rebuild_repairs_a_count_that_someone_changed(warehouse: Warehouse) -> None:
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(*FACT)
    warehouse.execute("update analytics.ft_service_stats set count = 7")
    warehouse.build("--full-refresh", *FACT)
    assert warehouse.execute("select count from analytics.ft_service_stats") == [(1,)]


def test_an_empty_batch_writes_nothing(warehouse: Warehouse) -> None:
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build()
    state = (
        "select (select array_agg(xmin::text) from analytics.ft_service_stats), "
        "(select array_agg(xmin::text order by model_name) from cdc.model_watermark)"
    )
    before = warehouse.execute(state)
    warehouse.build()
    assert warehouse.execute(state) == before


def test_rejected_changes_are_listed_and_the_rest_counts(warehouse: Warehouse) -> None:
    warehouse.append(["not json", change("I", LIVE, new=row()), {"action": "Z"}])
    warehouse.append([change("D", LIVE, old={"id": "1"})])
    warehouse.build()
    assert list(warehouse.counts().values()) == [(1, 0)]
    listed = (
        "select ordinal, reason, payload from analytics.rejected_changes "
        "where fact = 'analytics.ft_service_stats' order by 1, 2"
    )
    reasons = warehouse.execute(listed)
    assert [(ordinal, reason) for ordinal, reason, _ in reasons] == [
        (1, "the payload is not valid JSON"),
        (
            1,
            "the replica identity does not carry the old service_id, template_id, "
            "notification_type, notification_status",
        ),
        (3, "the action is not known"),
    ]
    assert reasons[0][2] == "not json"
    warehouse.build("--full-refresh")
    assert warehouse.execute(listed) == reasons


def test_each_fact_lists_what_it_could_not_count(warehouse: Warehouse) -> None:
    lacks_key_type = {name: value for name, value in row().items() if name != "key_type"}
    warehouse.append([change("I", LIVE, new=row(id="1"))])
    warehouse.append([change("D", LIVE, old=lacks_key_type)])
    warehouse.build()
    listed = "select fact, reason from analytics.rejected_changes order by 1"
    reasons = [
        ("analytics.ft_key_types", "the replica identity does not carry the old key_type"),
    ]
    assert warehouse.execute(listed) == reasons
    warehouse.append([{"action": "Z"}])
    warehouse.build("--select", "ft_key_types")
    reasons.insert(0, ("analytics.ft_key_types", "the action is not known"))
    assert sorted(warehouse.execute(listed)) == reasons
    # One fact's rebuild lists its own rows anew and leaves the others'.
    warehouse.build()
    everything = sorted(warehouse.execute(listed))
    assert len(everything) == len(warehouse.project.facts()) + 1
    warehouse.build("--full-refresh", *FACT)
    assert sorted(warehouse.execute(listed)) == everything


def test_a_rejection_is_listed_by_the_build_that_met_it(warehouse: Warehouse) -> None:
    listed = "select reason from analytics.rejected_changes"
    warehouse.append([change("I", LIVE, new=row(id="1"))])
    warehouse.build("--select", "rejected_changes")
    warehouse.build(*FACT)
    warehouse.append([change("I", LIVE, new=row(id="2")), {"action": "Z"}])
    warehouse.build(*FACT)
    assert warehouse.execute(listed) == [("the action is not known",)]
    for words in (("--select", "rejected_changes"), FACT, ("--full-refresh", *FACT)):
        warehouse.append([change("I", LIVE, new=row(id="3"))])
        warehouse.build(*words)
        assert warehouse.execute(listed) == [("the action is not known",)]
    assert warehouse.execute("select model_name from cdc.model_watermark") == [
        ("analytics.ft_service_stats",)
    ]


def test_a_rejection_that_cannot_be_listed_is_not_passed_over(warehouse: Warehouse) -> None:
    """A fact that is built alone, before the list is there."""
    warehouse.append([change("I", LIVE, new=row()), {"action": "Z"}])
    done = warehouse.dbt("run", *FACT)
    assert not done.success
    assert "dbt run --select rejected_changes" in messages(done).split("HINT")[1]
    warehouse.build("--select", "rejected_changes")
    warehouse.build(*FACT)
    assert list(warehouse.counts().values()) == [(1, 0)]
    assert warehouse.execute("select count(*) from analytics.rejected_changes") == [(1,)]


def test_a_failing_test_of_the_fact_holds_up_no_rejection(warehouse: Warehouse) -> None:
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build()
    warehouse.append([change("I", LIVE, new=row(notification_type="fax")), {"action": "Z"}])
    done = warehouse.dbt("build", *NO_UNIT_TESTS)
    assert not done.success
    results: list[Any] = list(getattr(done.result, "results", []))
    statuses = {each.node.name: str(each.status) for each in results}
    assert statuses["no_rejected_changes"] == "fail"
    assert statuses["ft_service_stats"] == "success"
    listed = "select reason from analytics.rejected_changes where fact like '%%service_stats'"
    assert warehouse.execute(listed) == [("the action is not known",)]
    # Nor does a rejection hold up what comes after it.
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.execute("drop view analytics.service_totals")
    warehouse.execute("delete from analytics.ft_service_stats where notification_type = 'fax'")
    done = warehouse.dbt("build", *NO_UNIT_TESTS)
    results = list(getattr(done.result, "results", []))
    assert [
        each.node.name for each in results if str(each.status) in ("fail", "error", "skipped")
    ] == ["no_rejected_changes"]
    assert list(warehouse.counts().values()) == [(2, 0)]


def test_rows_of_no_group_are_counted_by_part(warehouse: Warehouse) -> None:
    left_out = "select left_out from cdc.model_watermark"

    def after(*transaction: Row, words: tuple[str, ...] = FACT) -> Any:
        warehouse.append(list(transaction))
        warehouse.build(*words)
        return warehouse.execute(left_out)[0][0]

    warehouse.build("--select", "rejected_changes")
    nobody = row(service_id=None)
    two = change("I", LIVE, new=nobody), change("I", LIVE, new=row(template_id=None))
    assert after(*two) == {"live": 2, "archived": 0}
    assert after(change("I", ARCHIVE, new=nobody)) == {"live": 2, "archived": 1}
    assert after(change("U", LIVE, nobody, row())) == {"live": 1, "archived": 1}
    assert after(change("U", LIVE, row(), nobody)) == {"live": 2, "archived": 1}
    assert after(change("D", LIVE, nobody)) == {"live": 1, "archived": 1}
    assert after({"schema": "public", "table": "notifications"}) == {"live": 1, "archived": 1}
    # A purge of history removes storage, not history.
    assert after(change("D", ARCHIVE, nobody)) == {"live": 1, "archived": 1}
    assert after(words=("--full-refresh", *FACT)) == {"live": 1, "archived": 1}
    assert after(change("T", LIVE), change("I", LIVE, new=nobody)) == {"live": 1, "archived": 1}
    warehouse.seed({})
    warehouse.execute(
        "update cdc.baseline set left_out = %s", json.dumps({"live": 40, "archived": 50})
    )
    assert after(change("I", LIVE, new=nobody)) == {"live": 41, "archived": 50}
    assert after(change("T", ARCHIVE)) == {"live": 41, "archived": 0}
    assert after(words=("--full-refresh", *FACT)) == {"live": 41, "archived": 0}


def test_sums_are_not_rounded(warehouse: Warehouse) -> None:
    for number in range(3):
        warehouse.append([change("I", LIVE, new=row(id=str(number), billable_units=0.3))])
        warehouse.build("--select", "ft_billable_units")
    units = "select units::text from analytics.ft_billable_units"
    assert warehouse.execute(units) == [("0.9",)]


def test_an_old_value_that_is_not_carried_is_not_guessed(warehouse: Warehouse) -> None:
    """Under the covering index of ft_service_stats the old key_type is not known."""
    covered = ("service_id", "template_id", "notification_type", "notification_status")
    old = {name: row()[name] for name in ("id", *covered)}
    warehouse.append([change("I", LIVE, new=row(key_type="team"))])
    warehouse.append([change("U", LIVE, old, row(key_type="normal"))])
    warehouse.build()
    assert list(warehouse.counts().values()) == [(1, 0)]
    key_types = "select key_type, count from analytics.ft_key_types"
    assert warehouse.execute(key_types) == [("team", 1)]
    assert warehouse.execute("select fact, reason from analytics.rejected_changes order by 1") == [
        (
            "analytics.ft_billable_units",
            "the replica identity does not carry the old billable_units",
        ),
        ("analytics.ft_key_types", "the replica identity does not carry the old key_type"),
    ]


def test_slices_end_where_a_transaction_ends(warehouse: Warehouse) -> None:
    source = Source(5)
    warehouse.append([change("I", LIVE, new=row(id="first", service_id=None))])
    warehouse.build(*FACT)
    warehouse.append(*(source.transaction() for _ in range(70)))
    in_slices = (*FACT, "--vars", "slice_changes: 50")
    applied = "select applied_lsn::text from cdc.model_watermark"
    ahead = (
        "select count(*) from cdc.change_log as log "
        "inner join cdc.model_watermark as mark on log.commit_lsn >= mark.applied_lsn"
    )
    ((largest,),) = warehouse.execute(
        "select max(size) from (select count(*) as size from cdc.change_log group by commit_lsn) "
        "as transactions"
    )
    seen, waiting = set(warehouse.execute(applied)), warehouse.execute(ahead)[0][0]
    while waiting:
        warehouse.build(*in_slices)
        seen |= set(warehouse.execute(applied))
        before, waiting = waiting, warehouse.execute(ahead)[0][0]
        assert 0 < before - waiting <= max(50, largest)
    assert len(seen) > 3
    assert warehouse.counts() == source.counts()
    warehouse.build("--full-refresh", *in_slices)
    assert warehouse.execute(ahead) == [(0,)], "a rebuild is not cut"
    assert warehouse.counts() == source.counts()


def test_the_loader_builds_until_no_slice_is_left(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source(8)
    warehouse.append([change("I", LIVE, new=row(id="first", service_id=None))])
    # The list of rejections is not there yet: the loader's builds make it.
    warehouse.build("--select", "config.materialized:waltally_fact")
    warehouse.append(*(source.transaction() for _ in range(60)), [{"action": "Z"}])
    for variable, place in (("PROJECT", "."), ("PROFILES", "."), ("TARGET", "target")):
        ending = "PATH" if variable == "TARGET" else "DIR"
        monkeypatch.setenv(f"DBT_{variable}_{ending}", str(warehouse.project.home / place))
    monkeypatch.setattr(builder, "_SLICE", ("--vars", "slice_changes: 60"))
    settings = Settings.of(warehouse.cluster.dsn(DATABASE), "", SLOT, "cdc")
    models = builder.Models()
    builds: list[None] = []
    monkeypatch.setattr(builder.Models, "apply", recording(builds, builder.Models.apply))
    builder.apply_all(settings, models)
    assert len(builds) > 2
    assert warehouse.counts() == source.counts()
    reasons = "select reason from analytics.rejected_changes where fact like '%%service_stats'"
    assert warehouse.execute(reasons) == [("the action is not known",)]
    builder.apply_all(settings, models)
    assert warehouse.counts() == source.counts()


def recording(
    calls: list[None], apply: Callable[[builder.Models], None]
) -> Callable[[builder.Models], None]:
    def recorded(models: builder.Models) -> None:
        calls.append(None)
        apply(models)

    return recorded


def test_a_transaction_larger_than_a_slice_goes_whole(warehouse: Warehouse) -> None:
    warehouse.append([change("I", LIVE, new=row(id="1"))])
    warehouse.build(*FACT)
    warehouse.append([change("I", LIVE, new=row(id=str(number))) for number in range(30)])
    warehouse.append([change("I", LIVE, new=row(id="last"))])
    in_slices = (*FACT, "--vars", "slice_changes: 7")
    warehouse.build(*in_slices)
    assert list(warehouse.counts().values()) == [(31, 0)]
    warehouse.build(*in_slices)
    assert list(warehouse.counts().values()) == [(32, 0)]


def test_a_second_fact_is_one_short_model(warehouse: Warehouse) -> None:
    source = Source(6)
    warehouse.append(*(source.transaction() for _ in range(60)))
    warehouse.build()
    warehouse.append(*(source.transaction() for _ in range(60)))
    for words in ((), ("--full-refresh",)):
        warehouse.build(*words)
        rows = [each for each in source.live.values() if each["service_id"]]
        key_types = {(each["service_id"], each["key_type"]): 0 for each in rows}
        units = {each["service_id"]: 0 for each in rows}
        for each in rows:
            key_types[each["service_id"], each["key_type"]] += 1
            units[each["service_id"]] += each["billable_units"]
        assert {
            (service, key_type): count
            for service, key_type, count in warehouse.execute(
                "select service_id::text, key_type, count from analytics.ft_key_types "
                "where count <> 0"
            )
        } == key_types
        assert dict(
            warehouse.execute(
                "select service_id::text, units from analytics.ft_billable_units where units <> 0"
            )
        ) == {service: total for service, total in units.items() if total}
        # A fact without the other dimensions counts their nulls too.
        assert dict(
            warehouse.execute(
                "select service_id::text, live_count from analytics.ft_services "
                "where live_count <> 0"
            )
        ) == Counter(each["service_id"] for each in rows)
