"""Changes that were rejected are counted by a seed of their model, once the cause is mended."""

from __future__ import annotations

from testkit import recount
from tests.spark.audited import DIMENSIONS, Audited

PURGE = (
    "with gone as (delete from notification_history where id in (select id from"
    f" notification_history where num_nulls({DIMENSIONS}) = 0 order by id limit 5)"
    f" returning {DIMENSIONS}, key_type, created_at)"
    f" insert into truth.purged ({DIMENSIONS}, key_type, created_at) select * from gone"
)
"""Deletes archived rows as the traffic does: the recount counts them still."""


def seed_and_build(audited: Audited) -> None:
    audited.spark_job("spark-submit spark/seed.py --model ft_service_stats")
    audited.wait_for_log()
    audited.build()


def is_exact(audited: Audited) -> bool:
    """Whether nothing is rejected, and the model has each row that is stored or was purged."""
    different = recount.differences(audited.dsn, slot=audited.slot, every_purge=True)
    return not audited.rejected() and not different


def narrow(audited: Audited, statement: str) -> None:
    """Run a statement while the archive's replica identity is its primary key."""
    audited.source.execute("alter table notification_history replica identity default")
    audited.source.execute(f"{statement} limit 3)")
    audited.source.execute("alter table notification_history replica identity full")
    audited.wait_for_log()


def test_an_update_of_the_archive_that_was_rejected_is_no_purge_and_a_delete_no_written_one(
    audited: Audited,
) -> None:
    """What was purged is written down; what the model has beyond that is none of it."""
    some = "select id from notification_history where notification_status = 'delivered'"
    update = f"update notification_history set notification_status = 'back' where id in ({some}"
    purged = "select sum(measures[1]) from cdc.archived_delete"
    with audited.follow():
        audited.source.execute(PURGE)
        narrow(audited, update)
        audited.build()
        assert [action for action, _ in audited.rejected()] == ["U"] * 3
        seed_and_build(audited)
        assert (is_exact(audited), audited.source.value(purged)) == (True, 5)

        # Only staged: the model has not met the change when it is seeded.
        narrow(audited, update)
        seed_and_build(audited)
        assert (is_exact(audited), audited.source.value(purged)) == (True, 5)

        # Its group is not known, so the next seed counts what is stored.
        narrow(audited, f"delete from notification_history where id in ({some}")
        audited.build()
        assert [action for action, _ in audited.rejected()] == ["D"] * 3
        seed_and_build(audited)
    assert is_exact(audited)
