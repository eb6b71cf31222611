"""What a person sees of the counts: `loader stats`, how fresh they are, and what they lack."""

from __future__ import annotations

import re

import pytest

from testkit.databases import Database
from testkit.model import Query
from testkit.pipeline import Pipeline
from tests.runbook.procedure import Operator

MODEL = "ft_service_stats"
NOBODY = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def built(pipeline: Pipeline) -> Database:
    """Seven notifications of one service, staged and built."""
    source = pipeline.source
    pipeline.set_up()
    source.insert(2, "delivered")
    source.execute("update notifications set notification_type = 'sms'")
    source.insert(2, "created")
    source.insert(3, "delivered")
    pipeline.must("run", "--once", "--build")
    return source


def numbers(said: str) -> list[list[str]]:
    """The words of each row of the table, without its frame."""
    rows = (re.sub(r"[^\w\s,-]", " ", line).split() for line in said.splitlines())
    return [row for row in rows if len(row) > 1 and row[-1].isdigit() and row[-2].isdigit()]


DIMENSIONS = "service_id, template_id, notif"
REFUSED = [
    (("ft_other",), "There is no model ft_other", "ft_service_stats (by service_id, template"),
    ((MODEL, "service=7"), "has no dimension 'service'", DIMENSIONS),
    ((MODEL, "service_id"), "'service_id' is not dimension=value", "status=sent"),
    ((MODEL, "--by", "status"), "has no dimension 'status'", DIMENSIONS),
    ((MODEL, "service_id=7"), "A value does not fit its dimension", "--by with"),
]


def test_a_person_sees_a_line_per_value_and_totals_or_what_there_is(built: Database) -> None:
    said = built.must("stats", MODEL, "--by", "notification_type,notification_status")
    assert numbers(said) == [
        ["email", "created", "2", "2", "0"],
        ["email", "delivered", "3", "3", "0"],
        ["sms", "delivered", "2", "2", "0"],
        ["total", "7", "7", "0"],
    ]
    assert re.search(r"notification_type +.* notification_status .* live_count", said), said
    assert re.search(rf"^{MODEL}: as of [\d.]+ (s|min) ago$", said, re.M), said
    service = built.value("select distinct service_id::text from notifications")
    said = built.must("stats", MODEL, "notification_type=email", f"service_id={service}")
    assert f"analytics.{MODEL} where notification_type = email, service_id = " in said
    assert numbers(said) == [["5", "5", "0"]]
    assert numbers(built.must("stats", MODEL, f"service_id={NOBODY}")) == [["0", "0", "0"]]
    assert "total" in built.must("stats", MODEL, f"service_id={NOBODY}", "--by", "template_id")
    for words, problem, there_is in REFUSED:
        said = built.refused_with(2, problem, "stats", *words)
        assert there_is in said.split("Try: ")[1], said
    built.must("stats", MODEL, "notification_type=x; drop table t")
    assert built.must("stats") == (
        f"{MODEL} (by service_id, template_id, notification_type, notification_status)\n"
    )
    built.execute("update cdc.installed_model set error = 'no room', remedy = 'make some'")
    assert f"\n{MODEL} failed: no room.\nTry: make some\n" in built.must("stats", MODEL)


def test_a_model_that_was_never_built_is_named_with_the_remedy(source: Database) -> None:
    assert "run `loader setup`" in source.refused("stats", MODEL)[1]
    source.must("setup")
    source.execute("drop table analytics.ft_service_stats")
    said = source.refused_with(20, "no table analytics.ft_service_stats", "stats", MODEL)
    assert said.strip().endswith("Try: `dbt build`")


def test_sums_keep_every_digit_and_days_and_nulls_are_shown(source: Database) -> None:
    """Any model: here made by hand, as dbt would."""
    source.execute(
        "alter table unrelated replica identity full, add at date, add amount numeric(30, 2)"
    )
    query = "select note, at as day, sum(amount) as paid from {public.unrelated} group by 1, 2"
    source.declare(ft_orders=Query(query))
    source.must("setup")
    source.execute(
        "drop table analytics.ft_orders; create table analytics.ft_orders (note text, day date, "
        "paid numeric); insert into analytics.ft_orders values "
        "('a', '2026-03-29', 12345678901234567890.05), ('a', null, -0.01), ('b', null, 2)"
    )
    lines = source.must("stats", "ft_orders", "--by", "day").splitlines()[4:7]
    assert [line.split() for line in lines] == [
        ["2026-03-29", "12,345,678,901,234,567,890.05"],
        ["null", "1.99"],
        ["total", "12,345,678,901,234,567,892.04"],
    ]
    assert "null" in source.must("stats", "ft_orders", "--by", "note,day")
    assert source.must("stats", "ft_orders", "note=b").splitlines()[4].strip() == "2"


def test_what_a_count_lacks_is_told_where_a_person_sees_it(pipeline: Pipeline) -> None:
    pipeline.begin()
    build = ("loader", "run", "--once", "--build")
    assert "could not count" not in pipeline.do(*build)
    # The plugin then withholds the old rows, whatever it can say of the new ones.
    pipeline.source.execute("alter table notifications replica identity nothing")
    pipeline.source.execute("update notifications set notification_status = 'failed'")
    said = pipeline.do(*build)
    assert said.count(f"analytics.{MODEL} could not count some changes, the newest at ") == 1
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
