"""How much WAL a slot holds back while only other tables and databases are written to.

python -m benchmarks.idle --seconds 120

Two slots for the same tables on one server: `loader run` follows one, nobody the other. Writers
touch an unrelated table and another database. Drawn into docs/figures/idle-wal.svg.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from threading import Event, Thread

import matplotlib
import psycopg2

from demo import source
from demo.cluster import Cluster

matplotlib.use("svg")
from matplotlib import pyplot as plt  # after the backend is chosen

ROOT = Path(__file__).parent.parent.parent
FIGURE = ROOT / "docs" / "figures" / "idle-wal.svg"
SLOT = "notify_dashboard_replication_slot"
UNFOLLOWED = "unfollowed"

_HELD = """
select slot_name, pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint,
    pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::bigint
from pg_replication_slots
"""


def churn(dsn: str, table: str, stop: Event) -> None:
    """Write to a table that no slot wants until told to stop, about 1 MB a second."""
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(f"create table if not exists {table} (id bigserial, note text)")
        connection.commit()
        while not stop.wait(0.1):
            cursor.execute(
                f"insert into {table} (note) select repeat('x', 900) from generate_series(1, 50)"
            )
            connection.commit()


def measure(seconds: int) -> dict[str, object]:
    """Return, for each slot, the WAL held and the WAL unconfirmed over time, in bytes."""
    samples: list[dict[str, float]] = []
    with Cluster({"fsync": "off"}) as cluster:
        dsn = cluster.dsn()
        source.create(dsn)
        source.set_identity(dsn, "full")
        with closing(psycopg2.connect(dsn)) as connection:
            connection.autocommit = True
            cursor = connection.cursor()
            cursor.execute("create database another")
            environment = {**os.environ, **cluster.environment()}
            loader = Path(sys.executable).parent / "loader"
            subprocess.run([loader, "setup"], env=environment, cwd=ROOT, check=True)
            cursor.execute(
                "select pg_create_logical_replication_slot(%s, 'wal2json')", (UNFOLLOWED,)
            )
            stop = Event()
            writers = [
                Thread(target=churn, args=(cluster.dsn(database), "noise", stop))
                for database in ("postgres", "another")
            ]
            follower = subprocess.Popen(
                [loader, "run"], env=environment, cwd=ROOT, stderr=subprocess.PIPE
            )
            for writer in writers:
                writer.start()
            began = time.monotonic()
            while time.monotonic() - began < seconds:
                cursor.execute(_HELD)
                at = time.monotonic() - began
                for name, held, unconfirmed in cursor.fetchall():
                    samples.append(
                        {
                            "at": round(at, 1),
                            "followed": name == SLOT,
                            "held": held,
                            "unconfirmed": unconfirmed,
                        }
                    )
                time.sleep(0.5)
            stop.set()
            for writer in writers:
                writer.join()
            cursor.execute(
                "select n_tup_upd from pg_stat_user_tables where relname = 'slot_position'"
            )
            ((moves,),) = cursor.fetchall()
            cursor.execute("select count(*) from cdc.change_log")
            ((stored,),) = cursor.fetchall()
            follower.send_signal(signal.SIGTERM)
            follower.communicate()
    return {"seconds": seconds, "moves": moves, "changes_stored": stored, "samples": samples}


def draw(result: dict[str, object]) -> None:
    """Draw the WAL held over time, with and without a loader."""
    samples = result["samples"]
    assert isinstance(samples, list)
    figure, axes = plt.subplots(figsize=(7, 3.5))
    for followed, label in ((False, "slot that nobody follows"), (True, "slot of loader run")):
        rows = [row for row in samples if row["followed"] is followed]
        axes.plot([row["at"] for row in rows], [row["held"] / 1e6 for row in rows], label=label)
    axes.set_xlabel("seconds of writes to other tables and another database")
    axes.set_ylabel("WAL held back, MB")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.tight_layout()
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE, metadata={"Date": None})


def main() -> None:
    """Measure, draw, and print the ends of both lines as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=120)
    result = measure(parser.parse_args().seconds)
    draw(result)
    samples = result.pop("samples")
    assert isinstance(samples, list)
    for followed in (True, False):
        rows = [row for row in samples if row["followed"] is followed]
        name = "followed" if followed else "unfollowed"
        result[name] = {"most_held": max(row["held"] for row in rows), "last": rows[-1]}
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
