"""What `loader run --build` needs after a stop, with changes waiting, and what decoding alone does.

python -m benchmarks.catch_up --rows 1000000 --rounds 3

Source and target are two servers. The loader runs until the model is built and stops. Each round
inserts the rows (1 KB of JSON each, transactions of 1,000), starts the loader, and times from the
start of its process until the change log has everything and until the model has everything. With
the loader stopped, before it or after it in turn, pg_recvlogical reads the same WAL from its own
slot into nothing. The loader's times contain the start of Python.

The changes that each build took are read from the model's watermark, every 20 ms. Memory is the
most that the loader's process held, compared with a loader that follows an idle
source. Checked in each round: the change log has exactly the changes written and the model their
number; at the end the model equals a recount.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from contextlib import ExitStack
from itertools import accumulate, pairwise

from benchmarks import decoding, report, workload
from benchmarks.catch_up.poller import poll
from benchmarks.catch_up.report import Round, draw, table
from benchmarks.loader_process import running_loader
from benchmarks.measure import say
from testkit.recount import differences
from testkit.servers import Cluster
from testkit.source import transaction

SLOT, ALONE = "catch_up", "decoding"
EACH = 1_000
SERVER = {"shared_buffers": "256MB", "max_wal_size": "4GB"}
GOALS = {"memory above the idle peak, MB, at most": 64}

_SETTLE_SECONDS = 10.0

# The commit record lies behind the position that this returns.
_MARKER = """
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
    measured: list[Round] = []
    with ExitStack() as stack:
        source, target = (stack.enter_context(Cluster(SERVER)) for _ in range(2))
        workload.create(source)
        workload.set_up(source, target, SLOT)
        with running_loader(source, target, SLOT) as loader:
            for _ in range(3):
                poll(target.dsn(), SLOT, _insert_marker(source), loader.began, loader.check)
            time.sleep(_SETTLE_SECONDS)
            idle = loader.peak_bytes
        say(f"the idle loader has held {idle / 1e6:.0f} MB at most")
        for number in range(rounds):
            decoding.make_slot(source, ALONE)
            workload.insert(source, rows - 1, EACH)
            measured.append(_round(source, target, rows, decodes_first=number % 2 == 1))
            decoding.drop_slot(source, ALONE)
            last = measured[-1]
            say(
                f"round {number + 1} of {rounds}: staged in {last.staged:.1f} s, visible in "
                f"{last.visible:.1f} s, decoding alone {last.decoding:.1f} s"
            )
        if wrong := differences(source.dsn(), target.dsn(), slot=SLOT):
            raise RuntimeError(f"{len(wrong)} groups differ from a recount, as {wrong[0]}")
    return idle, measured


def _round(source: Cluster, target: Cluster, rows: int, *, decodes_first: bool) -> Round:
    """Let the loader catch up with the rows; the last of them marks the end."""
    ((since,),) = _query(target, "select (max(commit_lsn) - '0/0')::bigint from cdc.change_log")
    marker = _insert_marker(source)
    end = decoding.wal_end(source)
    alone = decoding.decode(source, ALONE, end, SLOT) if decodes_first else None
    with running_loader(source, target, SLOT) as loader:
        catch_up = poll(target.dsn(), SLOT, marker, loader.began, loader.check)
        peak = loader.peak_bytes
    if alone is None:
        alone = decoding.decode(source, ALONE, end, SLOT)

    log = _query(target, _LOG.format(since=since))
    if (logged := sum(changes for _, changes in log)) != rows:
        raise RuntimeError(f"{logged} changes are staged of {rows}")
    ((counted,),) = _query(target, f"select sum(live_count)::bigint from {workload.MODEL}")
    ((written,),) = _query(source, "select count(*) from notifications")
    if counted != written:
        raise RuntimeError(f"the model counts {counted} rows of {written}")
    positions = [position for position, _ in log]
    sums = [0, *accumulate(changes for _, changes in log)]
    applied = [
        sums[bisect_left(positions, observation.applied)] for observation in catch_up.observations
    ]
    stored = [
        sums[bisect_left(positions, observation.position)] for observation in catch_up.observations
    ]
    return Round(
        staged=catch_up.staged(marker),
        visible=catch_up.visible(marker),
        decoding=alone,
        peak_bytes=peak,
        longest_staging=catch_up.longest_staging,
        longest_build=catch_up.longest_build,
        slices=[after - before for before, after in pairwise(applied) if after > before],
        timeline=[
            (observation.at, in_log, in_model)
            for observation, in_log, in_model in zip(
                catch_up.observations, stored, applied, strict=True
            )
        ],
    )


def _insert_marker(source: Cluster) -> int:
    """Insert a row and return a position just before its commit record, in bytes of WAL."""
    ((position,),) = _query(source, _MARKER)
    return position


def _query(cluster: Cluster, query: str) -> list[tuple[int, ...]]:
    with transaction(cluster.dsn()) as cursor:
        cursor.execute(query)
        return cursor.fetchall()


def main() -> None:
    """Measure, and publish the table and the figure."""
    parser = report.parser(__doc__)
    parser.add_argument(
        "--rows", type=int, default=1_000_000, help="changes that wait (%(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    options = parser.parse_args()
    idle, measured = measure(options.rows, options.rounds)
    report.publish(
        "catch_up",
        table(options.rows, idle, measured),
        goals=GOALS,
        sizes=vars(options),
        idle_bytes=idle,
        slices=[one.slices for one in measured],
    )
    draw(options.rows, measured)


if __name__ == "__main__":
    main()
