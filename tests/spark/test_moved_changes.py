"""Spark adds what the database would add, each change once, whatever is killed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import closing
from random import Random
from signal import SIGKILL
from typing import Any

import pytest
from waltally_jobs.applying import batch
from waltally_jobs.moving import reading

from testkit.commands import wait_until
from testkit.queries import QuerySystem
from testkit.servers import connect
from tests.queries.odd import Writer
from tests.queries.test_facts import MODELS
from tests.spark.odd import NAMES, kept
from tests.spark.support import meanwhile
from waltally.errors import NotSetUp
from waltally.tables import Table

HOSTILE = r"""
create table lab."no \ ""name}],b.c" (
    id int primary key, "a""b" text, "c\d" numeric, "}e" double precision, "[f" bytea, "{""name"":" text,
    "täg" text[], long text, "{x}" json, g real, h boolean, i timestamptz
);
alter table lab."no \ ""name}],b.c" alter column long set storage external;
"""
OTHER_FORMS = (
    # Of what has no action in the log, nothing says that it has the plugin's own form.
    '{"action": "I", "schema": "lab", "table": "b", "columns": [{"name": "n", "value": 1000}]}',
    '{"table":"b","schema":"lab","action":"U","columns":[{"name":"n","value":0.5},{"value":"x","name":"name"}],'
    '"identity":[{"name":"n","value":1.50},{"name":"name","value":"\\u00e9\\n"},{"name":"flag","value":true}]}',
    '{"action":"D","schema":"lab","table":"b","identity":[{"name":"n","value":null}]}',
    '{"action":"D","schema":"lab","table":"b"}',
    '{"action":"D","schema":"lab","table":"b","identity":[]}',
    '{"action":"T","schema":"lab","table":"other"}',
    '{"action":"X","schema":"lab","table":"b"}',
    '{"action":"I"}',
    '{"action":"M","content":"x"}',
    '{"schema":"lab","table":"b"}',
    '{"action":"I","schema":"lab","table":"b","undecodable":"00"}',
    '{"action":"I","undecodable":{"bytes":"00"}}',
    '{"action":"I","schema":"lab","table":"b","columns":[{"name":"n","value":NaN}]}',
    "{",
    "",
)


def both_engines(
    models: Mapping[str, tuple[str, dict[str, Any]]],
) -> dict[str, tuple[str, dict[str, Any]]]:
    return {
        f"{name}_{engine}": (query, {**config, "engine": engine})
        for name, (query, config) in models.items()
        for engine in ("database", "spark")
    }


FORMS = {
    "hostile": (
        r"""select "a""b" as a, "c\d" as c, "}e"::text as e, encode("[f", 'hex') as f, "{""name"":" as name,
        "täg"::text as tags, long, "{x}"::text as x, g::text as g, h, count(*) as n, count(i) as times
        from {no \ "name}],b.c} group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10""",
        {},
    ),
    "other": (
        "select n, name, flag, count(*) as rows from {b} group by 1, 2, 3",
        {"ignore_deletes": ["lab.b"]},
    ),
}


def must_be_added(system: QuerySystem, *names: str) -> None:
    """See that nothing is left to add, and that these models are what the database makes them."""
    assert system.target.value("select count(*) from cdc.computed_change") == 0
    for name in names:
        assert kept(system, f"{name}_spark") == kept(system, f"{name}_database"), name


def test_spark_reads_each_form_of_a_change_as_the_database_does(system: QuerySystem) -> None:
    system.source.execute(HOSTILE)
    table = Table("lab", 'no \\ "name}],b.c').quoted
    system.source.execute(f"alter table {table} replica identity full")
    system.keep(both_engines(FORMS))
    system.spark_job("spark-submit spark/seed.py")
    system.source.execute("insert into lab.b (id, n) values (0, 7); truncate lab.b")
    Writer(system.source, Random(5), truncates=False).write(100)  # type: ignore[arg-type]
    insert = f"insert into {table} values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, now())"
    for row in (
        (1, 'q"\\\n,{"name":', "1.50", "1e300", "\\x00ff", "]}", '{"x\\"",NULL}', "l" * 9000, '{"a":"\\u0000"}', "1e-7", True),
        (2, None, "NaN", "-Infinity", "", "null", "{}", None, "null", "1.5", None),
        (3, "", "1e40", "-0", None, "7", None, "ü" * 5000, '"s"', "NaN", False),
    ):  # fmt: skip
        system.source.execute(insert, *row)
    for statement in (
        f'update {table} set "a""b" = \'changed\', h = not h',
        f"update {table} set id = id + 10",
        f"delete from {table} where id = 12",
    ):
        system.source.execute(statement)
    # Built and applied before the identity lacks something: a table that lacks it is not begun.
    system.must("run", "--once")
    system.apply()
    system.spark_job("spark-submit spark/apply.py --once")
    for statement in (
        f"alter table {table} replica identity default",
        f"update {table} set h = true",
        f"delete from {table} where id = 11",
        f"alter table {table} replica identity nothing",
        f"delete from {table}",
    ):
        system.source.execute(statement)
    system.must("run", "--once")
    for number, payload in enumerate(OTHER_FORMS):
        system.target.execute(
            "insert into cdc.change_log (slot_name, commit_lsn, ordinal, xid, committed_at, payload)"
            " select slot_name, max(commit_lsn), 1000 + %s, 1, now(), %s from cdc.change_log"
            " group by slot_name",
            number,
            payload,
        )
    system.apply()
    with pytest.raises(NotSetUp, match="came without the old row's values"):
        system.spark_job("spark-submit spark/apply.py --once")
    must_be_added(system, *FORMS)
    for name in FORMS:
        rejected = kept(system, f"{name}_spark")["rejected"]
        assert len({reason for *_, reason in rejected}) > 2, name


def test_spark_adds_what_the_database_would_add(
    system: QuerySystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many random changes, by several tasks at once."""
    monkeypatch.setattr(batch, "CHANGES_PER_TASK", 60)
    monkeypatch.setattr(reading, "SLICE", 7)
    system.keep(both_engines({name: MODELS[name] for name in NAMES}))
    system.spark_job("spark-submit spark/seed.py")
    writer = Writer(system.source, Random(1_000_000))  # type: ignore[arg-type]
    # A bad row that comes and goes within a batch is listed nowhere: both have the same batches.
    for _ in range(3):
        writer.write(120)
        system.catch_up()
        before = {name: kept(system, f"{name}_spark")["rows"] for name in NAMES}
        # The database evaluates few at once, of several tasks together.
        system.batch_of(20)
        system.spark_job("spark-submit spark/apply.py --once --max-changes 1000")
        system.batch_of(200_000)
        must_be_added(system, *NAMES)
        assert before != {name: kept(system, f"{name}_spark")["rows"] for name in NAMES}
    rejected = "select count(*) > 3 from analytics.rejected_changes"
    assert system.target.execute(rejected) == [(True,)]


def test_a_batch_counts_once_whatever_becomes_of_its_rows(
    system: QuerySystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of a task that ran twice count for nothing; what is lost is read again."""
    faults = [
        "delete from cdc.computed_change",
        "insert into cdc.computed_change select (jsonb_populate_record(change,"
        " '{\"attempt\": -1}')).* from cdc.computed_change as change",
    ]

    def spoil(_: batch.Batch) -> None:
        system.target.execute(faults.pop(0))

    meanwhile(monkeypatch, "applying.batch.compute", after=spoil, times=2)
    system.keep({"kinds": ("select code, count(*) as n from {a} group by 1", {"engine": "spark"})})
    system.spark_job("spark-submit spark/seed.py")
    system.source.execute("insert into lab.a (id, code) values (1, 'a'), (2, 'a'), (3, 'b')")
    system.catch_up()
    system.spark_job("spark-submit spark/apply.py --once")
    counted = system.target.execute("select code, n from analytics.kinds order by 1")
    assert counted == [("a", 2), ("b", 1)]
    assert faults == []
    must_be_added(system)


WAITING = (
    "select count(*) from pg_stat_activity where datname = current_database()"
    " and wait_event_type = 'Lock' and wait_event = 'relation'"
)


@pytest.mark.slow
def test_two_drivers_that_are_killed_count_each_change_once(system: QuerySystem) -> None:
    """Both have one watermark; one dies at each point, and the target ends the other's session.

    The short soak kills drivers and executors on a cluster, and drivers over Connect.
    """
    names = ("by_day", "purged")
    system.keep(both_engines({name: MODELS[name] for name in names}))
    system.spark_job("spark-submit spark/seed.py")
    writer = Writer(system.source, Random(4), truncates=False)  # type: ignore[arg-type]
    job = (sys.executable, "spark/apply.py", "--max-changes", "20")
    ends = []
    for point in ("appended", "written", "computed", "merged", "merged:2", "computed:3"):
        writer.write(80)
        system.catch_up()
        with closing(connect(system.dsns[1])) as gate, gate.transaction():
            gate.ask("lock table cdc.computed_change in exclusive mode")
            steady = system.spawn(*job, "--interval", "0.01")
            dying = system.spawn(*job, "--once", WALTALLY_KILL_AT=point)
            # Both have computed the same batch.
            wait_until(lambda: system.target.value(WAITING) >= 2, "both write", 120)
        dying.communicate(timeout=120)
        ends.append(dying.returncode)
        system.target.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and application_name ~ 'apply'"
        )
        steady.kill()
        steady.communicate()
    writer.write(80)
    system.catch_up()
    last = system.spawn(*job, "--once")
    _, said = last.communicate(timeout=120)
    assert last.returncode == 0, said
    assert ends.count(-SIGKILL) > 3, ends
    must_be_added(system, *names)
