"""From the slot to the durable change log, against decoding alone and against other ways.

python -m benchmarks.capture --rows 300000 --single-rows 100000 --one-rows 5000000 --rounds 3

One source, one warehouse, the same WAL for every contender. Each contender has its own slot; in
each round they run one after the other. Decoding alone is PostgreSQL's pg_recvlogical into
/dev/null. The seconds of the same command with nothing to do are subtracted. Before the rounds the
loader runs once, so that no round is the first to write the target's WAL files; before each run the
same rows are copied and dropped. A ratio compares runs of one round; the table has the median of
each column. The last rows are of a single transaction: it must pass in the same memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks import decoding, report
from benchmarks.measure import Cost, run, say
from benchmarks.workload import LOADER, ask, create, environment, insert, set_up
from testkit.servers import BIN, Cluster

GOALS = {
    "of decoding": 0.95,
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


_LOADER_SLOT = "loader"
"""The one slot that feeds the model: each run follows a copy of the slot that waited for it."""
_COLUMNS = "slot_name, commit_lsn, ordinal, xid, committed_at, action, payload"


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


def loader(backlog: Backlog, slot: str, *more: str) -> Result:
    """Follow a copy of the slot with `loader run --once`, then once more with nothing to do."""
    decoding.drop_slot(backlog.source, _LOADER_SLOT)
    copy_slot(backlog, slot, _LOADER_SLOT)
    ask(backlog.target.dsn(), "update cdc.slot_position set position_lsn = start_lsn")
    command = [str(LOADER), "run", "--once", *more]
    settings = environment(backlog.source, backlog.target, _LOADER_SLOT)
    cost, idle = (run(command, settings, backlog.clusters) for _ in range(2))
    check(backlog, "select count(*) from cdc.change_log")
    rows = f"(select {_COLUMNS} from cdc.change_log) to '{backlog.rows_file}' (format binary)"
    _psql(backlog, f"\\copy {rows}")
    return Result(cost.seconds - idle.seconds, _less(cost, idle), cost.peak_bytes - idle.peak_bytes)


def to_the_model(backlog: Backlog, slot: str) -> Result:
    """Follow the slot and build the model."""
    result = loader(backlog, slot, "--build")
    check(backlog, "select sum(live_count) from analytics.ft_service_stats")
    return result


CONTENDERS: dict[str, Contender] = {
    "decoding alone": decode_alone,
    "loader": loader,
    "loader, to the model": to_the_model,
}
"""Who takes part, by the name in the table."""


def copy_slot(backlog: Backlog, slot: str, copy: str) -> None:
    """Make a slot at the same place."""
    values = {"slot": slot, "copy": copy}
    ask(backlog.source.dsn(), "select pg_copy_logical_replication_slot(%(slot)s, %(copy)s)", values)


def prepare(backlog: Backlog, name: str, slot: str) -> None:
    """Make the contender's slot before anything is written."""
    if name.startswith("loader"):
        copy_slot(backlog, _LOADER_SLOT, slot)
    else:
        decoding.make_slot(backlog.source, slot)


def empty_warehouse(backlog: Backlog) -> None:
    """Empty the warehouse's own tables, so that each run finds the same."""
    for statement in (
        "truncate analytics.ft_service_stats, analytics.rejected_changes",
        "truncate cdc.change_log, cdc.model_watermark",
        "checkpoint",
    ):
        ask(backlog.target.dsn(), statement)


def warm_up(backlog: Backlog) -> None:
    """Let the target write what a run writes, so that every contender finds the same memory.

    A virtual machine returns unused memory to its host within seconds, and writing into new memory
    takes ten times as long.
    """
    empty_warehouse(backlog)
    _psql(backlog, f"\\copy cdc.change_log ({_COLUMNS}) from '{backlog.rows_file}' (format binary)")


def check(backlog: Backlog, query: str) -> None:
    """Compare a number in the target with the number of changes. Raises RuntimeError."""
    if (found := ask(backlog.target.dsn(), query)) != [(backlog.rows,)]:
        raise RuntimeError(f"{query}: {found}, not {backlog.rows}")


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


def measure_kind(
    kind: str, rows: int, each: int, rounds: int, ways: Mapping[str, Contender] = CONTENDERS
) -> Iterator[report.Row]:
    """Yield a row of the table for each contender, for transactions of `each` rows."""
    with Cluster(_SOURCE) as source, Cluster(_TARGET) as target:
        create(source)
        backlog = Backlog(source, target, rows, "")
        set_up(source, target, _LOADER_SLOT)
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
        insert(source, rows, each)
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
) -> report.Row:
    def against(other: str) -> float | None:
        pairs = zip(results.get(other, []), found, strict=False)
        ratios = [theirs.seconds / ours.seconds for theirs, ours in pairs]
        return median(ratios) if ratios else None

    def micros(pick: Callable[[Cost], float]) -> float:
        return median(pick(result.cost) for result in found) / rows * 1e6

    return {
        "transactions, way": f"{kind}: {name}",
        "changes/s": median(rows / result.seconds for result in found),
        "of decoding": against("decoding alone"),
        "source CPU µs": micros(lambda cost: cost.servers["source"]),
        "own CPU µs": micros(lambda cost: cost.program),
        "target CPU µs": micros(lambda cost: cost.servers["target"]),
        "MB over idle": max(result.over_idle for result in found) / 1e6,
    }


def measure(
    rows: int, each: int, single_rows: int, one_rows: int, rounds: int, one_rounds: int
) -> Iterator[report.Table]:
    """Measure each kind of transactions."""
    two = {name: CONTENDERS[name] for name in ("decoding alone", "loader")}
    found = [*measure_kind("large", rows, each, rounds)]
    if single_rows:
        found += measure_kind("single", single_rows, 1, rounds)
    if one_rows:
        found += measure_kind("one", one_rows, one_rows, one_rounds, two)
    yield report.Table("capture", found, {"goals": GOALS})


if __name__ == "__main__":
    report.main(
        __doc__,
        measure,
        rows=(300_000, "in large transactions"),
        each=(5_000, "rows of a large transaction"),
        single_rows=(100_000, "in single-row ones"),
        one_rows=(5_000_000, "in a single transaction"),
        rounds=(3, "runs of each"),
        one_rounds=(1, "of the single transaction"),
    )
