"""What cannot be counted is listed with its reason, and the rest counts."""

from __future__ import annotations

from typing import Any

from tests.dbt.staged import MODEL, SHIPPED, Warehouse
from tests.dbt.workload import LIVE, change, row

LISTED = (
    "select split_part(model_name, '.', 2), reason from analytics.rejected_changes order by 1, 2"
)


def test_a_failing_test_of_the_model_holds_up_no_rejection(warehouse: Warehouse) -> None:
    def statuses_of_build() -> dict[str, str]:
        done = warehouse.dbt("build", *SHIPPED, "test_type:unit")
        results: list[Any] = list(getattr(done.result, "results", []))
        return {each.node.name: str(each.status) for each in results}

    warehouse.build(MODEL)
    warehouse.append([change("I", LIVE, new=row(notification_type="fax")), {"action": "Z"}])
    statuses = statuses_of_build()
    assert (statuses["no_rejected_changes"], statuses[MODEL]) == ("fail", "success")
    assert warehouse.execute(LISTED) == [(MODEL, "the action is not known")]
    # Nor does a rejection hold up what comes after it.
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.execute("delete from analytics.ft_service_stats where notification_type = 'fax'")
    statuses = statuses_of_build()
    not_done = {"fail", "error", "skipped"}
    assert [name for name in statuses if statuses[name] in not_done] == ["no_rejected_changes"]
    assert list(warehouse.counts().values()) == [(1, 0)]
