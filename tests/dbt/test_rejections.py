"""What cannot be counted is listed with its reason, and the rest counts."""

from __future__ import annotations

import json
from typing import Any

from tests.dbt.project import messages
from tests.dbt.staged import FACT, Warehouse
from tests.dbt.workload import ARCHIVE, LIVE, Row, change, row

NO_UNIT_TESTS = ("--exclude", "path:examples", "test_type:unit")


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
    warehouse.build()
    # One fact's rebuild lists its own rows anew and leaves the others'.
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
    done = warehouse.dbt("run", "--select", "ft_service_stats")
    assert not done.success
    assert "`dbt build` makes what is missing" in messages(done).split("HINT")[1]
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
        return {"live": 0, "archived": 0} | warehouse.execute(left_out)[0][0]

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
