"""Changes on the move are what the database's reader gives, and add up to the same model."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from signal import SIGKILL
from typing import Any

import pytest
from pyspark.sql import SparkSession
from waltally_jobs.applying import batch
from waltally_jobs.common import arrow, messages
from waltally_jobs.common.errors import ArchiveIncomplete, ReplayDiffers
from waltally_jobs.evaluation import copies
from waltally_jobs.evaluation import places as rows
from waltally_jobs.moving import reading
from waltally_jobs.moving.changes import Collapsing

from loader.staging import migrate
from testkit.commands import wait_until
from testkit.databases import empty_database
from testkit.queries import QuerySystem
from testkit.servers import Cluster, Server, connect, connect_target
from testkit.spark_cluster import SparkCluster, Worker
from tests.queries.odd import TABLES, Writer
from tests.queries.test_facts import MODELS
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


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Server({"fsync": "off", "max_replication_slots": "30"}) as server:
        yield server


LAB = (
    "create schema lab;"
    """create type lab.mood as enum ('sad', 'ok', 'it''s', 'Ünder "x"');"""
    "create domain lab.amount as numeric(12, 2); create domain lab.blob as bytea;"
    + TABLES.replace("%", "%%")
    + "alter table lab.a alter cash type text, replica identity full; alter table lab.b replica identity full"
)


@pytest.fixture
def system(cluster: Cluster, tmp_path: Path) -> Iterator[QuerySystem]:
    with empty_database(cluster) as source:
        source.execute(LAB)
        yield QuerySystem(source, tmp_path)


class Wide:
    """A model that needs every column, as the jobs see it."""

    def __init__(self, system: QuerySystem, name: str) -> None:
        ((declaration,),) = system.target.execute(
            "select declaration from cdc.registered_model where declared_name = %s", name
        )
        self.model = Model(name, Table("analytics", name), declaration)


def log_of(system: QuerySystem) -> list[tuple[int, int, str | None, bytes]]:
    return [
        (at, ordinal, action, payload.encode())
        for at, ordinal, action, payload in system.target.execute(
            "select (commit_lsn - '0/0')::bigint, ordinal, action::text, payload from cdc.change_log"
            " order by commit_lsn, ordinal"
        )
    ]


def read_by_python(system: QuerySystem, name: str) -> Counter[tuple[Any, ...]]:
    """Return what Python makes of the log, as the model needs it."""
    log = log_of(system)
    model = Wide(system, name).model
    truncates = messages.truncates(
        ((at, ordinal), payload) for at, ordinal, action, payload in log if action in (None, "T")
    )
    found: Counter[tuple[Any, ...]] = Counter()
    for made in Collapsing([(0, model)], truncates).batches(log):
        for row in made.to_pylist():
            lists = (
                row[key] and tuple(row[key]) for key in ("old_values", "new_values", "missing")
            )
            at = row["commit_lsn"]
            found[
                (
                    row["source_no"],
                    row["action"] or None,
                    at,
                    row["is_cancelled"],
                    row["problem"],
                    *lists,
                )
            ] += row["change_count"]
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


NAMES = (
    *("by_day", "total", "total_of_two", "of_two", "purged", "purged_alone", "twice", "tags"),
    *("division", "numbers_in_texts", "odd_names", "floats", "enums", "null_sum", "long_keys"),
)
KEPT = {
    "rows": "select to_jsonb(t)::text from {0} as t order by 1",
    "rejected": "select commit_lsn::text, ordinal, action, reason from analytics.rejected_changes"
    " where model_name = '{0}' order by 1, 2, 3",
    "deletes": "select part, commit_lsn::text, dimensions, place, sum(measure)"
    " from cdc.archived_delete cross join unnest(measures) with ordinality as u (measure, place)"
    " where model_name = '{0}' group by 1, 2, 3, 4 order by 1, 2, 3, 4",
    "mark": "select applied_lsn::text, rejected_lsn::text from cdc.model_watermark"
    " where model_name = '{0}'",
}


def kept(system: QuerySystem, name: str) -> dict[str, list[tuple[Any, ...]]]:
    """All that an apply writes."""
    return {
        what: system.target.execute(query.format(f"analytics.{name}"))
        for what, query in KEPT.items()
    }


def both_engines(*names: str) -> dict[str, tuple[str, dict[str, Any]]]:
    return {
        f"{name}_{engine}": (MODELS[name][0], {**MODELS[name][1], "engine": engine})
        for name in names
        for engine in ("database", "spark")
    }


@pytest.mark.parametrize("few", [1_000_000, 0])
def test_spark_adds_what_the_database_would_add(
    spark: SparkSession, system: QuerySystem, few: int, monkeypatch: pytest.MonkeyPatch
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
    spark: SparkSession, system: QuerySystem, monkeypatch: pytest.MonkeyPatch
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


ARCHIVED = ("by_day", "total", "of_two", "purged", "numbers_in_texts", "tags")
STORED = ("rows", "deletes_together")
TOGETHER = (
    "select part, dimensions, place, sum(measure) from cdc.archived_delete"
    " cross join unnest(measures) with ordinality as u (measure, place)"
    " where model_name = 'analytics.{}' group by 1, 2, 3 order by 1, 2, 3"
)


def counts(system: QuerySystem) -> dict[str, int]:
    """How many groups each model has."""
    return {
        name: system.target.value(f"select count(*) from analytics.{name}") for name in ARCHIVED
    }


def test_a_seed_from_an_archive_goes_on_as_the_stream_had(
    spark: SparkSession, system: QuerySystem, tmp_path: Path
) -> None:
    """At the archive's end and before: of several tables, emptied, purged, with rows refused."""
    system.keep({name: MODELS[name] for name in ARCHIVED})
    writer = Writer(system.source, Random(9), truncates=False)  # type: ignore[arg-type]
    writer.write(150)
    system.spark_job("spark-submit spark/seed.py")
    places: list[str] = []
    counted: list[dict[str, int]] = []
    for number in range(2):
        writer.truncates = number == 1
        writer.write(150)
        system.catch_up()
        system.spark_job(f"spark-submit spark/archive.py --to {tmp_path}/archive")
        places.append(system.target.value("select position_lsn::text from cdc.slot_position"))
        system.spark_job(f"spark-submit spark/replay.py --from {tmp_path}/archive --compare")
        counted.append(counts(system))
    replay = f"spark-submit spark/replay.py --from {tmp_path}/archive --json"
    for number, place in enumerate(places):
        out = system.spark_job(f"{replay} --at {place} --to {tmp_path}/replayed{number}")
        models = json.loads(out.splitlines()[-1])["models"]
        assert {name: said["groups"] for name, said in models.items()} == counted[number]
        assert models["by_day"]["totals"]["n"] != "0"
    system.target.execute(
        "update analytics.by_day set n = n + 1 where n = (select max(n) from analytics.by_day)"
    )
    with pytest.raises(ReplayDiffers, match="by_day differs"):
        system.spark_job(f"spark-submit spark/replay.py --from {tmp_path}/archive --compare")
    system.target.execute(
        "update analytics.by_day set n = n - 1 where n = (select max(n) from analytics.by_day)"
    )
    rows = {name: kept(system, name)["rows"] for name in ARCHIVED}
    deletes = {name: system.target.execute(TOGETHER.format(name)) for name in ARCHIVED}
    assert deletes["purged"]
    for place in places:
        system.spark_job(f"spark-submit spark/seed.py --archive {tmp_path}/archive --at {place}")
        stands_at = "select distinct snapshot_lsn::text from cdc.baseline"
        assert system.target.execute(stands_at) == [(place,)]
        system.apply()
        for name in ARCHIVED:
            assert kept(system, name)["rows"] == rows[name], (name, place)
            assert system.target.execute(TOGETHER.format(name)) == deletes[name], (name, place)


def test_a_model_of_rows_is_refused_from_an_archive(
    spark: SparkSession, system: QuerySystem, tmp_path: Path
) -> None:
    system.keep(
        {
            "copied": ("select id, code from {a}", {}),
            "total": ("select count(*) as n from {a}", {}),
        }
    )
    system.spark_job("spark-submit spark/seed.py")
    system.source.execute("insert into lab.a (id, code) values (1, 'a')")
    system.catch_up()
    system.spark_job(f"spark-submit spark/archive.py --to {tmp_path}/archive")
    for job in (f"replay.py --from {tmp_path}/archive", f"seed.py --archive {tmp_path}/archive"):
        with pytest.raises(ArchiveIncomplete, match="copied keeps rows, and those are not comp"):
            system.spark_job(f"spark-submit spark/{job}")
        system.spark_job(f"spark-submit spark/{job} --model total")


BASELINE = (
    "select declared_name, part, dimensions, array_agg(coalesce(total, 0) order by place) from ("
    " select declared_name, part, dimensions, place, sum(measure) as total from cdc.baseline_group"
    " cross join unnest(measures) with ordinality as u (measure, place) group by 1, 2, 3, 4"
    ") as t group by 1, 2, 3 order by 1, 2, 3"
)
REJECTED = (
    "select declared_name, part, reason, row_count from cdc.baseline_rejection order by 1, 2, 3"
)


def test_the_target_evaluates_the_rows_that_the_source_would(
    spark: SparkSession, system: QuerySystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values of every kind, of several tables, and rows that the query cannot take."""
    # To seed again what ignores deletes takes a loader that follows.
    system.keep({name: MODELS[name] for name in NAMES if not name.startswith("purged")})
    writer = Writer(system.source, Random(2), truncates=False)  # type: ignore[arg-type]
    writer.write(250)
    found = []
    for moves, few in ((False, 0), (True, 1_000_000), (True, -1)):
        monkeypatch.setattr(rows, "differ", lambda *_, moves=moves: moves)
        monkeypatch.setattr(arrow, "FEW_ROWS", few)
        system.spark_job("spark-submit spark/seed.py")
        found.append([system.target.execute(query) for query in (BASELINE, REJECTED)])
    assert len(found[0][0]) > 50
    assert len(found[0][1]) > 2
    for moved in found[1:]:
        for own, other in zip(found[0], moved, strict=True):
            assert [row for row in own if row not in other] == []
            assert [row for row in other if row not in own] == []


def test_a_source_without_our_functions_refuses_the_rows_that_the_stream_refuses(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Each key has its spelling there too, and a sum that is not finite is its row's fault.

    But in a column such a value is null, also in one of a domain.
    """
    with empty_database(cluster) as source, empty_database(cluster) as target:
        source.execute(LAB)
        system = QuerySystem(source, tmp_path, target)
        query = (
            "select price, raw, count(*) as n, sum(name::numeric) as s, sum(amount) as amount"
            " from {a} group by 1, 2"
        )
        source.execute(
            "create table lab.odd (k numeric, b bytea, primary key (k, b));"
            "alter table lab.odd replica identity full"
        )
        system.keep({"numbers": (query, {}), "keys": ("select k, b from {odd}", {})})
        insert = (
            "insert into lab.a (id, price, raw, name, amount) values (%s, 1.50, '00', '1', 'NaN'),"
            " (%s, repeat('9', 1200)::numeric, '00', '1', 0), (%s, 2, repeat('x', 1200)::bytea, '1', 0),"
            " (%s, 1.5, '00', 'NaN', 0), (%s, 1.5, '00', '-Infinity', 0)"
        )
        keys = "insert into lab.odd values (1, %s), ('NaN', %s), ('-Infinity', %s)"
        source.execute(insert, *range(5))
        source.execute(keys, "a", "a", "c")
        system.spark_job("spark-submit spark/seed.py")
        source.execute(insert, *range(5, 10))
        source.execute(keys, "b", "b", "d")
        system.catch_up()
        found = "select price::text, n, s::text, amount from analytics.numbers"
        assert target.execute(found) == [("1.5", 2, "2", None)]
        assert target.execute("select count(*) from analytics.keys") == [(2,)]
        rejected = "select declared_name, part, reason, row_count from cdc.baseline_rejection"
        seeded = target.execute(f"{rejected} order by 1, 3")
        assert [(name, count) for name, _, _, count in seeded] == [
            ("keys", 2),
            *[("numbers", 1)] * 4,
        ]
        # Each reason is the same: else one that was in an archive's baseline would not go.
        streamed = (
            "select split_part(model_name, '.', 2), source_table, reason, count(*)"
            " from analytics.rejected_changes where action = 'I' group by 1, 2, 3 order by 1, 3"
        )
        assert target.execute(streamed) == seeded
        source.execute("delete from lab.a; delete from lab.odd")
        system.catch_up()
        assert target.execute(found) == []
        assert target.execute("select count(*) from analytics.keys") == [(0,)]


def test_rows_keep_the_blanks_of_char_n_in_seed_and_stream(system: QuerySystem) -> None:
    system.keep({"pads": ("select id, pad from {a}", {})})
    system.source.execute("insert into lab.a (id, pad) values (1, 'ab')")
    system.spark_job("spark-submit spark/seed.py")
    system.source.execute("insert into lab.a (id, pad) values (2, 'ab')")
    system.catch_up()
    found = "select id, octet_length(pad) from analytics.pads order by 1"
    assert system.target.execute(found) == [(1, 4), (2, 4)]


def test_servers_that_differ_are_told(cluster: Cluster) -> None:
    with (
        empty_database(cluster) as one,
        empty_database(cluster) as same,
        empty_database(cluster, options="template template0 encoding 'LATIN1'") as latin,
        closing(connect_target(cluster.dsn(one.name))) as target,
    ):
        migrate.upgrade(target)
        zoned, plain = (
            [Model("m", Table("lab", "m"), {"relies_on": on})] for on in (["time-zone data"], [])
        )
        assert not rows.differ(one.connection, target, zoned)
        assert not rows.differ(same.connection, target, zoned)
        assert rows.differ(latin.connection, target, plain)
        target.ask(
            "create or replace function cdc.zone_data() returns text language sql"
            " as 'select current_database()::text'"
        )
        assert rows.differ(same.connection, target, zoned), "other time-zone data"
        assert not rows.differ(same.connection, target, plain)


def test_small_partitions_are_copied_together(
    system: QuerySystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "differ", lambda *_: True)
    system.source.execute(
        "create table lab.parts (id int, code text) partition by list (code);"
        "create table lab.parts_a partition of lab.parts for values in ('a');"
        "create table lab.parts_b partition of lab.parts for values in ('b');"
        "alter table lab.parts_a replica identity full;"
        "alter table lab.parts_b replica identity full;"
        "insert into lab.parts values (1, 'a'), (2, 'a'), (3, 'b')"
    )
    query = "select code, count(*) as n from {parts} group by 1"
    system.keep({"coded": (query, {}), "counted": ("select count(*) as n from {parts}", {})})
    system.spark_job("spark-submit spark/seed.py")
    system.catch_up()
    assert system.compare("table analytics.coded", query.format(parts="lab.parts")) == []
    assert system.target.value("select n from analytics.counted") == 3


def test_rows_of_many_groups_are_moved(
    spark: SparkSession, system: QuerySystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "_FEW_PAGES", 0)
    system.keep(
        {
            "few": ("select flag, count(*) as n from {a} group by 1", {}),
            "many": ("select id, count(*) as n from {a} group by 1", {}),
        }
    )
    system.source.execute(
        "insert into lab.a (id, flag) select n, n % 2 = 0 from generate_series(1, 20000) as n"
    )
    moved: list[str] = []
    fill = copies.fill

    def noted(start: Any, target: Any, made: Any, *arguments: Any) -> Any:
        moved.extend(copy.model.name for copy in made)
        return fill(start, target, made, *arguments)

    monkeypatch.setattr(copies, "fill", noted)
    system.spark_job("spark-submit spark/seed.py")
    assert moved == ["many"]
    system.must("run", "--once")
    system.apply()
    for name, count in (("few", 2), ("many", 20000)):
        assert system.target.value(f"select count(*) from analytics.{name}") == count
        query = system.models[name][0].replace('"db".', "")
        assert system.compare(f"select * from analytics.{name}", query) == []
