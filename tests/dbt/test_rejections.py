"""What cannot be counted is listed with its reason, and the rest counts."""

from __future__ import annotations

import json
from typing import Any

from tests.dbt.staged import FACT, SHIPPED, Warehouse
from tests.dbt.workload import ARCHIVE, LIVE, Row, change, row

LISTED = "select split_part(fact, '.', 2), reason from analytics.rejected_changes order by 1, 2"


def test_a_rejection_that_cannot_be_listed_is_not_passed_over(fresh: Warehouse) -> None:
    """A fact that is built alone, before the list is there."""
    fresh.append([change("I", LIVE, new=row()), {"action": "Z"}])
    said = fresh.must_fail("run", "--select", FACT)
    assert "`dbt build` makes what is missing" in said.split("HINT")[1]
    for model in ("rejected_changes", FACT):
        fresh.must("run", "--select", model)
    assert list(fresh.counts().values()) == [(1, 0)]
    assert fresh.value("select count(*) from analytics.rejected_changes") == 1


def test_a_failing_test_of_the_fact_holds_up_no_rejection(warehouse: Warehouse) -> None:
    def statuses_of_build() -> dict[str, str]:
        done = warehouse.dbt("build", *SHIPPED, "test_type:unit")
        results: list[Any] = list(getattr(done.result, "results", []))
        return {each.node.name: str(each.status) for each in results}

    warehouse.build(FACT)
    warehouse.append([change("I", LIVE, new=row(notification_type="fax")), {"action": "Z"}])
    statuses = statuses_of_build()
    assert (statuses["no_rejected_changes"], statuses[FACT]) == ("fail", "success")
    assert warehouse.execute(LISTED) == [(FACT, "the action is not known")]
    # Nor does a rejection hold up what comes after it.
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.execute("drop view analytics.service_totals")
    warehouse.execute("delete from analytics.ft_service_stats where notification_type = 'fax'")
    statuses = statuses_of_build()
    assert statuses["service_totals"] == "success"
    not_done = {"fail", "error", "skipped"}
    assert [name for name in statuses if statuses[name] in not_done] == ["no_rejected_changes"]
    assert list(warehouse.counts().values()) == [(1, 0)]


def test_rows_of_no_group_are_counted_by_part(warehouse: Warehouse) -> None:
    left_out = "select left_out from cdc.model_watermark"

    def after(*transaction: Row, refresh: bool = False) -> Any:
        warehouse.append(list(transaction))
        warehouse.build(FACT, refresh=refresh)
        return {"live": 0, "archived": 0} | warehouse.value(left_out)

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
    assert after(refresh=True) == {"live": 1, "archived": 1}
    assert after(change("T", LIVE), change("I", LIVE, new=nobody)) == {"live": 1, "archived": 1}
    warehouse.seed({})
    warehouse.execute(
        "update cdc.baseline set left_out = %s", json.dumps({"live": 40, "archived": 50})
    )
    assert after(change("I", LIVE, new=nobody)) == {"live": 41, "archived": 50}
    assert after(change("T", ARCHIVE)) == {"live": 41, "archived": 0}
    assert after(refresh=True) == {"live": 41, "archived": 0}
