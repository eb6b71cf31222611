"""Spark adds what the database would add, each change once, whatever is killed."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import closing
from random import Random
from signal import SIGKILL
from typing import Any

import pytest
from waltally_jobs.applying import batch
from waltally_jobs.common import messages
from waltally_jobs.moving import reading
from waltally_jobs.moving.changes import Collapsing

from testkit.commands import wait_until
from testkit.queries import QuerySystem
from testkit.servers import connect
from testkit.spark_cluster import SparkCluster, Worker
from tests.queries.odd import Writer
from tests.queries.test_facts import MODELS
from tests.spark.odd import NAMES, kept
from waltally.models import Model
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


def read_by_python(system: QuerySystem, name: str) -> Counter[tuple[Any, ...]]:
    """Return what Python makes of the log, as the model needs it."""
    ((declaration,),) = system.target.execute(
        "select declaration from cdc.registered_model where declared_name = %s", name
    )
    log = [
        (at, ordinal, action, payload.encode())
        for at, ordinal, action, payload in system.target.execute(
            "select (commit_lsn - '0/0')::bigint, ordinal, action::text, payload from cdc.change_log"
            " order by commit_lsn, ordinal"
        )
    ]
    truncates = messages.truncates(
        ((at, ordinal), payload) for at, ordinal, action, payload in log if action in (None, "T")
    )
    model = Model(name, Table("analytics", name), declaration)
    found: Counter[tuple[Any, ...]] = Counter()
    for made in Collapsing([(0, model)], truncates).batches(log):
        for row in made.to_pylist():
            about = row["source_no"], row["action"] or None, row["commit_lsn"], row["is_cancelled"]
            lists = (row[key] for key in ("old_values", "new_values", "missing"))
            found[(*about, row["problem"], *(each and tuple(each) for each in lists))] += row[
                "change_count"
            ]
    return found


def read_by_database(system: QuerySystem, name: str) -> Counter[tuple[Any, ...]]:
    """Return what the database's reader gives of the same log, in the places of the model."""
    rows = system.target.execute(
        "select array_position(model.table_nos, change.table_no), change.action,"
        " (change.commit_lsn - '0/0')::bigint, change.is_cancelled, change.problem,"
        " array(select change.old_values[p] from unnest(own.places) with ordinality as u (p, n)"
        "     where p is not null order by n),"
        " array(select change.new_values[p] from unnest(own.places) with ordinality as u (p, n)"
        "     where p is not null order by n),"
        " array(select n::integer from unnest(own.places) with ordinality as u (p, n)"
        "     where p = any (change.missing) order by n), change.change_count"
        " from cdc.installed_model as model cross join unnest(cdc.read_changes("
        "     slot_name, '0/0', 'FFFFFFFF/0', '0/0', 0, 'FFFFFFFF/0', 0, false"
        " )) as change left join lateral (select array(select unnest("
        "     model.places[array_position(model.table_nos, change.table_no):"
        "         array_position(model.table_nos, change.table_no)][:])) as places) as own on true"
        " where model_name = 'analytics.' || %s"
        " and (change.table_no is null or change.table_no = any (table_nos))",
        name,
    )
    found: Counter[tuple[Any, ...]] = Counter()
    for source_no, action, at, is_cancelled, problem, old, new, missing, count in rows:
        is_whole = problem is None and not missing
        # What a TRUNCATE takes away adds nothing, and of an image that a change has not the reader
        # gives nothing of use.
        if (is_whole and is_cancelled) or (is_whole and action == "U" and old == new):
            continue
        old_values = tuple(old) if action in ("U", "D") and problem is None else None
        new_values = tuple(new) if action in ("U", "I") and problem is None else None
        key = (source_no, action, source_no and at, is_cancelled, problem, old_values, new_values)
        # What a change with a problem lacks says nothing more.
        found[(*key, (tuple(missing) or None) if problem is None else None)] += count
    return found


def counting_all(system: QuerySystem, *tables: str) -> str:
    """Return a query that needs every column of the tables."""
    arms = []
    for table in tables:
        names = system.source.execute(
            "select quote_ident(attname) from pg_attribute where attrelid = %s::regclass"
            " and attnum > 0 order by attnum",
            Table("lab", table).quoted,
        )
        nulls = " + ".join(f"({name} is null)::integer" for (name,) in names)
        arms.append(f"select {nulls} as x from {{{table}}}")
    return f"select x, count(*) as n from ({' union all '.join(arms)}) as t group by 1"


def test_a_change_is_what_the_reader_of_the_database_gives(system: QuerySystem) -> None:
    system.source.execute(HOSTILE)
    odd = 'no \\ "name}],b.c'
    name = Table("lab", odd).quoted
    system.source.execute(f"alter table {name} replica identity full")
    system.keep({"every": (counting_all(system, "a", "b", odd), {"ignore_deletes": ["lab.b"]})})
    writer = Writer(system.source, Random(5), truncates=False)  # type: ignore[arg-type]
    system.source.execute("insert into lab.b (id, n) values (0, 7); truncate lab.b")
    writer.write(600)
    insert = f"insert into {name} values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, now())"
    for row in (
        (1, 'q"\\\n,{"name":', "1.50", "1e300", "\\x00ff", "]}", '{"x\\"",NULL}', "l" * 9000, '{"a":"\\u0000"}', "1e-7", True),
        (2, None, "NaN", "-Infinity", "", "null", "{}", None, "null", "1.5", None),
        (3, "", "1e40", "-0", None, "7", None, "ü" * 5000, '"s"', "NaN", False),
    ):  # fmt: skip
        system.source.execute(insert, *row)
    system.source.execute(f'update {name} set "a""b" = \'changed\', h = not h')
    system.source.execute(f"update {name} set id = id + 10")
    system.source.execute(f"delete from {name} where id = 12")
    system.source.execute(f"alter table {name} replica identity default")
    system.source.execute(f"update {name} set h = true")
    system.source.execute(f"delete from {name} where id = 11")
    system.source.execute(f"alter table {name} replica identity nothing")
    system.source.execute(f"delete from {name}")
    system.must("run", "--once")
    for number, payload in enumerate(OTHER_FORMS):
        system.target.execute(
            "insert into cdc.change_log (slot_name, commit_lsn, ordinal, xid, committed_at, payload)"
            " select slot_name, max(commit_lsn), 1000 + %s, 1, now(), %s from cdc.change_log"
            " group by slot_name",
            number,
            payload,
        )
    python, database = read_by_python(system, "every"), read_by_database(system, "every")
    assert sum(python.values()) > 300
    assert sorted((python - database).items(), key=str) == []
    assert sorted((database - python).items(), key=str) == []


def both_engines(*names: str) -> dict[str, tuple[str, dict[str, Any]]]:
    return {
        f"{name}_{engine}": (MODELS[name][0], {**MODELS[name][1], "engine": engine})
        for name in names
        for engine in ("database", "spark")
    }


@pytest.mark.parametrize("few", [1_000_000, 0])
def test_spark_adds_what_the_database_would_add(
    system: QuerySystem, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many random changes: by the driver, and in several batches by tasks of Spark."""
    monkeypatch.setattr(batch, "CHANGES_PER_TASK", 60)
    monkeypatch.setattr(reading, "SLICE", 7)
    names = NAMES if few else ("by_day", "of_two", "purged")
    system.keep(both_engines(*names))
    system.spark_job("spark-submit spark/seed.py")
    writer = Writer(system.source, Random(few))  # type: ignore[arg-type]
    # A bad row that comes and goes within a batch is listed nowhere: both have the same batches.
    size = 1000 if few else 90
    for _ in range(3 if few else 2):
        writer.write(120)
        system.catch_up()
        before = {name: kept(system, f"{name}_spark")["rows"] for name in names}
        system.spark_job(
            f"spark-submit spark/apply.py --once --in-driver {few} --max-changes {size}"
        )
        for name in names:
            assert kept(system, f"{name}_spark") == kept(system, f"{name}_database"), name
        assert before != {name: kept(system, f"{name}_spark")["rows"] for name in names}
    if few:
        rejected = "select count(*) > 3 from analytics.rejected_changes"
        assert system.target.execute(rejected) == [(True,)]
    assert system.target.execute("select count(*) from cdc.computed_change") == [(0,)]


def test_a_batch_counts_once_whatever_becomes_of_its_rows(
    system: QuerySystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of a task that ran twice count for nothing; what is lost is read again."""
    compute = batch.compute
    faults = [
        "delete from cdc.computed_change",
        "insert into cdc.computed_change select (jsonb_populate_record(change,"
        " '{\"attempt\": -1}')).* from cdc.computed_change as change",
        "select 1",
    ]

    def computed(*arguments: Any) -> batch.Batch:
        result = compute(*arguments)
        system.target.execute(faults.pop(0))
        return result

    monkeypatch.setattr(batch, "compute", computed)
    system.keep({"kinds": ("select code, count(*) as n from {a} group by 1", {"engine": "spark"})})
    system.spark_job("spark-submit spark/seed.py")
    system.source.execute("insert into lab.a (id, code) values (1, 'a'), (2, 'a'), (3, 'b')")
    system.catch_up()
    system.spark_job("spark-submit spark/apply.py --once")
    assert system.target.execute("select code, n from analytics.kinds order by 1") == [
        ("a", 2),
        ("b", 1),
    ]
    assert faults == ["select 1"]
    assert system.target.execute("select count(*) from cdc.computed_change") == [(0,)]


WAITING = (
    "select count(*) from pg_stat_activity where datname = current_database()"
    " and wait_event_type = 'Lock' and wait_event = 'relation'"
)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["in the driver", "over Connect", "on a cluster"])
def test_two_drivers_that_are_killed_count_each_change_once(
    system: QuerySystem, request: pytest.FixtureRequest, where: str
) -> None:
    """Both have one watermark; one dies at each point, and the target ends the other's session.

    On a cluster each first loses the executor that it computes with.
    """
    names = ("by_day", "purged")
    system.keep(both_engines(*names))
    system.spark_job("spark-submit spark/seed.py")
    writer = Writer(system.source, Random(4), truncates=False)  # type: ignore[arg-type]
    # So few changes need no JVM. The process of a task has no such point.
    few = "1000000" if where == "in the driver" else "0"
    job = (sys.executable, "spark/apply.py", "--in-driver", few, "--max-changes", "20")
    remote: dict[str, str] = {}
    workers: list[Worker] = []
    if where == "over Connect":
        remote["SPARK_REMOTE"] = request.getfixturevalue("server")
    elif where == "on a cluster":
        spark_cluster: SparkCluster = request.getfixturevalue("workers")
        workers = spark_cluster.workers
        one_core = "--conf spark.cores.max=1 --conf spark.executor.memory=512m"
        remote["PYSPARK_SUBMIT_ARGS"] = f"--master {spark_cluster.url} {one_core} pyspark-shell"
    ends = []
    killed = 0
    for point in ("appended", "written", "computed", "merged", "merged:2", "computed:3"):
        writer.write(80)
        system.catch_up()
        with closing(connect(system.dsns[1])) as gate, gate.transaction():
            gate.ask("lock table cdc.computed_change in exclusive mode")
            steady = system.spawn(*job, "--interval", "0.01", **remote)
            dying = system.spawn(*job, "--once", WALTALLY_KILL_AT=point, **remote)
            # Both have computed the same batch.
            wait_until(lambda: system.target.value(WAITING) >= 2, "both write", 120)
            for executor in [one for worker in workers for one in worker.executors()]:
                executor.kill()
                killed += 1
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
    last = system.spawn(*job, "--once", **remote)
    _, said = last.communicate(timeout=120)
    assert last.returncode == 0, said
    assert ends.count(-SIGKILL) > 3, ends
    assert not workers or killed > 6, killed
    for name in names:
        assert kept(system, f"{name}_spark") == kept(system, f"{name}_database"), name
    assert system.target.execute("select count(*) from cdc.computed_change") == [(0,)]
