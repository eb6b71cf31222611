"""A row that moves between leaves counts once, also where a fact ignores deletes."""

from __future__ import annotations

import pytest

from testkit.pipeline import Pipeline
from testkit.spark_jobs import run_job
from tests.partitions.test_purged import ARCHIVE

KEY = "alter table notification_history add primary key (id, notification_status)"
MOVE = "update notification_history set notification_status = '{}' where notification_status = '{}'"


def archived(pipeline: Pipeline) -> dict[str, int]:
    """Return how many archived rows the fact has, by status."""
    found = pipeline.source.execute(
        "select notification_status, sum(archived_count)::int from analytics.ft_service_stats "
        "group by 1 having sum(archived_count) <> 0"
    )
    return dict(found)


@pytest.mark.parametrize("columns", [pytest.param("", marks=pytest.mark.slow), "created_at"])
def test_archived_rows_that_move_count_once(partitioned: Pipeline, columns: str) -> None:
    partitioned.source.execute(KEY)
    partitioned.set_up()
    partitioned.source.insert(5, "sent")
    # Triggers may write to other tables between the delete and the insert of a row that moves.
    partitioned.source.execute(
        "create function note() returns trigger language plpgsql as $$ begin "
        "update notifications set notification_status = 'noted'; return new; end $$;"
        "create trigger note before insert on history_rest for each row execute function note()"
    )
    partitioned.source.execute(ARCHIVE)
    partitioned.source.execute(MOVE.format("failed", "sent"))
    partitioned.source.execute(MOVE.format("late", "failed"))
    partitioned.source.execute(f"begin; {MOVE.format('sent', 'late')}; savepoint s;"
                               f"{MOVE.format('lost', 'sent')}; rollback to s; commit")  # fmt: skip
    partitioned.must("run", "--once", *(("--columns", columns) if columns else ()))
    partitioned.must_be_exact()
    assert archived(partitioned) == {"sent": 5}
    with partitioned.follow("--build") as running:
        run_job("spark-submit spark/seed.py", partitioned.environment())
        partitioned.source.execute(MOVE.format("failed", "sent"))
        run_job("spark-submit spark/audit.py", partitioned.environment())
        running.end()
    partitioned.must_be_exact()


def test_a_purge_beside_an_insert_is_no_move(partitioned: Pipeline) -> None:
    partitioned.source.execute(KEY)
    partitioned.set_up()
    partitioned.source.insert(3, "sent")
    partitioned.source.execute(ARCHIVE)
    partitioned.source.execute(
        "begin; delete from notification_history; update notifications set notification_status = "
        f"'failed', id = gen_random_uuid(); {ARCHIVE}; delete from notification_history; commit"
    )
    partitioned.catch_up()
    assert archived(partitioned) == {"sent": 3, "failed": 3}
    with partitioned.follow() as running:
        run_job("spark-submit spark/seed.py", partitioned.environment())
        running.end()
    partitioned.build()
    assert archived(partitioned) == {"sent": 3, "failed": 3}


def test_facts_wait_where_no_key_tells_a_move_from_a_purge(partitioned: Pipeline) -> None:
    partitioned.set_up()
    partitioned.source.insert(1, "sent")
    partitioned.source.execute(ARCHIVE)
    partitioned.catch_up()
    before = partitioned.fact()
    with partitioned.follow() as running:
        partitioned.source.execute(MOVE.format("failed", "sent"))
        running.wait_for("may have moved between its partitions")
        running.end()
    partitioned.stage()
    assert "does not hold everything" in partitioned.waits()
    assert partitioned.fact() == before
    run_job("spark-submit spark/seed.py --forget-purged", partitioned.environment())
    partitioned.must_be_exact()
