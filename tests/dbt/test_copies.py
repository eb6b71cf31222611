"""A schema of a developer's own, beside production's on the same slot: its trouble stays there."""

from __future__ import annotations

from testkit.pipeline import Pipeline

DEV = {"DBT_SCHEMA": "dev"}
MODEL = "dev.ft_service_stats"


def test_the_trouble_of_one_schema_is_not_that_of_another(pipeline: Pipeline) -> None:
    pipeline.begin(3)
    # As `dbt clone` does for each model of production.
    pipeline.target.execute(
        f"create schema dev; create view {MODEL} as select * from analytics.ft_service_stats"
    )
    build = ("build", "--select", "+ft_service_stats")
    done = pipeline.call("dbt", *build, **DEV)
    assert done.returncode
    assert f"{MODEL} is a view, and rows are added to a table" in done.stdout, done.stdout
    assert f"drop view {MODEL}; -- then dbt build" in done.stdout
    position = pipeline.position()
    assert "dev." not in pipeline.must("status")
    pipeline.must("wait", "--lsn", position)

    pipeline.target.execute(f"drop view {MODEL}")
    pipeline.do("dbt", *build, **DEV)
    pipeline.must("wait", "--lsn", position, "--model", MODEL)
    pipeline.target.execute(f"alter table {MODEL} rename live_count to gone")
    pipeline.source.insert(2)
    pipeline.must("run", "--once", "--build")
    said = pipeline.must("status")
    assert f"\n{MODEL} failed: " in said, said
    assert "no loader is running: exact as of " in said
    position = pipeline.position()
    pipeline.must("wait", "--lsn", position)
    pipeline.must("wait", "--lsn", position, "--model", "ft_service_stats")
    code, said = pipeline.refused("wait", "--lsn", position, "--model", MODEL, "--timeout", "0s")
    assert (code, f"{MODEL} failed: " in said) == (41, True)
    fresh = "select cdc.exact_as_of(%s) = cdc.exact_as_of(%s, 'ft_service_stats')"
    assert pipeline.target.value(fresh, pipeline.slot, pipeline.slot)
    is_older = "select cdc.exact_as_of(%s, %s) < cdc.exact_as_of(%s)"
    assert pipeline.target.value(is_older, pipeline.slot, MODEL, pipeline.slot)
    assert pipeline.model() == pipeline.recount()
