"""What a partitioned table costs the loader beside a plain one with the same rows.

python -m benchmarks.partitions --rows 200000 --transactions 500 --rounds 3

The loader looks at the source's catalog once for each batch, and puts the table's name into each
change. Prints the time of a look by the number of partitions, and the CPU of `loader run --once`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from contextlib import closing
from pathlib import Path

import psycopg2

from benchmarks.measure import Cost, run, say
from benchmarks.workload import LOADER
from demo.cluster import Cluster
from loader.preflight.leaf_catalog import LeafCatalog
from tests.support.facts import declare, manifest_of
from waltally.tables import Table

_LOOKS = 50
_LEAVES = (10, 100, 1000)
_ROWS = "insert into t select n, n % 100, repeat('x', 500) from generate_series(1, {}) as n"


def make(cluster: Cluster, name: str, table: str, leaves: int) -> None:
    """Make the database with a table t of so many partitions; 0: a plain table."""
    with closing(psycopg2.connect(cluster.dsn())) as admin:
        admin.autocommit = True
        admin.cursor().execute(f"create database {name}")
    with closing(psycopg2.connect(cluster.dsn(name))) as connection:
        cursor = connection.cursor()
        by = " partition by list (d)" if leaves else ""
        cursor.execute(f"create table {table} (id int, d int, note text){by}")
        for number in range(leaves):
            cursor.execute(
                f"create table {table}_{number} partition of {table} for values in ({number});"
                f"alter table {table}_{number} replica identity full"
            )
        if not leaves:
            cursor.execute(f"alter table {table} replica identity full")
        connection.commit()


def looks(cluster: Cluster, leaves: int) -> float:
    """Return the median milliseconds of a look at a table of so many partitions."""
    name = f"looks_{leaves}"
    make(cluster, name, "t", leaves)
    with closing(psycopg2.connect(cluster.dsn(name))) as connection:
        connection.autocommit = True
        connection.cursor().execute("analyze")
        catalog = LeafCatalog(connection, [Table("public", "t")], {})
        found = []
        for _ in range(_LOOKS):
            began = time.perf_counter()
            catalog.look_again()
            found.append(1000 * (time.perf_counter() - began))
    return statistics.median(found)


def follow(cluster: Cluster, name: str, leaves: int, rows: int, transactions: int) -> Cost:
    """Return what `loader run --once` takes for these rows, in one and in many transactions."""
    make(cluster, name, "t", leaves)
    settings = {
        **os.environ,
        **cluster.environment(name),
        "LOADER_SLOT": f"slot_{name}",
        "LOADER_MANIFEST": str(manifest_of({"ft": declare("public.t", ("d", "integer"))})),
    }
    run([LOADER, "setup"], settings, {})
    with closing(psycopg2.connect(cluster.dsn(name))) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute(_ROWS.format(rows))
        for _ in range(transactions):
            cursor.execute(_ROWS.format(5))
    return run([LOADER, "run", "--once"], settings, {"server": cluster})


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--transactions", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    with Cluster({"fsync": "off", "max_wal_size": "4GB", "max_locks_per_transaction": "2000"}) as c:
        assert Path(LOADER).exists()
        for leaves in _LEAVES:
            print(f"a look at {leaves} partitions: {looks(c, leaves):.2f} ms")
        ratios: dict[str, list[float]] = {"loader": [], "server": []}
        for number in range(chosen.rounds):
            costs = [
                follow(c, f"{kind}_{number}", leaves, chosen.rows, chosen.transactions)
                for kind, leaves in (("plain", 0), ("leaves", 100))
            ]
            plain, parts = costs
            say(f"loader {plain.program:.2f} s and {parts.program:.2f} s")
            ratios["loader"].append(parts.program / plain.program)
            ratios["server"].append(parts.servers["server"] / plain.servers["server"])
        for name, found in ratios.items():
            print(f"CPU of the {name}, 100 partitions / plain: {statistics.median(found):.2f}")


if __name__ == "__main__":
    main()
