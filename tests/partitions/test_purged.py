"""A leaf that is dropped or truncated is a purge, where deletes are ignored."""

from __future__ import annotations

import pytest

from testkit.pipeline import Pipeline
from testkit.spark_jobs import run_job
from waltally.errors import LoaderError

ARCHIVE = (
    "insert into notification_history (id, service_id, template_id, notification_type, "
    "notification_status, created_at) select gen_random_uuid(), service_id, template_id, "
    "notification_type, notification_status, created_at from notifications"
)


@pytest.mark.parametrize(
    "ddl",
    [
        "drop table history_sent",
        pytest.param("truncate history_sent", marks=pytest.mark.slow),
    ],
)
def test_purged_leaves_stay_counted(partitioned: Pipeline, ddl: str) -> None:
    partitioned.source.insert(3, "sent")
    partitioned.source.insert(2)
    partitioned.set_up()
    partitioned.seed()
    partitioned.source.execute(ARCHIVE)
    partitioned.catch_up()
    _, before = partitioned.fact()
    assert sum(before.values()) == 5
    with partitioned.follow() as running:
        # The changes just before the purge belong to the leaf that is gone.
        partitioned.source.execute(ARCHIVE)
        partitioned.source.execute(ddl)
        partitioned.source.execute("delete from notifications")
        partitioned.wait_for_staged(15 + ("truncate" in ddl))
        partitioned.build()
        assert partitioned.rejected() == []
        assert partitioned.fact()[1] == before + before
        audit = run_job("spark-submit spark/audit.py", partitioned.environment())
        assert "was dropped or truncated before" in audit
        run_job("spark-submit spark/seed.py", partitioned.environment())
        partitioned.build()
        assert partitioned.fact()[1] == before + before
        audit = run_job("spark-submit spark/audit.py", partitioned.environment())
        assert "was dropped or truncated before" not in audit
        running.end()


def test_rows_that_a_leaf_brought_are_not_taken_for_purged(partitioned: Pipeline) -> None:
    partitioned.set_up()
    partitioned.source.insert(2)
    partitioned.source.execute(ARCHIVE)
    partitioned.seed()
    partitioned.catch_up()
    # Each in a transaction of its own: made, filled and attached at once, it would be no matter.
    for each in (
        "create table filled (like notification_history)",
        "insert into filled select * from notification_history",
        "update filled set notification_status = 'failed'",
        "alter table filled replica identity full",
        "alter table notification_history attach partition filled for values in ('failed')",
    ):
        partitioned.source.execute(each)
    with partitioned.follow() as running:
        partitioned.source.insert(1)
        running.wait_for("so its facts wait")
        with pytest.raises(LoaderError, match="the change log does not hold everything"):
            run_job("spark-submit spark/audit.py", partitioned.environment())
        said = run_job("spark-submit spark/seed.py", partitioned.environment())
        assert "the change log does not go on from" in said
        running.end()
    partitioned.must_be_exact()
