"""What `loader run --build` needs after a stop, with changes waiting, and what decoding alone does.

python -m benchmarks.catch_up --rows 1000000 --rounds 3

Source and target are two servers. The loader runs until the fact is built and stops. Each round
then inserts the rows (1 KB of JSON each, transactions of 1,000), starts the loader and times, from
the start of its process, until the change log has everything and until the fact has; and reads the
same WAL by pg_recvlogical into nothing, from a slot of its own, with the loader stopped, before
the loader or after it in turn. Python, dbt's imports and the parsing of the models are in the
loader's times, the program's start in pg_recvlogical's.

A build takes a slice of what is staged where the models are told to; the slices are counted by the
fact's watermark, looked at every 20 ms. Memory is the most that the loader's process, dbt in it,
has held, to be compared with the same of a loader that follows an idle source. Checked in each
round: the change log has exactly the changes written and the fact their number; at the end the
fact equals a recount.
"""

from __future__ import annotations

import argparse
import time
from bisect import bisect_left
from contextlib import ExitStack
from itertools import accumulate, pairwise

from benchmarks import decoding, report, workload
from benchmarks.catch_up.poller import watch
from benchmarks.catch_up.report import Round, draw, table
from benchmarks.freshness.poller import MODEL
from benchmarks.loader_process import building
from benchmarks.measure import say
from demo.cluster import Cluster
from demo.recount import differences
from demo.source import transaction

SLOT, ALONE = "catch_up", "decoding"
EACH = 1_000
SERVER = {"shared_buffers": "256MB", "max_wal_size": "4GB"}
GOALS = {"memory above the idle peak, MB, at most": 64}

_SETTLE_SECONDS = 10.0

# The commit record lies behind the position that this returns.
_MARK = """
insert into notifications (
    "to", service_id, template_id, notification_type, notification_status
)
select 'someone@example.com', service_id, id, template_type, 'created' from templates limit 1
returning (pg_current_wal_insert_lsn() - '0/0')::bigint
"""

_LOG = """
select (commit_lsn - '0/0')::bigint, count(*)
from cdc.change_log where commit_lsn > '0/0'::pg_lsn + {since}
group by commit_lsn order by commit_lsn
"""


def measure(rows: int, rounds: int) -> tuple[int, list[Round]]:
    """Return the idle peak in bytes, and the rounds. Raises RuntimeError where a check fails."""
    taken: list[Round] = []
    with ExitStack() as stack:
        source, target = (stack.enter_context(Cluster(SERVER)) for _ in range(2))
        workload.create(source)
        workload.set_up(source, target, SLOT)
        with building(source, target, SLOT) as loader:
            for _ in range(3):
                watch(target.dsn(), SLOT, _mark(source), loader.began, loader.check)
            time.sleep(_SETTLE_SECONDS)
            idle = loader.peak_bytes
        say(f"the idle loader has held {idle / 1e6:.0f} MB at most")
        for number in range(rounds):
            decoding.make_slot(source, ALONE)
            workload.insert(source, rows - 1, EACH)
            taken.append(_round(source, target, rows, decodes_first=number % 2 == 1))
            decoding.drop_slot(source, ALONE)
            say(
                f"round {number + 1} of {rounds}: staged in {taken[-1].staged:.1f} s, visible in "
                f"{taken[-1].visible:.1f} s, decoding alone {taken[-1].decoding:.1f} s"
            )
        if wrong := differences(source.dsn(), target.dsn(), slot=SLOT):
            raise RuntimeError(f"{len(wrong)} groups differ from a recount, as {wrong[0]}")
    return idle, taken


def _round(source: Cluster, target: Cluster, rows: int, *, decodes_first: bool) -> Round:
    """Catch up with all but one of the rows, and that one, which marks the end."""
    ((since,),) = _ask(target, "select (max(commit_lsn) - '0/0')::bigint from cdc.change_log")
    mark = _mark(source)
    end = decoding.wal_end(source)
    alone = decoding.decode(source, ALONE, end, SLOT) if decodes_first else None
    with building(source, target, SLOT) as loader:
        course = watch(target.dsn(), SLOT, mark, loader.began, loader.check)
        peak = loader.peak_bytes
    if alone is None:
        alone = decoding.decode(source, ALONE, end, SLOT)

    log = _ask(target, _LOG.format(since=since))
    if (staged := sum(changes for _, changes in log)) != rows:
        raise RuntimeError(f"{staged} changes are staged of {rows}")
    ((counted,),) = _ask(target, f"select sum(live_count)::bigint from {MODEL}")
    ((written,),) = _ask(source, "select count(*) from notifications")
    if counted != written:
        raise RuntimeError(f"the fact counts {counted} rows of {written}")
    positions = [position for position, _ in log]
    sums = [0, *accumulate(changes for _, changes in log)]
    applied = [sums[bisect_left(positions, moment.applied)] for moment in course.moments]
    stored = [sums[bisect_left(positions, moment.position)] for moment in course.moments]
    return Round(
        staged=course.staged(mark),
        visible=course.visible(mark),
        dbt_ready=course.dbt_ready,
        decoding=alone,
        peak_bytes=peak,
        longest_staging=course.longest_staging,
        longest_build=course.longest_build,
        slices=[after - before for before, after in pairwise(applied) if after > before],
        line=[
            (moment.at, in_log, in_fact)
            for moment, in_log, in_fact in zip(course.moments, stored, applied, strict=True)
        ],
    )


def _mark(source: Cluster) -> int:
    """Insert a row and return a position just before its commit record, in bytes of WAL."""
    ((position,),) = _ask(source, _MARK)
    return position


def _ask(cluster: Cluster, query: str) -> list[tuple[int, ...]]:
    with transaction(cluster.dsn()) as cursor:
        cursor.execute(query)
        return cursor.fetchall()


def main() -> None:
    """Measure, and publish the table and the figure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rows", type=int, default=1_000_000, help="changes that wait (%(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    options = parser.parse_args()
    idle, taken = measure(options.rows, options.rounds)
    report.publish(
        "catch_up",
        table(options.rows, idle, taken),
        goals=GOALS,
        sizes=vars(options),
        idle_bytes=idle,
        slices=[one.slices for one in taken],
    )
    draw(options.rows, taken)


if __name__ == "__main__":
    main()
