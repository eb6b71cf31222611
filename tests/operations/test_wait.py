"""`loader wait` returns once what is committed can be read, and says what is in the way."""

from __future__ import annotations

import pytest

from testkit.pipeline import Pipeline

COUNT = "select sum(live_count) from analytics.ft_service_stats"


@pytest.fixture(params=["pipeline", "apart"])
def anywhere(request: pytest.FixtureRequest) -> Pipeline:
    """With one database for all, and with a target of its own."""
    made: Pipeline = request.getfixturevalue(request.param)
    return made


def test_what_is_committed_can_be_read_after_it_returned(anywhere: Pipeline) -> None:
    anywhere.begin(1)
    with anywhere.follow("--build"):
        for count in range(3, 6):
            anywhere.source.insert(1)
            anywhere.must("wait")
            assert anywhere.target.value(COUNT) == count
        anywhere.must("wait")
        # WAL in which nothing is for us; an idle loader would leave so little of it for later.
        anywhere.source.execute("insert into unrelated (note) values ('x')")
        anywhere.must("wait")


def test_a_role_that_may_call_the_function_alone_waits(pipeline: Pipeline) -> None:
    pipeline.begin(1)
    at = pipeline.position()
    pipeline.target.execute(
        "create role only_waits login; grant usage on schema cdc to only_waits; "
        "grant select on cdc.fact_state to only_waits; "
        "grant execute on function cdc.wait_for to only_waits"
    )
    try:
        done = pipeline.loader("wait", "--lsn", at, PGUSER="only_waits", LOADER_TARGET_DSN="")
        assert done.returncode == 0, done.stderr
        pipeline.target.execute("revoke execute on function cdc.wait_for from only_waits")
        done = pipeline.loader("wait", "--lsn", at, PGUSER="only_waits", LOADER_TARGET_DSN="")
        assert done.returncode == 15, done.stderr
    finally:
        pipeline.target.execute("drop owned by only_waits; drop role only_waits")


def test_a_position_of_ones_own_needs_no_source(apart: Pipeline) -> None:
    apart.begin(1)
    away = {"LOADER_SOURCE_DSN": "host=/nowhere"}
    done = apart.loader("wait", "--lsn", apart.position(), **away)
    assert done.returncode == 0, done.stderr
    assert apart.loader("wait", **away).returncode == 10


def test_where_nobody_applies_it_says_how_far_the_slot_is(pipeline: Pipeline) -> None:
    pipeline.begin(1)
    applied = pipeline.target.value("select applied_lsn from cdc.fact_state")
    pipeline.source.insert(1)
    with pipeline.follow():
        pipeline.wait_for_staged(2)
        code, said = pipeline.refused("wait", "--timeout", "1s")
    assert code == 41
    assert "within 1.0 s: analytics.ft_service_stats holds what was committed before" in said
    assert f"{applied}\nTry: see that `loader run --build` runs" in said


def test_models_that_do_not_follow_are_named_with_what_helps(pipeline: Pipeline) -> None:
    assert pipeline.refused("wait")[0] == 20
    pipeline.must("setup")
    code, said = pipeline.refused("wait", "--timeout", "0s")
    assert code == 41
    assert "analytics.ft_service_stats waits: dbt has not installed it\nTry: `dbt build`" in said
    pipeline.build()
    pipeline.must("wait", "--lsn", pipeline.position())
    pipeline.target.execute("alter table analytics.ft_service_stats rename live_count to gone")
    pipeline.source.insert(1)
    assert pipeline.loader("run", "--once", "--build").returncode == 28
    code, said = pipeline.refused("wait", "--timeout", "0s")
    assert code == 41
    assert "analytics.ft_service_stats failed: " in said
    assert "live_count" in said


def test_what_is_no_position_or_no_time_is_refused(pipeline: Pipeline) -> None:
    assert pipeline.refused("wait", "--lsn", "7")[0] == 2
    code, said = pipeline.refused("wait", "--timeout", "soon")
    assert code == 2
    assert "--timeout is 'soon'" in said
