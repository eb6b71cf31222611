"""Changes that were rejected are counted by a seed of their fact, once the cause is mended."""

from __future__ import annotations

from demo import recount
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


def test_an_update_of_the_archive_that_was_rejected_is_no_purge(audited: Audited) -> None:
    """What the fact has beyond the stored rows is then not all purged."""
    with audited.follow():
        narrow(
            audited,
            "notification_history",
            "update notification_history set notification_status = 'came-back' where id in (select"
            " id from notification_history where notification_status = 'delivered' limit 3)",
        )
        purge(audited, 5)
        audited.stage()
        audited.build()
        assert rejected(audited) == [("public.notification_history", "U", 3)]
        assert not is_exact(audited)
        seed_and_build(audited)
    assert rejected(audited) == []
    assert audited.source.value("select sum(purged[2]) from cdc.baseline_group") == 5
    assert is_exact(audited)
