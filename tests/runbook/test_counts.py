"""Counts that lack something are mended."""

from __future__ import annotations

from testkit.pipeline import Pipeline
from tests.runbook.conftest import Operating


def test_rejected_changes_are_counted_by_a_new_seed(
    pipeline: Pipeline, operating: Operating
) -> None:
    operator = operating(pipeline)
    pipeline.source.execute("alter table notifications replica identity default")
    pipeline.source.execute(
        "delete from notifications where id = (select id from notifications order by id limit 1)"
    )
    pipeline.must("run", "--once")
    pipeline.build()
    assert len(pipeline.differences()) == 1
    operator.carry_out("Changes were rejected", 0)
    assert operator.said.count("the replica identity does not carry") == 1
    assert pipeline.refused("setup", "--check")[0] == 18
    pipeline.source.execute("alter table notifications replica identity full")
    operator.carry_out("Changes were rejected", 1)
    assert pipeline.differences() == []
    operator.carry_out("Changes were rejected", 0)
    assert operator.said == ""
    operator.ends_exact()
