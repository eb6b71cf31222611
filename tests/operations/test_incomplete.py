"""A count that lacks something says so: in the status, in the stats and in the loader's log."""

from __future__ import annotations

from testkit.pipeline import Pipeline
from tests.runbook.procedure import Operator

MODEL = "analytics.ft_service_stats"


def test_what_a_count_lacks_is_told_where_a_person_sees_it(pipeline: Pipeline) -> None:
    pipeline.begin()
    build = ("loader", "run", "--once", "--build")
    assert "could not count" not in pipeline.do(*build)
    # The plugin then withholds the old rows, whatever it can say of the new ones.
    pipeline.source.execute("alter table notifications replica identity nothing")
    pipeline.source.execute("update notifications set notification_status = 'failed'")
    said = pipeline.do(*build)
    assert said.count(f"{MODEL} could not count some changes, the newest at ") == 1
    assert "Try: `loader status`" in said
    listed = len(pipeline.rejected())
    assert listed > 0
    pipeline.source.insert(1)
    assert "could not count" not in pipeline.do(*build), "nothing new was rejected"

    # As the remedy has it; what was rejected before is still not counted.
    pipeline.source.execute("alter table notifications replica identity full")
    (model,) = pipeline.status()["models"]
    assert (model["rejected_count"], model["rejected_lsn"] in said) == (listed, True)
    told = pipeline.loader("status").stdout
    assert "waits: a change after " in told.splitlines()[0], "what it took away is not known"
    assert (
        f"The model ft_service_stats could not count {listed} changes, "
        f"the newest at {model['rejected_lsn']}: the replica identity"
    ) in told
    assert f"Try: {model['rejected_remedy']}" in told.splitlines()
    assert "\nSome changes, of all groups" in pipeline.must("stats", "ft_service_stats")
    # Later changes are added, and nobody is told that the model holds everything.
    pipeline.build()
    ask = pipeline.target.value
    assert ask("select lost_lsn < applied_lsn from cdc.model_watermark")
    waited = "select cdc.wait_for(%s, (select max(commit_lsn) from cdc.change_log), '0')"
    assert ask(waited, pipeline.slot) is False
    as_of = (
        "select cdc.exact_as_of(%s) <= (select min(committed_at) from cdc.change_log"
        " where commit_lsn >= (select lost_lsn from cdc.model_watermark))"
    )
    assert ask(as_of, pipeline.slot)
    # The runbook's list of them, and its way to count them.
    operator = Operator(pipeline)
    for block, lines in ((0, listed), (1, 0), (0, 0)):
        operator.carry_out("Changes were rejected", block)
        assert operator.said.count("the replica identity") == lines
    assert pipeline.status()["findings"] == []
    assert ask(waited, pipeline.slot)
    pipeline.goes_on()
