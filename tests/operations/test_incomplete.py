"""A count that lacks something says so: in the status, in the stats and in the loader's log."""

from __future__ import annotations

import json
from typing import Any

from testkit.pipeline import Pipeline

MODEL = "analytics.ft_service_stats"


def status(pipeline: Pipeline) -> tuple[int, list[dict[str, Any]], dict[str, Any]]:
    """The exit code, the findings and what is said of the model."""
    done = pipeline.loader("status", "--json")
    body = json.loads(done.stdout)
    (model,) = [each for each in body["models"] if each["relation"] == MODEL]
    return done.returncode, body["findings"], model


def notes(pipeline: Pipeline) -> list[str]:
    """What the stats say below the numbers, but for how fresh they are and the remedies."""
    below = pipeline.must("stats", "ft_service_stats").split("\n\n")[-1].splitlines()
    return [line for line in below if not line.startswith(("ft_service_stats: as of ", "Try: "))]


def test_a_model_without_a_seed_waits_and_is_unhealthy_until_it_stands_on_one(
    pipeline: Pipeline,
) -> None:
    pipeline.source.insert(5, "delivered")
    pipeline.must("setup")
    pipeline.source.execute("delete from notifications where ctid < '(0,3)'")
    pipeline.catch_up()
    assert pipeline.model() == {}, "half a number is a wrong number"
    code, (problem,), model = status(pipeline)
    assert (code, problem["kind"], model["built_on"]) == (3, "Unhealthy", None)
    assert "The model ft_service_stats waits: it waits for its seed" in problem["message"]
    assert problem["remedy"] == "`spark-submit spark/seed.py --model ft_service_stats`"
    assert any("it waits for its seed" in note for note in notes(pipeline))

    pipeline.seed()
    code, _, model = status(pipeline)
    assert (code, model["state"]) == (0, "waits"), "the next apply does it"
    assert model["reason"] == "it was not built yet"
    pipeline.build()
    code, problems, model = status(pipeline)
    assert (code, problems) == (0, [])
    seed = pipeline.target.value("select baseline_id::text from cdc.baseline")
    assert model["built_on"] == model["baseline"]["id"] == seed
    assert notes(pipeline) == []


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
    code, _, model = status(pipeline)
    assert (code, model["rejected_count"], model["rejected_lsn"] in said) == (3, listed, True)
    told = pipeline.loader("status").stdout
    assert "waits: a change after " in told.splitlines()[0], "what it took away is not known"
    assert (
        f"The model ft_service_stats could not count {listed} changes, "
        f"the newest at {model['rejected_lsn']}: the replica identity"
    ) in told
    assert f"Try: {model['rejected_remedy']}" in told.splitlines()
    assert any(note.startswith("Some changes, of all groups") for note in notes(pipeline))
    # Later changes are added, and nobody is told that the model holds everything.
    pipeline.build()
    applied = "select lost_lsn < applied_lsn from cdc.model_watermark"
    assert pipeline.target.value(applied)
    waited = "select cdc.wait_for(%s, (select max(commit_lsn) from cdc.change_log), '0')"
    assert pipeline.target.value(waited, pipeline.slot) is False
    as_of = (
        "select cdc.exact_as_of(%s) <= (select min(committed_at) from cdc.change_log"
        " where commit_lsn >= (select lost_lsn from cdc.model_watermark))"
    )
    assert pipeline.target.value(as_of, pipeline.slot)
    pipeline.seed()
    pipeline.build()
    assert status(pipeline)[1] == []
    assert pipeline.target.value(waited, pipeline.slot)

    # A role that has no list of rejections gets no number of them.
    pipeline.target.execute("update cdc.model_watermark set rejected_lsn = '0/1'")
    pipeline.target.execute("drop table analytics.rejected_changes cascade")
    assert status(pipeline)[2]["rejected_count"] is None
