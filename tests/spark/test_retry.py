"""Changes that were rejected are counted by a seed of their fact, once the cause is mended."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from testkit import recount
from testkit.project import host_project
from tests.spark.audited import DIMENSIONS, Audited

SEED = ("--fact", "ft_service_stats")
PURGE = (
    "with gone as (delete from notification_history where id in (select id from"
    f" notification_history where num_nulls({DIMENSIONS}) = 0 and {{}} order by id limit 5)"
    f" returning {DIMENSIONS}, key_type, created_at)"
    f" insert into truth.purged ({DIMENSIONS}, key_type, created_at) select * from gone"
)
"""Deletes archived rows as the traffic does: the recount counts them still."""


def rejected(audited: Audited) -> list[tuple[Any, ...]]:
    """Return fact, reason and action of what was rejected, and how often."""
    return audited.source.execute(
        "select substr(fact, 11), reason, action, count(*)::int from analytics.rejected_changes"
        " group by 1, 2, 3 order by 1, 2, 3"
    )


def catch_up(audited: Audited) -> None:
    audited.wait_for_log()
    audited.build()


def seed_and_build(audited: Audited, *flags: str) -> None:
    code, _, err = audited.run(*flags, job="seed")
    assert code == 0, err
    catch_up(audited)


def is_exact(audited: Audited) -> bool:
    """Whether the fact has the stored rows and every row that was ever purged."""
    live, archived = audited.fact()
    groups = live.keys() | archived.keys()
    return {each: (live[each], archived[each]) for each in groups} == recount.expected(audited.dsn)


def narrow(audited: Audited, statement: str) -> None:
    """Run a statement while the archive's replica identity is its primary key."""
    audited.source.execute("alter table notification_history replica identity default")
    audited.source.execute(f"{statement} limit 3)")
    audited.source.execute("alter table notification_history replica identity full")
    audited.wait_for_log()


def test_an_update_of_the_archive_that_was_rejected_is_no_purge_and_a_delete_no_written_one(
    audited: Audited,
) -> None:
    """What was purged is written down; what the fact has beyond that is none of it."""
    some = "select id from notification_history where notification_status = 'delivered'"
    update = f"update notification_history set notification_status = 'back' where id in ({some}"
    purged = "select sum(measures[2]) from cdc.archived_delete"
    with audited.follow():
        audited.source.execute(PURGE.format("true"))
        narrow(audited, update)
        audited.build()
        [(fact, why, action, count)] = rejected(audited)
        assert (fact, action, count) == ("ft_service_stats", "U", 3)
        assert not is_exact(audited)
        seed_and_build(audited, *SEED)
        assert (rejected(audited), audited.source.value(purged)) == ([], 5)
        assert is_exact(audited)

        # Only staged: the fact has not met the change when it is seeded.
        narrow(audited, update)
        seed_and_build(audited, *SEED)
        assert (rejected(audited), audited.source.value(purged)) == ([], 5)
        assert is_exact(audited)

        # Its group is not known, so the next seed counts what is stored.
        narrow(audited, f"delete from notification_history where id in ({some}")
        audited.build()
        assert rejected(audited) == [("ft_service_stats", why, "D", 3)]
        seed_and_build(audited, *SEED)
    assert rejected(audited) == []
    assert is_exact(audited)


ORDERS = """
    create table orders (id bigserial primary key, code text not null, size bigint not null);
    alter table orders replica identity full;
    insert into orders (code, size) select i % 7, i % 5 from generate_series(1, 200) as i
"""
FACTS = {"code": "integer", "size": "smallint"}


class Orders:
    """Two facts of one table."""

    def __init__(self, pipeline: Audited, home: Path) -> None:
        self.pipeline = pipeline
        self.home = home

    def declare(self, **types: str) -> None:
        """Declare and register ft_code and ft_size, with these types of their dimensions."""
        models = {
            f"ft_{column}": "{{ waltally.fact(tables={'orders': 'public.orders'}, measures="
            f"{{'row_count': {{'count': 'orders'}}}}, dimensions={{'{column}': '{type_}'}}) }}}}"
            for column, type_ in types.items()
        }
        self.home.mkdir()
        self.pipeline.use_project(host_project(self.home, models))
        self.pipeline.must("setup")

    def state(self, fact: str) -> list[tuple[Any, ...]]:
        """What a seed of another fact leaves alone: the baseline that it is built on, its list."""
        return self.pipeline.source.execute(
            "select w.baseline_id, b.baseline_id, b.snapshot_lsn::text, r.commit_lsn::text, reason"
            " from cdc.model_watermark as w left join cdc.baseline as b on b.fact_name = %s"
            " left join analytics.rejected_changes as r on fact = model_name"
            " where model_name = 'analytics.' || %s order by commit_lsn, ordinal",
            fact,
            fact,
        )

    def follow_remedy(self, fact: str) -> None:
        """Run what `loader status` prints about a fact's rejected changes, in that order."""
        said = self.pipeline.loader("status").stdout
        assert f"{fact} could not count " in said
        found = re.search(rf"^ *Try: (.* --fact {fact}`.*)$", said, re.M)
        assert found, said
        check, seed, build = re.findall(r"`([^`]+)`", found[1])
        assert check == "loader setup --check"
        self.pipeline.must("setup", "--check")
        assert seed.startswith("spark-submit spark/seed.py ")
        assert build == "dbt build"
        seed_and_build(self.pipeline, *seed.split()[2:])

    def is_exact(self) -> bool:
        """Whether both facts equal a recount and nothing is rejected."""
        catch_up(self.pipeline)
        query = "select {0}::text, {1} from {2} order by 1"
        return rejected(self.pipeline) == [] and all(
            self.pipeline.source.execute(
                query.format(column, "row_count", f"analytics.ft_{column} where row_count <> 0")
            )
            == self.pipeline.source.execute(query.format(column, "count(*)", "orders group by 1"))
            for column in FACTS
        )


@pytest.mark.slow
def test_what_status_prints_about_rejected_changes_counts_them(
    audited: Audited, tmp_path: Path
) -> None:
    audited.source.execute(ORDERS)
    orders = Orders(audited, tmp_path / "first")
    orders.declare(**FACTS)
    with audited.follow():
        seed_and_build(audited, "--fact", "ft_code", "--fact", "ft_size")
        audited.source.execute("insert into orders (code, size) values ('A-6', 1), ('7', 70000)")
        audited.source.execute("update orders set code = 'A-4' where id = 7")
        catch_up(audited)
        assert {fact: why for fact, why, *_ in rejected(audited)} == {
            "ft_code": "the value of code is not of type integer",
            "ft_size": "the value of size is not of type smallint",
        }
        before = orders.state("ft_size")
        # One is corrected in the table, the other in the declaration.
        audited.source.execute("update orders set code = replace(code, 'A-', '') where code ~ 'A'")
        orders.follow_remedy("ft_code")
        assert orders.state("ft_size") == before
        orders.home = tmp_path / "wider"
        orders.declare(code="integer", size="integer")
        before = orders.state("ft_code")
        orders.follow_remedy("ft_size")
        assert orders.state("ft_code") == before
        assert orders.is_exact()
