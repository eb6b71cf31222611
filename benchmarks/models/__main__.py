"""Many models on one log: the CPU of an apply per change, and of one with a single change.

python -m benchmarks.models --rows 2000 --rounds 5

1, 10 and 50 models of the same two tables follow one slot, each declared as Notify's is. A round
stages a transaction of so many inserts into 150 groups, then one of a single insert, and applies
each by one `cdc.apply` in a session that has done so before, as the loader's has. CPU is that of
this session, by the kernel's own clock: medians of the rounds. Checked: after each apply all models
hold everything.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from statistics import median

import psycopg2
from psycopg2.extensions import connection as Connection

from benchmarks import report, workload
from benchmarks.measure import run, say
from testkit.servers import Cluster

MODELS = (1, 10, 50)
SLOT = "models"
SERVER = {"shared_buffers": "256MB", "max_wal_size": "4GB"}

MODEL = """\
{{ config(materialized='waltally', ignore_deletes=['public.notification_history']) }}

with notifications as (
    select service_id, template_id, notification_type, notification_status, true as is_live
    from {{ source('app', 'notifications') }}
    union all
    select service_id, template_id, notification_type, notification_status, false
    from {{ source('app', 'notification_history') }}
)

select
    service_id,
    template_id,
    notification_type,
    notification_status,
    count(*) filter (where is_live) as live_count,
    count(*) filter (where not is_live) as archived_count
from notifications
group by 1, 2, 3, 4
"""


def measure(rows: int, rounds: int) -> Iterator[report.Row]:
    """Yield a row of the table for each number of models."""
    for models in MODELS:
        with tempfile.TemporaryDirectory() as project, Cluster(SERVER) as cluster:
            files = {f"models/ft_{number}.sql": MODEL for number in range(models)}
            workload.declare(Path(project), files)
            workload.create(cluster)
            workload.set_up(cluster, cluster, SLOT, Path(project))
            with closing(psycopg2.connect(cluster.dsn())) as session:
                session.autocommit = True
                for warming in (rows, 1):
                    cpu_seconds(cluster, session, warming)
                many, one = (
                    median(cpu_seconds(cluster, session, size) for _ in range(rounds))
                    for size in (rows, 1)
                )
        say(f"{models} models: done")
        yield {
            "models": models,
            "per change, µs": many / rows * 1e6,
            "per change and model, µs": many / rows / models * 1e6,
            "a single change, ms": one * 1e3,
        }


def cpu_seconds(cluster: Cluster, session: Connection, rows: int) -> float:
    """Return the CPU seconds of an apply of so many inserts. Raises RuntimeError."""
    workload.insert(cluster, rows, max(rows, 2))
    run([workload.LOADER, "run", "--once"], workload.environment(cluster, cluster, SLOT), {})
    return workload.apply_seconds(session, SLOT)


def main() -> None:
    """Measure, and publish the table."""
    parser = report.parser(__doc__)
    parser.add_argument("--rows", type=int, default=2_000, help="a batch (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="default: %(default)s")
    options = parser.parse_args()
    report.publish("models", [*measure(**vars(options))], sizes=vars(options))


if __name__ == "__main__":
    main()
