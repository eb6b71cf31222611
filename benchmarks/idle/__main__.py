"""How much WAL a slot holds back while only other tables and databases are written to.

python -m benchmarks.idle --seconds 120

Two slots for the same tables on one server: `loader run` follows one, nobody follows the other.
Writers write to an unrelated table and to another database, about 1 MB of WAL per second. Drawn
into docs/figures/idle-wal.svg.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import time
from contextlib import ExitStack, closing
from threading import Event, Thread
from typing import NamedTuple

import psycopg2

from benchmarks import decoding, report, workload
from benchmarks.measure import ROOT, say
from demo.cluster import Cluster
from demo.source import transaction

FOLLOWED, UNFOLLOWED = "followed", "unfollowed"

_HELD = """
select
    slot_name,
    pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint,
    pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::bigint
from pg_replication_slots
"""
_MOVES_AND_CHANGES = """
select
    (select n_tup_upd from pg_stat_user_tables where relname = 'slot_position'),
    (select count(*) from cdc.change_log)
"""


class Sample(NamedTuple):
    """One slot at one moment."""

    at: float
    """Seconds since the writers were started."""
    slot: str
    held: int
    """Bytes of WAL that the server keeps for the slot."""
    unconfirmed: int
    """Bytes of WAL since the position that the slot has confirmed."""


def write_noise(dsn: str, stop: Event) -> None:
    """Write to a table that no slot wants until told to stop."""
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute("create table noise (id bigserial, note text)")
        connection.commit()
        while not stop.wait(0.1):
            cursor.execute(
                "insert into noise (note) select repeat('x', 900) from generate_series(1, 50)"
            )
            connection.commit()


def measure(seconds: int) -> list[Sample]:
    """Return both slots over time."""
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster({"fsync": "off"}))
        workload.create(cluster)
        workload.set_up(cluster, cluster, FOLLOWED)
        decoding.make_slot(cluster, UNFOLLOWED)
        connection = stack.enter_context(closing(psycopg2.connect(cluster.dsn())))
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute("create database another")
        loader = subprocess.Popen(
            [workload.LOADER, "run"],
            env=workload.environment(cluster, cluster, FOLLOWED),
            cwd=ROOT,
            stderr=subprocess.DEVNULL,
        )
        stack.callback(loader.wait)
        stack.callback(loader.send_signal, signal.SIGTERM)
        stop = Event()
        for database in ("postgres", "another"):
            writer = Thread(target=write_noise, args=(cluster.dsn(database), stop))
            writer.start()
            stack.callback(writer.join)
        stack.callback(stop.set)
        samples: list[Sample] = []
        began = time.monotonic()
        while (at := time.monotonic() - began) < seconds:
            cursor.execute(_HELD)
            samples += [Sample(at, *found) for found in cursor.fetchall()]
            time.sleep(0.5)
        with transaction(cluster.dsn()) as cursor:
            cursor.execute(_MOVES_AND_CHANGES)
            ((moves, changes),) = cursor.fetchall()
        say(f"the loader moved its position {moves} times and stored {changes} changes")
        return samples


def table(samples: list[Sample]) -> list[report.Row]:
    """Return a row per slot, in MB."""
    rows: list[report.Row] = []
    for slot in (FOLLOWED, UNFOLLOWED):
        taken = [sample for sample in samples if sample.slot == slot]
        rows.append(
            {
                "slot": slot,
                "most held, MB": max(sample.held for sample in taken) / 1e6,
                "held at the end, MB": taken[-1].held / 1e6,
                "unconfirmed at the end, MB": taken[-1].unconfirmed / 1e6,
            }
        )
    return rows


def draw(samples: list[Sample]) -> None:
    """Draw the WAL held back over time."""
    with report.figure("idle-wal") as axes:
        for slot, label in ((UNFOLLOWED, "slot that nobody follows"), (FOLLOWED, "loader run")):
            taken = [sample for sample in samples if sample.slot == slot]
            axes.plot(
                [sample.at for sample in taken],
                [sample.held / 1e6 for sample in taken],
                label=label,
            )
        axes.set_xlabel("seconds of writes to other tables and another database")
        axes.set_ylabel("WAL held back, MB")
        axes.legend()


def main() -> None:
    """Measure, print the table and draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=int, default=120, help="default: %(default)s")
    samples = measure(parser.parse_args().seconds)
    report.show("idle", table(samples))
    draw(samples)


if __name__ == "__main__":
    main()
