"""From the slot to the durable change log, against decoding alone and against other ways.

python -m benchmarks.capture --rows 300000 --single-rows 100000 --one-rows 5000000 --rounds 3

One source, one warehouse, the same WAL for every contender. Each contender has its own slot; in
each round they run one after the other. Decoding alone is PostgreSQL's pg_recvlogical into
/dev/null. The seconds of the same command with nothing to do are subtracted. Before the rounds the
loader runs once, so that no round is the first to write the target's WAL files; before each run the
same rows are copied and dropped. A ratio compares runs of one round; the table has the median of
each column. The last rows are of a single transaction: it must pass in the same memory.
Debezium takes part where `make install-debezium` has been run.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator

from benchmarks import decoding, report, workload
from benchmarks.capture.contenders import (
    Backlog,
    Contender,
    Result,
    contenders,
    empty_warehouse,
    loader,
    prepare,
    set_up,
    warm_up,
)
from benchmarks.measure import Cost, say
from testkit.servers import Cluster

GOALS = {
    "of decoding": 0.95,
    "times Debezium": 8,
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


def measure(
    kind: str, rows: int, each: int, rounds: int, ways: dict[str, Contender]
) -> Iterator[dict[str, object]]:
    """Yield a row of the table for each contender, for transactions of `each` rows."""
    with Cluster(_SOURCE) as source, Cluster(_TARGET) as target:
        workload.create(source)
        backlog = Backlog(source, target, rows, "")
        set_up(backlog)
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
        "times Debezium": against("Debezium"),
        "source CPU µs": micros(lambda cost: cost.servers["source"]),
        "own CPU µs": micros(lambda cost: cost.program),
        "target CPU µs": micros(lambda cost: cost.servers["target"]),
        "MB over idle": max(result.over_idle for result in found) / 1e6,
    }


def main() -> None:
    """Measure both kinds of transactions, then publish."""
    parser = report.parser(__doc__)
    parser.add_argument("--rows", type=int, default=300_000, help="in large transactions")
    parser.add_argument("--each", type=int, default=5_000, help="rows of a large transaction")
    parser.add_argument("--single-rows", type=int, default=100_000, help="in single-row ones")
    parser.add_argument("--one-rows", type=int, default=5_000_000, help="in a single transaction")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one-rounds", type=int, default=1, help="of the single transaction")
    given = parser.parse_args()
    every = contenders()
    two = {name: every[name] for name in ("decoding alone", "loader")}
    rows = [*measure("large", given.rows, given.each, given.rounds, every)]
    if given.single_rows:
        rows += measure("single", given.single_rows, 1, given.rounds, every)
    if given.one_rows:
        rows += measure("one", given.one_rows, given.one_rows, given.one_rounds, two)
    report.publish("capture", rows, goals=GOALS, sizes=vars(given))


if __name__ == "__main__":
    main()
