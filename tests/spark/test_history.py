"""A history has each change of its table once, whatever is killed, and the columns that it had."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from waltally_jobs.common.command import Stop
from waltally_jobs.common.errors import SnapshotTooOld
from waltally_jobs.history.job import HistorySettings, write

from testkit.commands import ROOT, wait_until
from tests.spark.log import Stream
from tests.spark.support import kill
from waltally import lsn

CURRENT = (ROOT / "examples/lake/current.sql").read_text()
POSITION = "select (applied_lsn - '0/0')::bigint from cdc.reader_position"


def settings(stream: Stream, to: Path, **more: Any) -> HistorySettings:
    source = stream.log.source
    where = (source.dsn, source.slot, "cdc", source.dsn)
    return HistorySettings(*where, "public.orders", str(to), **more)


def write_orders(stream: Stream, first: int) -> None:
    """Stage a history of some orders, which moves keys and deletes too."""
    for number in range(first, first + 16, 4):
        stream.stage(
            f"insert into public.orders select n, 'new' from generate_series({number},"
            f" {number + 3}) as n",
            f"update public.orders set state = 'paid' where id = {number}",
        )
        stream.stage(
            f"update public.orders set id = -id where id = {number + 1}",
            f"delete from public.orders where id = {number + 2}",
        )


def logged(stream: Stream) -> list[tuple[Any, ...]]:
    """What the log says of the orders."""
    rows = []
    for position, ordinal, xid, _, _, action, payload in stream.log.rows():
        message = json.loads(payload)
        images = [
            tuple(each["value"] for each in message[side]) if side in message else (None, None)
            for side in ("columns", "identity")
        ]
        op = {"I": "insert", "U": "update", "D": "delete", "T": "truncate"}[action]
        rows.append((position, ordinal, xid, op, *images[0], *images[1]))
    return rows


def kept(spark: SparkSession, to: Path) -> list[tuple[Any, ...]]:
    rows = spark.read.parquet(str(to))
    rows.createOrReplaceTempView("history")
    columns = ("commit_lsn", "ordinal", "xid", "op", "id", "state", "old.id", "old.state")
    return sorted(map(tuple, rows.select(*columns).collect()))


@pytest.mark.parametrize("has_cluster", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_history_that_is_killed_at_any_moment_has_each_change_once(
    spark: SparkSession,
    stream: Stream,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    has_cluster: bool,
) -> None:
    source, to = stream.log.source, tmp_path / "orders"
    master = request.getfixturevalue("workers").url if has_cluster else "local[2]"
    flags = ("--table", "public.orders", "--to", str(to), "--max-changes", "30")
    run: dict[str, Any] = {
        "job": "history",
        "master": master,
        "conf": {"spark.executor.memory": "512m"},
    }

    def kill_once_there_are_more(of: str) -> None:
        before = len([*to.glob(of)])
        job = source.start(*flags, "--interval", "0.1", **run)
        wait_until(
            lambda: len([*to.glob(of)]) > before or job.poll() is not None, of, 600, pause=0.02
        )
        kill(job)
        assert job.returncode == -9

    # While a batch is planned, once its files are there, and once it is done.
    for number, moment in enumerate(("offsets/*", "../*.parquet", "commits/*")):
        write_orders(stream, 1 + 100 * number)
        kill_once_there_are_more(f"_checkpoint/{moment}")
    stream.stage("truncate public.orders")
    write_orders(stream, 401)
    code, _, err = source.submit(*flags, "--once", **run)
    assert code == 0, err
    assert kept(spark, to) == logged(stream)
    orders = source.execute("select id, state from public.orders order by 1")
    assert sorted(map(tuple, spark.sql(CURRENT).collect())) == orders != []
    # Prune keeps what is not read, and no more than two batches of what is.
    assert source.value(POSITION) > stream.log.position - 0x30 * 9


def test_a_column_that_comes_while_a_history_runs_is_in_it_from_its_first_change_on(
    spark: SparkSession, stream: Stream, tmp_path: Path
) -> None:
    to, stop = tmp_path / "orders", Stop()
    checkpoint = to / "_checkpoint"
    stream.stage("insert into public.orders values (1, 'new')")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(write, settings(stream, to, interval=0.1), stop)
        wait_until(lambda: written(checkpoint) or running.done(), "it has written", 600)
        stream.stage(
            "alter table public.orders add column price numeric(12, 2) default 7,"
            " alter column id type bigint",
            "insert into public.orders values (3000000000, 'paid', 12.50)",
        )
        end = stream.log.position
        wait_until(lambda: written(checkpoint) >= end or running.done(), "it has all", 600)
        stop.set()
        running.result()
    # Files with another type of a column are read one by one.
    of_files = [spark.read.parquet(str(file)) for file in sorted(to.glob("*.parquet"))]
    rows = [row.asDict() for each in of_files for row in each.drop("old").collect()]
    found = [(row["id"], row["state"], row.get("price"), row["missing"]) for row in rows]
    assert sorted(found) == [(1, "new", None, []), (3_000_000_000, "paid", Decimal("12.50"), [])]


def test_values_of_columns_that_go_before_they_are_written_are_in_it(
    spark: SparkSession, stream: Stream, tmp_path: Path
) -> None:
    """No column of the rows has them: the table has none, or one with another name."""
    to = tmp_path / "orders"
    stream.stage("alter table public.orders add column price int")
    stream.stage("insert into public.orders values (1, 'new', 7)")
    write(settings(stream, to))
    stream.stage("update public.orders set state = 'paid'")
    stream.stage(
        "alter table public.orders rename state to status",
        "alter table public.orders drop column price",
    )
    stream.stage("insert into public.orders values (2, 'new')")
    write(settings(stream, to))
    rows = spark.read.option("mergeSchema", "true").parquet(str(to)).orderBy("commit_lsn").collect()
    first, paid, last = (row.asDict(recursive=True) for row in rows)
    assert (first["state"], first["price"], first["other_columns"]) == ("new", 7, None)
    assert paid["other_columns"] == {"state": "paid", "price": "7"}
    assert paid["old"]["other_columns"] == {"state": "new", "price": "7"}
    assert (last["status"], last["other_columns"]) == ("new", None)


def written(checkpoint: Path) -> int:
    """The position before which all is written, 0 where nothing is."""
    done = len([*checkpoint.glob("commits/[0-9]*")])
    if not done:
        return 0
    said = (checkpoint / f"offsets/{done - 1}").read_text().splitlines()[-1]
    return lsn.parse(json.loads(said)["lsn"])


@pytest.mark.parametrize(
    "renewed",
    [
        "update cdc.reader_position set applied_lsn = '0/0'",
        "update cdc.slot_position set position_lsn = position_lsn + 9,"
        " start_lsn = position_lsn + 9",
    ],
)
def test_a_log_that_began_anew_is_refused_until_a_history_begins_anew(
    stream: Stream, tmp_path: Path, renewed: str
) -> None:
    stream.stage("insert into public.orders values (1, 'new')")
    write(settings(stream, tmp_path / "orders"))
    # As `loader setup --renew` does.
    stream.log.run(renewed)
    for number in (2, 3):
        stream.stage(f"insert into public.orders values ({number}, 'new')")
    with pytest.raises(
        SnapshotTooOld, match=r"after the position .* of history of .*: it began anew"
    ) as said:
        write(settings(stream, tmp_path / "orders"))
    stream.log.run(said.value.remedy.partition(";")[0])
    write(settings(stream, tmp_path / "again"))
