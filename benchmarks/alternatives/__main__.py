"""How old an answer is, and what it costs, with waltally and with what PostgreSQL itself offers.

python -m benchmarks.alternatives --rows 1000000 --seconds 20

Every way answers the same question (how many notifications of each service, template, type and
status) while one session writes at a fixed rate: half inserts, half status updates, each commit on
disk before the next one. The table holds a million rows before. The ways:

- count(*): the dashboard asks the table itself, once a second.
- A materialised view, refreshed each second without locking its readers.
- Triggers per statement, which keep the counts in the writer's own transaction.
- `loader run --build` into a second server; as it is, and with longer pauses.

An answer's age is the time from a commit to the first answer that contains it. CPU is that of a
whole server, as a share of one core, less what the same writes take with nothing beside them.
Checked at the end of each way: the answer has as many rows as were written.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import psycopg2

from benchmarks import report, workload
from benchmarks.alternatives.answers import Answer, Question, asking
from benchmarks.freshness.delays import commit_to_visible, percentile
from benchmarks.freshness.writer import PacedWriter
from benchmarks.loader_process import running_loader
from benchmarks.measure import say, server_cpu
from benchmarks.overhead.conditions import make_triggers
from demo.cluster import Cluster
from demo.source import transaction

SLOT = "alternatives"
SERVER = {"shared_buffers": "512MB", "max_wal_size": "4GB"}

_OFTEN, _EACH_SECOND = 0.01, 1.0
_PATIENCE = 300.0
_GROUPS = "service_id, template_id, notification_type, notification_status"
_COUNTED = f"select {_GROUPS}, count(*) as count from notifications group by {_GROUPS}"
_VIEW = f"""
create materialized view counts as {_COUNTED};
create unique index counts_groups on counts ({_GROUPS});
"""
_IS_BUILT = "select to_regclass(%s) is not null"
_ALWAYS = """
alter table notifications enable always trigger count_inserted;
alter table notifications enable always trigger count_updated;
"""


@dataclass(frozen=True)
class Found:
    """What one way needed."""

    delays: list[float]
    """Seconds from commit to answer, of each transaction; empty where nothing was asked."""
    commits: list[float]
    """Seconds that each transaction took the writer."""
    source_cpu: float
    """CPU seconds of the source's server per second."""
    other_cpu: float
    """CPU seconds of the loader and its target per second."""


class Prepared(NamedTuple):
    """A way that is at work."""

    question: Question | None
    """None where nothing is asked."""
    other_cpu: Callable[[], float] = lambda: 0.0
    """CPU seconds so far of all but the source."""


Way = Callable[[Cluster, int], Iterator[Prepared]]
"""Fills the table with so many rows, yields once it can be asked, and ends what it started."""


def _nothing(source: Cluster, rows: int) -> Iterator[Prepared]:
    workload.insert(source, rows, 5_000)
    yield Prepared(None)


def _count(source: Cluster, rows: int) -> Iterator[Prepared]:
    workload.insert(source, rows, 5_000)
    query = f"select sum(count) from ({_COUNTED}) as counted"
    yield Prepared(Question(source.dsn(), query, _EACH_SECOND))


def _view(source: Cluster, rows: int) -> Iterator[Prepared]:
    workload.insert(source, rows, 5_000)
    with transaction(source.dsn()) as cursor:
        cursor.execute(_VIEW)
    refresh = "refresh materialized view concurrently counts"
    total = "select sum(count) from counts"
    yield Prepared(Question(source.dsn(), total, _EACH_SECOND, before=refresh))


def _triggers(source: Cluster, rows: int) -> Iterator[Prepared]:
    workload.insert(source, rows, 5_000)
    make_triggers(source.dsn(), "statement")
    with transaction(source.dsn()) as cursor:
        # The writer's session is a replica's, so that foreign keys are not checked.
        cursor.execute(_ALWAYS)
    yield Prepared(Question(source.dsn(), "select sum(count) from trigger_counts", _OFTEN))


def _loader(source: Cluster, rows: int, *more: str) -> Iterator[Prepared]:
    with Cluster() as target:
        workload.set_up(source, target, SLOT)
        with running_loader(source, target, SLOT, *more) as loader:
            workload.insert(source, rows, 5_000)
            _wait_until_built(target)
            total = f"select coalesce(sum(live_count), 0) from {workload.FACT}"
            question = Question(target.dsn(), total, _OFTEN)
            with asking(question) as answers:
                _wait(answers, rows)
            yield Prepared(question, lambda: server_cpu(target) + loader.cpu_seconds)


def _loader_with_pauses(source: Cluster, rows: int) -> Iterator[Prepared]:
    yield from _loader(source, rows, "--build-share", "0.05")


WAYS: dict[str, Way] = {
    "nothing": _nothing,
    "count(\\*) each second": _count,
    "materialised view, refreshed each second": _view,
    "triggers per statement": _triggers,
    "waltally": _loader,
    "waltally, --build-share 0.05": _loader_with_pauses,
}


def measure(way: Way, rows: int, rate: int, each: int, seconds: float) -> Found:
    """Write at the rate beside one way to count. Raises RuntimeError where its answer is wrong."""
    with ExitStack() as stack:
        source = stack.enter_context(Cluster(SERVER))
        workload.create(source)
        question, other_cpu = stack.enter_context(contextmanager(way)(source, rows))
        _settle(source)
        writer = stack.enter_context(PacedWriter(source.dsn()))
        writer.write(1_000)
        answers = stack.enter_context(asking(question)) if question else []
        writer.write_at_rate(rate, 2, each)
        first, began = len(writer.committed), time.time()
        source_before, other_before = server_cpu(source), other_cpu()
        writer.write_at_rate(rate, seconds, each)
        if question:
            _wait(answers, rows + writer.inserted)
        source_spent = server_cpu(source) - source_before
        took = time.time() - began
        committed = writer.committed[first:]
        counted = [Answer(answer.at, answer.total - rows) for answer in answers]
        return Found(
            delays=commit_to_visible(committed, counted) if question else [],
            commits=writer.seconds[first:],
            source_cpu=source_spent / took,
            other_cpu=(other_cpu() - other_before) / took,
        )


def _wait_until_built(target: Cluster) -> None:
    patience = time.monotonic() + _PATIENCE
    while time.monotonic() < patience:
        with transaction(target.dsn()) as cursor:
            cursor.execute(_IS_BUILT, (workload.FACT,))
            if cursor.fetchall() == [(True,)]:
                return
        time.sleep(0.1)
    raise RuntimeError("the fact is not built")


def _settle(source: Cluster) -> None:
    with closing(psycopg2.connect(source.dsn())) as connection:
        connection.autocommit = True  # vacuum refuses a transaction
        with connection.cursor() as cursor:
            cursor.execute("vacuum (analyze) notifications")
            cursor.execute("checkpoint")


def _wait(answers: list[Answer], rows: int) -> None:
    patience = time.monotonic() + _PATIENCE
    while not answers or answers[-1].total < rows:
        if time.monotonic() > patience:
            raise RuntimeError(f"{answers[-1:]} is the last answer, {rows} rows were written")
        time.sleep(_OFTEN)
    if answers[-1].total != rows:
        raise RuntimeError(f"{answers[-1].total} rows are counted of {rows}")


def table(found: dict[str, list[Found]]) -> list[report.Row]:
    """Return a row per way: medians of the rounds."""

    def median(name: str, of: Callable[[Found], float]) -> float:
        return statistics.median(of(one) for one in found[name])

    base = median("nothing", lambda one: one.source_cpu)
    return [
        {
            "way": name,
            "age p50, ms": median(name, lambda one: percentile(one.delays, 0.5) * 1000)
            if runs[0].delays
            else None,
            "age p99, ms": median(name, lambda one: percentile(one.delays, 0.99) * 1000)
            if runs[0].delays
            else None,
            "source CPU, % of a core": (median(name, lambda one: one.source_cpu) - base) * 100,
            "elsewhere, % of a core": median(name, lambda one: one.other_cpu) * 100,
            "commit p50, ms": median(name, lambda one: percentile(one.commits, 0.5) * 1000),
            "commit p99, ms": median(name, lambda one: percentile(one.commits, 0.99) * 1000),
        }
        for name, runs in found.items()
    ]


def main() -> None:
    """Measure, and publish the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--rows", type=int, default=1_000_000, help="rows from before (%(default)s)")
    add("--rate", type=int, default=2_000, help="changes/s (%(default)s)")
    add("--each", type=int, default=10, help="changes per transaction (%(default)s)")
    add("--seconds", type=float, default=15, help="of the rate per round (%(default)s)")
    add("--rounds", type=int, default=3, help="default: %(default)s")
    options = parser.parse_args()
    found: dict[str, list[Found]] = {name: [] for name in WAYS}
    for number in range(options.rounds):
        for name, way in WAYS.items():
            one = measure(way, options.rows, options.rate, options.each, options.seconds)
            found[name].append(one)
            say(f"round {number + 1}, {name}: {one.source_cpu:.2f} of a core at the source")
    report.publish("alternatives", table(found), sizes=vars(options))


if __name__ == "__main__":
    main()
