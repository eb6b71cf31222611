"""From the slot to the durable change log, against decoding alone and against other ways.

python -m benchmarks.capture --rows 300000 --single-rows 100000 --one-rows 5000000 --rounds 3

One source, one warehouse, the same WAL for every contender. Each contender has its own slot; in
each round they run one after the other. Decoding alone is PostgreSQL's pg_recvlogical into
/dev/null. Reading in Python and throwing away is the best that the loader could reach. The seconds
of the same command with nothing to do are subtracted. Before the rounds the loader runs once, so
that no round is the first to write the target's WAL files; before each run the same rows are copied
and dropped. A ratio compares runs of one round; the table has the median of each column. The last
rows are of a single transaction, read once: it must pass in the same memory.
Debezium takes part where `make install-debezium` has been run.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import psycopg2

from benchmarks import decoding, report, workload
from benchmarks.measure import ROOT, Cost, run, say
from demo.cluster import BIN, Cluster

GOALS = {
    "of decoding": 0.95,
    "times Debezium": 8,
    "times SQL polling": 3,
    "MB over idle": 64,
}

# Autovacuum would end up in the figures of whichever run it meets.
_SOURCE = {
    "max_replication_slots": "60",
    "max_wal_senders": "20",
    "max_wal_size": "16GB",
    "autovacuum": "off",
}
_TARGET = {
    # As on a server that has run for a while, WAL goes into files that are there already.
    "min_wal_size": "4GB",
    "max_wal_size": "16GB",
    "shared_buffers": "512MB",
    "autovacuum": "off",
}
_COLUMNS = "slot_name, commit_lsn, ordinal, xid, committed_at, action, payload"
_DEBEZIUM = ROOT / ".venv-debezium" / "bin" / "python"


class Backlog(NamedTuple):
    """Changes that wait in the source's WAL, and the servers that they lie between."""

    source: Cluster
    target: Cluster
    rows: int
    end: str

    @property
    def rows_file(self) -> Path:
        """Where the loader's rows wait to be copied again."""
        return self.target.home / "rows"

    @property
    def clusters(self) -> dict[str, Cluster]:
        """The servers by the names that their costs go by."""
        return {"source": self.source, "target": self.target}


class Result(NamedTuple):
    """A contender's run."""

    seconds: float
    cost: Cost
    over_idle: int = 0
    """Bytes that the program held more than with nothing to do."""


Contender = Callable[[Backlog, str], Result]


def decode_alone(backlog: Backlog, slot: str) -> Result:
    """Read the slot with PostgreSQL's own program, into nothing."""
    program, *words = decoding.command(backlog.source, slot, backlog.end)
    cost = run([BIN / program, *words], {}, backlog.clusters)
    return Result(cost.seconds, cost)


def read_in_python(backlog: Backlog, slot: str) -> Result:
    """Read the slot as the loader does, into nothing."""
    words = ["--source", backlog.source.dsn(), "--slot", slot, "--end", backlog.end]
    command = [sys.executable, "-m", "benchmarks.capture.discard", *words]
    cost = run(
        command, workload.environment(backlog.source, backlog.target, slot), backlog.clusters
    )
    return Result(float(cost.output.split()[-1]), cost)


def loader(backlog: Backlog, slot: str, *more: str) -> Result:
    """Follow the slot with `loader run --once`, then once more with nothing to do."""
    environment = _environment(backlog, slot)
    command = [str(workload.LOADER), "run", "--once", *more]
    cost = run(command, environment, backlog.clusters)
    idle = run(command, environment, backlog.clusters)
    check(backlog, f"select count(*) from cdc.change_log where slot_name = '{slot}'")
    rows = f"(select {_COLUMNS} from cdc.change_log) to '{backlog.rows_file}' (format binary)"
    _psql(backlog, f"\\copy {rows}")
    return Result(cost.seconds - idle.seconds, _less(cost, idle), cost.peak_bytes - idle.peak_bytes)


def copy_alone(backlog: Backlog, _slot: str) -> Result:
    """Put the rows that the loader has just staged into the same table again, from a file."""
    cost = _psql(
        backlog, f"\\copy cdc.change_log ({_COLUMNS}) from '{backlog.rows_file}' (format binary)"
    )
    check(backlog, "select count(*) from cdc.change_log")
    return Result(cost.seconds, cost)


def loader_and_dbt(backlog: Backlog, slot: str) -> Result:
    """Follow the slot and build the fact."""
    empty_warehouse(backlog)
    result = loader(backlog, slot, "--build")
    check(backlog, "select sum(live_count) from analytics.ft_service_stats")
    return result


def reader_and_copy(backlog: Backlog, slot: str) -> Result:
    """Stage the payloads alone, with psycopg2's own reader and COPY in two threads."""
    return _streamed("reader_and_copy", backlog, slot)


def reader_and_copy_as_log(backlog: Backlog, slot: str) -> Result:
    """The same with the loader's rows, looked at as the loader does and under the log's key."""
    return _streamed("reader_and_copy", backlog, slot, "--as-log")


def sql_polling(backlog: Backlog, slot: str) -> Result:
    """Count by polling the slot in SQL."""
    return _streamed("sql_polling", backlog, slot)


def debezium(backlog: Backlog, slot: str) -> Result:
    """Stage with Debezium's embedded engine."""
    return _streamed("debezium", backlog, slot)


def contenders() -> dict[str, Contender]:
    """Return who takes part, by the name in the table."""
    found: dict[str, Contender] = {
        "decoding alone": decode_alone,
        "reading in Python": read_in_python,
        "loader": loader,
        "COPY of the same rows alone": copy_alone,
        "reader and COPY, payloads alone": reader_and_copy,
        "reader and COPY, the log's rows": reader_and_copy_as_log,
        "SQL polling, to the fact": sql_polling,
        "loader and dbt, to the fact": loader_and_dbt,
    }
    if _DEBEZIUM.exists():
        found["Debezium"] = debezium
    return found


def prepare(backlog: Backlog, name: str, slot: str) -> None:
    """Make the contender's slot before anything is written."""
    if name.startswith("loader"):
        workload.set_up(backlog.source, backlog.target, slot)
    elif name in ("Debezium", "SQL polling, to the fact"):
        module = "debezium" if name == "Debezium" else "sql_polling"
        run([*_other(module, backlog, slot), "--prepare"], _environment(backlog), {})
    else:
        decoding.make_slot(backlog.source, slot)


def empty_warehouse(backlog: Backlog) -> None:
    """Empty the warehouse's own tables, so that each run finds the same."""
    with closing(psycopg2.connect(backlog.target.dsn())) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("drop schema if exists analytics cascade")
            cursor.execute("drop table if exists reader_and_copy")
            cursor.execute("truncate cdc.change_log")
            cursor.execute("checkpoint")


def warm_up(backlog: Backlog) -> None:
    """Have the target write what a run writes, so that its memory is at hand.

    A virtual machine hands what it does not use back to its host within seconds, and writes into
    new memory at a tenth of the speed; which contender came before must not matter.
    """
    empty_warehouse(backlog)
    copy_alone(backlog, "")


def check(backlog: Backlog, query: str) -> None:
    """Compare a number in the target with the number of changes. Raises RuntimeError."""
    with (
        closing(psycopg2.connect(backlog.target.dsn())) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(query)
        ((found,),) = cursor.fetchall()
    if found != backlog.rows:
        raise RuntimeError(f"{query}: {found}, not {backlog.rows}")


def measure(
    kind: str, rows: int, each: int, rounds: int, ways: dict[str, Contender]
) -> Iterator[dict[str, object]]:
    """Yield a row of the table for each contender, for transactions of `each` rows."""
    with Cluster(_SOURCE) as source, Cluster(_TARGET) as target:
        workload.create(source)
        backlog = Backlog(source, target, rows, "")
        slots = {
            (name, number): f"{kind}_{place}_{number}"
            for place, name in enumerate(ways)
            for number in range(rounds)
        }
        first = f"{kind}_first"
        for (name, _), slot in slots.items():
            prepare(backlog, name, slot)
        if rounds > 1:
            prepare(backlog, "loader", first)
        say(f"{kind}: writing {rows:,} rows")
        workload.insert(source, rows, each)
        backlog = backlog._replace(end=decoding.wal_end(source))
        if rounds > 1:
            say(f"{kind}: a run that does not count")
            loader(backlog, first)
            decoding.drop_slot(source, first)
        results: dict[str, list[Result]] = {name: [] for name in ways}
        for number in range(rounds):
            for name, contender in ways.items():
                if rounds > 1:
                    warm_up(backlog)
                empty_warehouse(backlog)
                result = contender(backlog, slots[name, number])
                results[name].append(result)
                say(f"{kind}: {name}: {rows / result.seconds:,.0f}/s")
                decoding.drop_slot(source, slots[name, number])
    for name, found in results.items():
        yield _row(kind, name, rows, found, results)


def _row(
    kind: str, name: str, rows: int, found: list[Result], results: dict[str, list[Result]]
) -> dict[str, object]:
    def against(other: str) -> float | None:
        pairs = zip(results.get(other, []), found, strict=False)
        ratios = [theirs.seconds / ours.seconds for theirs, ours in pairs]
        return statistics.median(ratios) if ratios else None

    def micros(pick: Callable[[Cost], float]) -> float:
        return statistics.median(pick(result.cost) for result in found) / rows * 1e6

    return {
        "transactions, way": f"{kind}: {name}",
        "changes/s": statistics.median(rows / result.seconds for result in found),
        "of decoding": against("decoding alone"),
        "of Python reading": against("reading in Python"),
        "times Debezium": against("Debezium"),
        "times SQL polling": against("SQL polling, to the fact"),
        "source CPU µs": micros(lambda cost: cost.servers["source"]),
        "own CPU µs": micros(lambda cost: cost.program),
        "target CPU µs": micros(lambda cost: cost.servers["target"]),
        "MB over idle": max(result.over_idle for result in found) / 1e6,
    }


def _less(cost: Cost, idle: Cost) -> Cost:
    return Cost(
        seconds=cost.seconds - idle.seconds,
        program=cost.program - idle.program,
        servers={name: spent - idle.servers[name] for name, spent in cost.servers.items()},
        peak_bytes=cost.peak_bytes,
        output=cost.output,
    )


def _psql(backlog: Backlog, words: str) -> Cost:
    command = [str(BIN / "psql"), "--no-psqlrc", f"--command={words}", backlog.target.dsn()]
    return run(command, {}, backlog.clusters)


def _other(module: str, backlog: Backlog, slot: str) -> list[str | Path]:
    python = _DEBEZIUM if module == "debezium" else Path(sys.executable)
    words = ["--source", backlog.source.dsn(), "--target", backlog.target.dsn(), "--slot", slot]
    return [python, "-m", f"benchmarks.capture.{module}", *words, "--rows", str(backlog.rows)]


def _streamed(module: str, backlog: Backlog, slot: str, *more: str) -> Result:
    cost = run([*_other(module, backlog, slot), *more], _environment(backlog), backlog.clusters)
    said = json.loads(cost.output.splitlines()[-1])
    return Result(float(said["seconds_streaming"]), cost)


def _environment(backlog: Backlog, slot: str = "") -> dict[str, str]:
    return workload.environment(backlog.source, backlog.target, slot)


def draw(rows: Sequence[report.Row]) -> None:
    """Draw the changes per second of each way."""
    with report.figure("capture", height=4.5) as axes:
        names = [str(row["transactions, way"]) for row in rows]
        axes.barh(names[::-1], [float(str(row["changes/s"])) for row in rows][::-1])
        axes.set_xlabel("changes per second, 1 KB each")


def main() -> None:
    """Measure both kinds of transactions, then publish."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=300_000, help="in large transactions")
    parser.add_argument("--each", type=int, default=5_000, help="rows of a large transaction")
    parser.add_argument("--single-rows", type=int, default=100_000, help="in single-row ones")
    parser.add_argument("--one-rows", type=int, default=5_000_000, help="in a single transaction")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    every = contenders()
    two = {name: every[name] for name in ("decoding alone", "loader")}
    rows = [*measure("large", given.rows, given.each, given.rounds, every)]
    if given.single_rows:
        rows += measure("single", given.single_rows, 1, given.rounds, every)
    if given.one_rows:
        rows += measure("one", given.one_rows, given.one_rows, 1, two)
    report.publish("capture", rows, goals=GOALS, sizes=vars(given))
    draw(rows)


if __name__ == "__main__":
    main()
