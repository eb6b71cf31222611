"""What counting the history costs: the seed beside psql, a plain COPY and Spark over JDBC.

python -m benchmarks.seed --rows 1000000 --rounds 3

Two tables of --rows rows in all, spread evenly over --few and then over --many groups. Counted by
`spark-submit spark/seed.py` from the database and from Parquet, and by the contenders, one after
the other in each round. The primary's CPU is set against that of a plain COPY of the same columns
in the same round; the counts go to another server, so that the primary only reads. Every stored
count is compared with the server's own. Two more stages: memory as the rows grow, and two cores
against one, as threads of one JVM and as workers of a standalone cluster. There the Parquet runs
leave both cores to Spark, and the database runs share them with the server.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import psycopg2
import pyarrow.parquet
from adbc_driver_postgresql import dbapi

from benchmarks import report, workload
from benchmarks.measure import say
from benchmarks.seed.contenders import JAR, SLOT, Field, Outcome, standalone
from demo import source
from demo.cluster import Cluster
from waltally.tables import DIMENSIONS

CPU_GOAL = 1.1
GOALS = {"primary's CPU, x COPY": CPU_GOAL, "memory": "flat as rows grow", "two workers": 1.6}
STATUSES = ("created", "sending", "delivered", "temporary-failure", "permanent-failure")
LIVE_SHARE = 10
"""One row in so many is live, the rest is history."""

_QUIET = {"autovacuum": "off", "max_wal_size": "'64GB'", "checkpoint_timeout": "'1h'"}

# 1000003 is a prime, so that neighbours in the table belong to different groups.
_INSERT = """
insert into {table} (
    id, {more_columns} service_id, template_id, notification_type, notification_status,
    created_at, reference
)
select
    lpad(to_hex(n), 32, '0')::uuid, {more_values} t.service_id, t.id, t.template_type,
    (%(statuses)s)[1 + g / %(templates)s],
    timestamp '2026-01-01' + n * interval '1 second', 'reference ' || n
from generate_series(%(first)s::bigint, %(last)s) as n
cross join lateral (select n * 1000003 %% %(groups)s as g) as spread
inner join (
    select row_number() over (order by id) - 1 as place, * from templates
) as t on t.place = g %% %(templates)s
"""

_CHECKSUM = """
select count(*), sum(row_count), sum(hashtextextended(concat_ws('|',
    source_table, service_id, template_id, notification_type, notification_status,
    row_count), 0)::numeric)
from {counts}
"""

Counted = tuple[object, ...]
"""Groups, rows, and a sum of hashes of every group with its count."""


def create(primary: Cluster, warehouse: Cluster, groups: int) -> None:
    """Make empty tables, what they refer to, and the staging schema of the slot."""
    templates = max(groups // len(STATUSES), 1)
    source.create(primary.dsn())
    source.fill(primary.dsn(), services=min(1000, templates), templates=templates)
    source.set_identity(primary.dsn(), "full")
    workload.set_up(primary, warehouse, SLOT)
    with source.transaction(primary.dsn()) as cursor:
        # The seed needs the slot's row only; the slot would hold the whole fill's WAL.
        cursor.execute("select pg_drop_replication_slot(%s)", (SLOT,))


def fill(primary: Cluster, first: int, last: int, groups: int) -> None:
    """Add rows `first` to `last` to the tables, then vacuum and checkpoint."""
    templates = max(groups // len(STATUSES), 1)
    values = {
        "groups": templates * len(STATUSES),
        "templates": templates,
        "statuses": list(STATUSES),
    }
    parts: list[tuple[str, Mapping[str, object]]] = []
    for table, columns, texts, live in (
        ("notifications", '"to",', "'someone@example.com',", True),
        ("notification_history", "", "", False),
    ):
        begin, end = (n // LIVE_SHARE if live else n - n // LIVE_SHARE for n in (first - 1, last))
        middle = (begin + end) // 2
        statement = _INSERT.format(table=table, more_columns=columns, more_values=texts)
        for after, upto in ((begin, middle), (middle, end)):
            parts.append((statement, {**values, "first": after + 1, "last": upto}))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(partial(_insert, primary), *zip(*parts, strict=True)))
    with closing(psycopg2.connect(primary.dsn())) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            for statement in (
                *(f"vacuum (analyze) {name}" for name in source.TABLES),
                "checkpoint",
            ):
                cursor.execute(statement)


def _insert(primary: Cluster, statement: str, values: Mapping[str, object]) -> None:
    with source.transaction(primary.dsn()) as cursor:
        cursor.execute("set session_replication_role to replica")
        cursor.execute("set synchronous_commit to off")
        cursor.execute(statement, values)


def export(primary: Cluster, folder: Path, copies: int) -> Path:
    """Write both tables' dimensions as Parquet; further copies are links to the same files."""
    columns = ", ".join(f"{name}::text as {name}" for name in DIMENSIONS)
    with dbapi.connect(primary.dsn()) as connection, connection.cursor() as cursor:
        for table in source.TABLES:
            (folder / table).mkdir(parents=True)
            cursor.execute(f"select {columns} from {table}")
            rows = cursor.fetch_record_batch()
            with pyarrow.parquet.ParquetWriter(folder / table / "0.parquet", rows.schema) as out:
                for batch in rows:
                    out.write_batch(batch)
            for number in range(1, copies):
                os.link(folder / table / "0.parquet", folder / table / f"{number}.parquet")
    return folder


def truth(primary: Cluster, copies: int = 1) -> Counted:
    """Return what the primary itself counts, each row `copies` times."""
    columns = ", ".join(DIMENSIONS)
    counts = " union all ".join(
        f"select 'public.{table}' as source_table, {columns}, {copies} * count(*) as row_count"
        f" from {table} group by {columns}"
        for table in source.TABLES
    )
    return _checksum(primary, f"({counts}) as counted")


def _checksum(cluster: Cluster, counts: str) -> Counted:
    with source.transaction(cluster.dsn()) as cursor:
        cursor.execute(_CHECKSUM.format(counts=counts))
        (found,) = cursor.fetchall()
    return found


def rounds(
    number: int,
    ways: Mapping[str, Callable[[], Outcome]],
    warehouse: Cluster,
    expected: Mapping[str, Counted] | Counted,
) -> dict[str, list[Outcome]]:
    """Run every way in every round. Raises RuntimeError where a stored count is wrong."""
    outcomes: dict[str, list[Outcome]] = {name: [] for name in ways}
    for turn in range(number):
        for name, way in ways.items():
            outcome = way()
            say(f"  round {turn + 1}: {name}: {outcome.seconds:.1f} s")
            right = expected[name] if isinstance(expected, Mapping) else expected
            if outcome.stored and (found := _checksum(warehouse, outcome.stored)) != right:
                raise RuntimeError(f"{name} counted {found[:2]}, the server {right[:2]}")
            outcomes[name].append(outcome)
    return outcomes


def middle(values: Sequence[float | None]) -> float | None:
    """Return the median of what was measured, None where nothing was."""
    measured = [value for value in values if value is not None]
    return round(median(measured), 2) if measured else None


def compare(outcomes: Mapping[str, list[Outcome]], counted: Counted) -> list[report.Row]:
    """Return a row for each contender; the first is the floor that the CPU is set against."""
    floor = next(iter(outcomes.values()))
    groups, rows = (int(str(number)) for number in counted[:2])
    table: list[report.Row] = []
    for name, found in outcomes.items():
        ratios = [one.primary / each.primary for one, each in zip(found, floor, strict=True)]
        seconds = median(one.seconds for one in found)
        table.append(
            {
                "counted by": name,
                "groups": groups,
                "seconds": round(seconds, 2),
                "rows/s": round(rows / seconds),
                "counting alone, s": middle([one.counting for one in found]),
                "primary's CPU, s": middle([one.primary for one in found]),
                "x COPY": middle(ratios),
                "least": round(min(ratios), 2),
                "most": round(max(ratios), 2),
            }
        )
    return table


def weigh(outcomes: Mapping[str, list[Outcome]], counted: Counted) -> list[report.Row]:
    """Return the median peak memory of each contender that is a Spark job, in MB."""
    return [
        {
            "counted by": name,
            "rows": int(str(counted[1])),
            "groups": int(str(counted[0])),
            **{
                f"{kind}, MB": middle([one.memory.get(kind, 0) / 1e6 for one in found])
                for kind in ("JVM", "Python workers", "driver's Python")
            },
        }
        for name, found in outcomes.items()
        if found[0].memory
    ]


def grow(found: Field, rows: int, groups: int) -> list[report.Row]:
    """Fill the tables further and further, seeding at each size; return the memory by size."""
    table: list[report.Row] = []
    filled = 0
    for size in (rows // 4, rows // 2, rows):
        fill(found.primary, filled + 1, size, groups)
        filled = size
        say(f"{size:,} rows in about {groups:,} groups")
        right = truth(found.primary)
        table += weigh(rounds(1, {"seed, database": found.seed}, found.warehouse, right), right)
    return table


def scale(found: Field, copies: int, number: int) -> list[report.Row]:
    """Return how much faster two cores are than one, by threads and by standalone workers."""
    once, often = truth(found.primary), truth(found.primary, copies)
    kinds = {"Parquet": often, "database": once}
    with standalone(2) as url:
        places: dict[str, list[tuple[str, ...]]] = {
            "threads": [("local[1]",), ("local[2]",)],
            "workers": [
                (url, "--conf", f"spark.cores.max={cores}", "--conf", "spark.executor.cores=1")
                for cores in (1, 2)
            ],
        }
        ways: dict[str, Callable[[], Outcome]] = {}
        for place, pair in places.items():
            for cores, words in enumerate(pair, 1):
                ways[f"Parquet, {cores} {place}"] = partial(found.parquet, found.export, *words)
                if place == "threads":
                    ways[f"database, {cores} {place}"] = partial(found.seed, *words)
        expected = {name: kinds[name.split(",")[0]] for name in ways}
        outcomes = rounds(number, ways, found.warehouse, expected)
    table: list[report.Row] = []
    for kind, right in kinds.items():
        for place in places:
            if f"{kind}, 1 {place}" not in outcomes:
                continue
            one, two = (outcomes[f"{kind}, {cores} {place}"] for cores in (1, 2))
            ratios = [
                a.counting / b.counting
                for a, b in zip(one, two, strict=True)
                if a.counting and b.counting
            ]
            table.append(
                {
                    "read from": kind,
                    "two": place,
                    "rows": int(str(right[1])),
                    "one, s": middle([each.counting for each in one]),
                    "two, s": middle([each.counting for each in two]),
                    "one / two": middle(ratios),
                    "least": round(min(ratios), 2),
                    "most": round(max(ratios), 2),
                    "whole command, one / two": middle(
                        [a.seconds / b.seconds for a, b in zip(one, two, strict=True)]
                    ),
                }
            )
    return table


@contextmanager
def field_of(groups: int) -> Iterator[Field]:
    """Yield two servers, the tables still empty, and a place for the export."""
    with ExitStack() as stack:
        primary = stack.enter_context(Cluster(_QUIET))
        warehouse = stack.enter_context(Cluster(_QUIET))
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="waltally-seed-export-"))
        create(primary, warehouse, groups)
        yield Field(primary, warehouse, Path(folder))


def draw(name: str, table: Sequence[report.Row]) -> None:
    """Draw the primary's CPU of each contender as a multiple of the plain COPY's."""
    with report.figure(name, height=4.0) as axes:
        sizes = sorted({int(str(row["groups"])) for row in table})
        names = list(dict.fromkeys(str(row["counted by"]) for row in table))
        for place, size in enumerate(sizes):
            rows = {str(row["counted by"]): row for row in table if row["groups"] == size}
            axes.barh(
                [n + 0.4 * place for n in range(len(names))],
                [float(str(rows[name]["x COPY"])) for name in names],
                height=0.4,
                label=f"{size:,} groups",
            )
        axes.set_yticks([n + 0.2 for n in range(len(names))], names)
        axes.invert_yaxis()
        axes.axvline(CPU_GOAL, color="black", linestyle="--", linewidth=1)
        axes.set_xlabel("CPU of the primary, plain COPY of the columns = 1 (dashed: the goal)")
        axes.legend()


def main() -> None:
    """Run the stages that were asked for, and publish each as it ends."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    stages = ("contenders", "memory", "workers")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of both tables")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each contender")
    parser.add_argument("--few", type=int, default=10_000, help="groups of the first filling")
    parser.add_argument(
        "--many", type=int, default=1_000_000, help="groups of the second filling, 0 for none"
    )
    parser.add_argument(
        "--copies",
        type=int,
        default=16,
        help="how often the workers' stage reads the Parquet export",
    )
    parser.add_argument("--name", default="seed", help="what the contenders' table is published as")
    parser.add_argument(
        "--ways", nargs="+", help="the contenders by their names, the COPY as text first"
    )
    parser.add_argument("--stages", nargs="+", choices=stages, default=stages, help="what to run")
    options = parser.parse_args()
    sizes = {"sizes": {**vars(options), "stages": list(options.stages)}, "goals": GOALS}
    if not JAR.exists():
        say(f"without Spark over JDBC: {JAR} is missing (apt-get install libpostgresql-jdbc-java)")

    contenders: list[report.Row] = []
    memory: list[report.Row] = []
    fillings = [groups for groups in (options.few, options.many) if groups]
    for groups in fillings if "contenders" in options.stages else ():
        with field_of(groups) as found:
            say(f"{options.rows:,} rows in about {groups:,} groups")
            fill(found.primary, 1, options.rows, groups)
            ways = found.contenders(jdbc=JAR.exists())
            ways = {name: ways[name] for name in options.ways or ways}
            if "seed, Parquet" in ways:
                export(found.primary, found.export, 1)
            right = truth(found.primary)
            outcomes = rounds(options.rounds, ways, found.warehouse, right)
            contenders += compare(outcomes, right)
            memory += weigh(outcomes, right)
    if contenders:
        report.publish(options.name, contenders, **sizes)
        report.publish(f"{options.name}-memory", memory, **sizes)
        draw(options.name, contenders)
    if {"memory", "workers"} & set(options.stages):
        with field_of(options.few) as found:
            if "memory" in options.stages:
                table = grow(found, options.rows, options.few)
                report.publish("seed-growth", table, **sizes)
            else:
                fill(found.primary, 1, options.rows, options.few)
            if "workers" in options.stages:
                export(found.primary, found.export, options.copies)
                report.publish(
                    "seed-workers", scale(found, options.copies, options.rounds), **sizes
                )


if __name__ == "__main__":
    main()
