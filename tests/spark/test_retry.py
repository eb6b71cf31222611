"""Changes that were rejected are counted by a seed of their fact, once the cause is mended."""

from __future__ import annotations

import pytest

from testkit import recount
from tests.spark.audited import DIMENSIONS, Audited

SEED = ("--fact", "ft_service_stats")


def rejected(audited: Audited) -> list[tuple[str, str, int]]:
    """Return table and action of what was rejected, and how often."""
    return audited.source.execute(
        "select source_table, action, count(*)::int from analytics.rejected_changes"
        " group by 1, 2 order by 1, 2"
    )


def seed_and_build(audited: Audited) -> None:
    code, _, err = audited.run(*SEED, job="seed")
    assert code == 0, err
    audited.stage()
    audited.build()


def is_exact(audited: Audited) -> bool:
    """Whether the fact has the stored rows and every row that was ever purged."""
    live, archived = audited.fact()
    groups = live.keys() | archived.keys()
    return {each: (live[each], archived[each]) for each in groups} == recount.expected(audited.dsn)


def narrow(audited: Audited, table: str, statement: str) -> None:
    """Run a statement while the table's replica identity is its primary key."""
    audited.source.execute(f"alter table {table} replica identity default")
    audited.source.execute(statement)
    audited.source.execute(f"alter table {table} replica identity full")


def purge(audited: Audited, rows: int) -> None:
    """Delete archived rows as the traffic does: the recount counts them still."""
    audited.source.execute(
        "with gone as (delete from notification_history where id in (select id from"
        f" notification_history where num_nulls({DIMENSIONS}) = 0 order by id limit %s)"
        f" returning {DIMENSIONS}, key_type, created_at)"
        f" insert into truth.purged ({DIMENSIONS}, key_type, created_at) select * from gone",
        rows,
    )


@pytest.mark.parametrize(
    "is_built",
    [True, pytest.param(False, marks=pytest.mark.slow)],
    ids=["built", "only staged"],
)
def test_an_update_of_the_archive_that_was_rejected_is_no_purge(
    audited: Audited, is_built: bool
) -> None:
    """What was purged is written down; what the fact has beyond that is none of it."""
    with audited.follow():
        narrow(
            audited,
            "notification_history",
            "update notification_history set notification_status = 'came-back' where id in (select"
            " id from notification_history where notification_status = 'delivered' limit 3)",
        )
        purge(audited, 5)
        audited.stage()
        if is_built:
            audited.build()
            assert rejected(audited) == [("public.notification_history", "U", 3)]
            assert not is_exact(audited)
        seed_and_build(audited)
    assert rejected(audited) == []
    assert audited.source.value("select sum(measures[2]) from cdc.archived_delete") == 5
    assert is_exact(audited)


def test_a_purge_that_was_rejected_is_not_written_down(audited: Audited) -> None:
    """Its group is not known, so the next seed counts what is stored."""
    with audited.follow():
        narrow(
            audited,
            "notification_history",
            "delete from notification_history where id in"
            " (select id from notification_history where service_id is not null limit 1)",
        )
        audited.stage()
        audited.build()
        assert rejected(audited) == [("public.notification_history", "D", 1)]
        assert audited.fact() != audited.recount()
        seed_and_build(audited)
    assert rejected(audited) == []
    assert audited.fact() == audited.recount()


@pytest.mark.slow
def test_a_row_that_can_be_counted_now_hides_no_purged_one(audited: Audited) -> None:
    """The text of a dimension is cut, in the group of a row that was purged."""
    columns = "id, service_id, template_id, notification_type, notification_status, created_at"
    with audited.follow():
        for length in (1, 1001):
            audited.source.execute(
                f"insert into notification_history ({columns}) select gen_random_uuid(),"
                " service_id, id, 'sms', repeat('c', %s), now() from templates order by id limit 1",
                length,
            )
        audited.stage()
        audited.build()
        assert rejected(audited) == [("public.notification_history", "I", 1)]
        audited.source.execute(
            "with gone as (delete from notification_history where notification_status = 'c'"
            f" returning {DIMENSIONS}, key_type, created_at)"
            f" insert into truth.purged ({DIMENSIONS}, key_type, created_at) select * from gone"
        )
        # A rewrite of the table is in no change.
        audited.source.execute(
            "alter table notification_history alter notification_status type text using case when"
            " length(notification_status) > 1000 then 'c' else notification_status end"
        )
        seed_and_build(audited)
    assert rejected(audited) == []
    assert is_exact(audited)
