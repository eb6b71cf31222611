"""Archived rows count once and stay counted: when they move between leaves, or go with one."""

from __future__ import annotations

import signal

import pytest
from waltally_jobs.warehouse import loader_progress

from testkit.databases import ARCHIVE
from testkit.pipeline import Pipeline
from tests.partitions.conftest import waits_for_a_seed
from waltally.errors import TableReplaced

SEED, AUDIT = "spark-submit spark/seed.py", "spark-submit spark/audit.py"
GONE = "was dropped, detached or truncated"
KEY = "alter table notification_history add primary key (id, notification_status)"
MOVE = "update notification_history set notification_status = '{}' where notification_status = '{}'"


def archived(pipeline: Pipeline) -> dict[str, int]:
    """Return how many archived rows the model has, by status."""
    counted = "select notification_status, sum(archived_count)::int from analytics.ft_service_stats"
    return dict(pipeline.source.execute(f"{counted} group by 1 having sum(archived_count) <> 0"))


def test_rows_that_move_count_once_and_purged_ones_stay_counted(
    partitioned: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = loader_progress.wait_for_position
    source = partitioned.source
    source.execute(KEY)
    partitioned.set_up()
    source.insert(5, "sent")
    # Triggers may write to other tables between the delete and the insert of a row that moves.
    source.execute(
        "create function note() returns trigger language plpgsql as $$ begin "
        "update notifications set notification_status = 'noted'; return new; end $$;"
        "create trigger note before insert on history_rest for each row execute function note()"
    )
    source.execute(ARCHIVE)
    source.execute(MOVE.format("failed", "sent"))
    source.execute(MOVE.format("late", "failed"))
    source.execute(
        f"begin; {MOVE.format('sent', 'late')}; savepoint s;"
        f"{MOVE.format('lost', 'sent')}; rollback to s; commit"
    )
    partitioned.must("run", "--once", "--columns", "created_at")
    partitioned.must_be_exact()
    assert archived(partitioned) == {"sent": 5}

    # A purge beside an insert is no move.
    source.execute("drop trigger note on history_rest")
    source.execute(
        "begin; delete from notification_history; update notifications set notification_status = "
        f"'failed', id = gen_random_uuid(); {ARCHIVE}; delete from notification_history; commit"
    )
    partitioned.catch_up()
    assert archived(partitioned) == {"sent": 5, "failed": 5}

    # A leaf that is dropped is a purge; the changes just before it belong to the leaf that is gone.
    source.execute(ARCHIVE)
    partitioned.catch_up()
    with partitioned.follow("--build") as running:
        source.execute(MOVE.format("sent", "failed"))
        # Seen by the loader after the audit has read the model, and before it compares.
        running.process.send_signal(signal.SIGSTOP)
        source.execute("drop table history_sent")
        source.execute("delete from notifications")
        monkeypatch.setattr(
            loader_progress,
            "wait_for_position",
            lambda *waited: (running.process.send_signal(signal.SIGCONT), wait(*waited)),
        )
        assert GONE in partitioned.spark_job(AUDIT)
        assert archived(partitioned) == {"sent": 10, "failed": 5}
        # Nothing says which rows went, so a new baseline would lose them.
        with pytest.raises(TableReplaced, match=GONE):
            partitioned.spark_job(SEED)
        assert archived(partitioned) == {"sent": 10, "failed": 5}
        partitioned.spark_job(f"{SEED} --forget-purged")
        assert GONE not in partitioned.spark_job(AUDIT)
        partitioned.spark_job(SEED)
    partitioned.catch_up()
    assert archived(partitioned) == {}
    assert partitioned.rejected() == []


def test_models_wait_where_no_key_tells_a_move_from_a_purge(partitioned: Pipeline) -> None:
    partitioned.set_up()
    partitioned.source.insert(1, "sent")
    partitioned.source.execute(ARCHIVE)
    partitioned.catch_up()
    before = partitioned.model()
    with partitioned.follow() as running:
        partitioned.source.execute(MOVE.format("failed", "sent"))
        running.wait_for("may have moved between its partitions")
    partitioned.stage()
    waits_for_a_seed(partitioned, before)
