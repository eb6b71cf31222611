"""Changes that were rejected are counted by a seed of their fact, once the cause is mended."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from testkit import recount
from testkit.databases import paste
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
    audited.stage()
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
    audited.stage()


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
        catch_up(audited)
        assert [found[2:] for found in rejected(audited)] == [("I", 1)]
        audited.source.execute(PURGE.format("notification_status = 'c'"))
        # A rewrite of the table is in no change.
        audited.source.execute(
            "alter table notification_history alter notification_status type text using case when"
            " length(notification_status) > 1000 then 'c' else notification_status end"
        )
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

    def follow_remedy(self, fact: str, *, is_refused: bool = False) -> None:
        """Run what `loader status` prints about a fact's rejected changes, in that order.

        With `is_refused` setup has something to say about the table.
        """
        said = self.pipeline.loader("status").stdout
        assert f"{fact} could not count " in said
        found = re.search(rf"^ *Try: (.* --fact {fact}`.*)$", said, re.M)
        assert found, said
        commands = re.findall(r"`([^`]+)`", found[1])
        assert "loader setup --check" in commands
        for command in commands:
            self._run(command, is_refused)

    def _run(self, command: str, is_refused: bool) -> None:
        program, *words = command.split()
        if command == "loader setup --check":
            done = self.pipeline.loader(*words)
            assert done.returncode == (18 if is_refused else 0), done.stderr
            for sql in re.findall(r"^Try: (.*)", done.stderr, re.M):
                paste(self.pipeline.source.cluster, self.pipeline.source.name, sql)
        elif command == "dbt build":
            catch_up(self.pipeline)
        else:
            assert (program, words[0]) == ("spark-submit", "spark/seed.py"), command
            seed_and_build(self.pipeline, *words[1:])

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


@pytest.mark.parametrize("cause", ["value", pytest.param("identity", marks=pytest.mark.slow)])
def test_what_status_prints_about_rejected_changes_counts_them(
    audited: Audited, tmp_path: Path, cause: str
) -> None:
    audited.source.execute(ORDERS)
    orders = Orders(audited, tmp_path / "first")
    orders.declare(**FACTS)
    with audited.follow():
        seed_and_build(audited)
        if cause == "value":
            audited.source.execute(
                "insert into orders (code, size) values ('A-6', 1), ('7', 70000)"
            )
            audited.source.execute("update orders set code = 'A-4' where id = 7")
        else:
            audited.source.execute("alter table orders replica identity nothing")
            audited.source.execute("update orders set code = 8 where id < 4")
            audited.source.execute("delete from orders where id = 5")
        catch_up(audited)
        facts = {fact: why for fact, why, *_ in rejected(audited)}
        assert facts.keys() == {"ft_code", "ft_size"}
        assert cause == "identity" or facts == {
            "ft_code": "the value of code is not of type integer",
            "ft_size": "the value of size is not of type smallint",
        }
        before = orders.state("ft_size")
        # One is corrected in the table, the other in the declaration.
        audited.source.execute("update orders set code = replace(code, 'A-', '') where code ~ 'A'")
        orders.follow_remedy("ft_code", is_refused=cause == "identity")
        assert orders.state("ft_size") == before
        if cause == "value":
            orders.home = tmp_path / "wider"
            orders.declare(code="integer", size="integer")
            before = orders.state("ft_code")
            orders.follow_remedy("ft_size")
            assert orders.state("ft_code") == before
        else:
            seed_and_build(audited, "--fact", "ft_size")
        assert orders.is_exact()
