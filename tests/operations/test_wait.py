"""`loader wait` returns once what is committed can be read, and says what is in the way."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from testkit.databases import application_database
from testkit.pipeline import Pipeline
from testkit.servers import Cluster
from testkit.waiting import wait_until

MODEL = "analytics.ft_service_stats"
COUNT = f"select sum(live_count) from {MODEL}"


def test_what_is_committed_can_be_read_after_it_returned(apart: Pipeline) -> None:
    apart.begin(1)
    with apart.follow("--build"):
        for count in range(3, 6):
            apart.source.insert(1)
            apart.must("wait")
            assert apart.target.value(COUNT) == count
        # WAL in which nothing is for us; an idle loader would leave so little of it for later.
        apart.source.execute("insert into unrelated (note) values ('x')")
        apart.must("wait")
    assert apart.loader("wait", LOADER_SOURCE_DSN="host=/nowhere").returncode == 10


def test_it_judges_source_and_slot_as_status_does(apart: Pipeline, spare: Cluster) -> None:
    """Of another server nothing is said to be held, whatever its position is."""
    apart.begin(2)
    apart.must("wait", "--lsn", apart.position())

    def refused(code: int, words: str, **more: str) -> None:
        assert apart.loader("status", **more).returncode == code
        apart.refused_with(code, words, "wait", "--timeout", "0s", "--lsn", "0/1", **more)

    with application_database(spare) as other:
        refused(23, "name the right source", LOADER_SOURCE_DSN=spare.dsn(other.name))
    # A seed stores the identities, and then a table is made again.
    apart.target.execute(
        "update cdc.baseline set table_identities = (select jsonb_object_agg("
        "table_schema || '.' || table_name, to_jsonb(logged)) from cdc.logged_table as logged)"
    )
    apart.source.execute(
        "alter table notifications rename to former;"
        "create table notifications (like former including all);"
        "alter table notifications replica identity full"
    )
    refused(35, "public.notifications")
    # As of a source that was restored from a base backup.
    apart.source.execute("select pg_drop_replication_slot(%s)", apart.slot)
    refused(21, "no longer exists")


def test_it_says_what_is_in_the_way_and_what_helps(pipeline: Pipeline) -> None:
    pipeline.refused_with(2, "'7'", "wait", "--lsn", "7")
    pipeline.refused_with(2, "--timeout is 'soon'", "wait", "--timeout", "soon")
    pipeline.refused_with(20, "loader setup", "wait")
    pipeline.set_up()
    waits = "ft_service_stats waits: it was not built yet\nTry: `loader run --build` or `dbt build`"
    pipeline.refused_with(41, waits, "wait", "--timeout", "0s")
    pipeline.build()
    pipeline.must("wait", "--lsn", pipeline.position())

    applied = pipeline.target.value("select applied_lsn from cdc.model_state")
    with pipeline.follow():
        pipeline.source.insert(1)
        pipeline.wait_for_staged(1)
        late = "within 1.0 s: ft_service_stats holds what was committed before"
        said = pipeline.refused_with(41, late, "wait", "--timeout", "1s")
    assert f"{applied}\nTry: see that `loader run --build`" in said
    pipeline.target.execute("alter table analytics.ft_service_stats rename live_count to gone")
    assert pipeline.loader("run", "--once", "--build").returncode == 28
    said = pipeline.refused_with(41, "ft_service_stats failed: ", "wait", "--timeout", "0s")
    assert "live_count" in said


def test_a_role_with_few_rights_waits_sees_new_partitions_and_ends_in_time(
    pipeline: Pipeline,
) -> None:
    pipeline.set_up()
    pipeline.build()
    at = pipeline.position()
    rights = (
        "grant usage on schema cdc to {0}; grant select on all tables in schema cdc to {0}; "
        "grant execute on function cdc.wait_for to {0}"
    )
    with pipeline.target.role(rights) as role:
        pipeline.must("wait", "--lsn", at, PGUSER=role, LOADER_TARGET_DSN="")

    # A partition is attached, with changes in it, while it waits.
    pipeline.source.insert(3)
    end = pipeline.source.value("select pg_current_wal_insert_lsn()")
    wait = "select cdc.wait_for(%s, %s, %s), current_setting('lock_timeout')"
    is_waiting = "select cdc.holder_of(cdc.lock_key('wait', %s)) is not null"
    with closing(pipeline.session("postgres")) as session, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(session.ask, wait, (pipeline.slot, end, "3 s"))
        wait_until(lambda: pipeline.target.value(is_waiting, pipeline.slot))
        pipeline.must("run", "--once")
        assert waiting.result() == [(False, "0")]
    pipeline.build()
    # Longer than lock_timeout can say.
    assert pipeline.target.execute(wait, pipeline.slot, end, "1 year") == [(True, "0")]

    for table in ("change_log", "model_watermark"):
        with pipeline.target.holding(f"lock table cdc.{table} in access exclusive mode"):
            pipeline.target.execute("set statement_timeout = '60s'")
            held = pipeline.target.execute(wait, pipeline.slot, end, "100 ms")
            assert held == [(False, "0")], table


def test_a_transaction_that_has_read_the_log_sees_its_new_partitions(pipeline: Pipeline) -> None:
    def stage() -> dict[str, object]:
        pipeline.source.insert(4)
        pipeline.must("run", "--once")
        newest = pipeline.target.value("select max(committed_at) from cdc.change_log")
        return {"slot": pipeline.slot, "position": pipeline.position(), "newest": newest}

    for ask, before, after in (
        # What wait_for asks again and again, after a look at the states.
        (f"select cdc.holds(%(slot)s, '{{{MODEL}}}', %(position)s)", True, False),
        ("select cdc.exact_as_of(%(slot)s) = %(newest)s", False, True),
        ("select applied_lsn = %(position)s from cdc.apply(%(slot)s)", True, True),
    ):
        pipeline.begin(2)
        at = stage()
        if "apply" not in ask:
            pipeline.build()
            # A position after the model's, so that the log is looked at.
            pipeline.source.execute("insert into unrelated (note) values ('x')")
            pipeline.must("run", "--once")
            at["position"] = pipeline.position()
        with pipeline.target.holding("select count(*) from cdc.change_log") as session:
            assert session.ask(ask, at) == [(before,)], ask
            # The next partition is there already: the one after it is new.
            pipeline.source.begin_block()
            pipeline.source.execute("insert into unrelated (note) values ('x')")
            pipeline.source.begin_block()
            at = stage()
            assert session.ask(ask, at) == [(after,)], ask
            session.ask("select cdc.see_partitions()")
            staged = pipeline.staged()
            assert session.ask("select count(*) from cdc.change_log") == [(staged,)]
            session.commit()
        pipeline.build()
        assert pipeline.model() == pipeline.recount(), ask
