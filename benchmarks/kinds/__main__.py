"""What each kind of column, total and model over models costs: CPU of an apply, per change.

python -m benchmarks.kinds --rows 3000 --rounds 4
python -m benchmarks.kinds --parts distinct parents --values 10 1000 --groups 1000 100000

Each kind has a database of its own on one server, with a slot and one model: a count by one text
column, and the kind beside it. A round stages the same transaction in each of them, a third
inserts, a third updates that move a row to another group and a third deletes, and applies it by one
`cdc.apply` in a session that has done so before, as the loader's has. CPU is that of this session,
by the kernel's own clock. Rounds are outside, kinds inside; ratios are to the plain count of the
same round. Models over models likewise, beside the model that they read.

*distinct* are numbers of distinct values in one group with 10 to 1,000,000 of them. A round inserts
values that are new and deletes as many that were there; a group with few values has several rows of
each.

*parents*: a row that a model joins gets another name, and so many groups of the model lie under
it. One session keeps the models that follow fresh, another helps those behind, as the loader's two
do, while rows of this model and of another one are inserted. The times are by the clock.

Checked after each apply: every model equals its query.
"""

from __future__ import annotations

import copy
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import median
from typing import Any

import psycopg2

from benchmarks import report, workload
from benchmarks.kinds.declared import (
    CHANGES,
    NEW_VALUES,
    OLD_VALUES,
    PARENTS,
    TABLES,
    VALUES,
    Subject,
    list_distinct,
    list_kinds,
    list_parents,
    list_roll_ups,
)
from benchmarks.measure import run, say
from demo.run import create_database
from testkit.servers import Cluster

WARMING = 2
"""Rounds before one has updates and deletes too. Sessions have planned by then."""
FILLED = 100_000
"""Rows of a transaction that fills a table."""
SERVER = {
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "max_wal_senders": "50",
    "max_replication_slots": "50",
}


class Side:
    """A database with a slot, the models of subjects, and the session that applies."""

    def __init__(self, cluster: Cluster, project: Path, name: str, tables: str) -> None:
        self.name = name
        create_database(cluster, name)
        self.session = psycopg2.connect(cluster.dsn(name))
        self.session.autocommit = True
        self.execute(tables)
        self._settings = workload.environment(cluster, cluster, name, project, name) | {
            "BENCHMARK_MODELS": name,
            "DBT_TARGET_PATH": str(project / "target" / name),
        }
        workload.install(self._settings)

    def execute(self, statement: str, **values: int) -> list[tuple[Any, ...]]:
        """Execute a statement, or several in one transaction; return the rows of the last."""
        with self.session.cursor() as cursor:
            cursor.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    def stage(self) -> None:
        """Have everything committed so far in the change log."""
        run([workload.LOADER, "run", "--once"], self._settings, {})

    def apply(self, subject: Subject) -> float:
        """Return the CPU seconds of an apply. Raises RuntimeError where the result is wrong."""
        seconds = workload.apply_seconds(self.session, self.name)
        self.check(subject)
        return seconds

    def apply_all(self, part: str = "all") -> float:
        """Apply until nothing is behind; return the seconds that it took."""
        begun, is_behind = time.monotonic(), True
        while is_behind:
            [(is_behind,)] = self.execute(
                f"select coalesce(bool_or(done.is_behind), false) from cdc.apply('{self.name}',"
                f" part => '{part}') as done"
            )
        return time.monotonic() - begun

    def fill_values(self, size: int, rows: int) -> None:
        """Insert the first rows of a table of values."""
        for first in range(0, rows, FILLED):
            last = min(first + FILLED, rows) - 1
            self.execute(NEW_VALUES.format(size=size), first=first, last=last)

    def check(self, subject: Subject) -> None:
        """Raise RuntimeError where the models are not what a recount gives."""
        for name in subject.models:
            asked = subject.asked(name)
            with self.session.cursor() as cursor:
                cursor.execute("set timezone = 'Europe/Berlin'")
                cursor.execute(f"select * from ({asked}) as asked limit 0")
                columns = ", ".join(column.name for column in cursor.description or ())
            stored = f"select {columns} from analytics.{name}"
            wrong = self.execute(
                f"(({stored}) except all ({asked})) union all (({asked}) except all ({stored}))"
            )
            if wrong:
                raise RuntimeError(f"{subject.name}: {len(wrong)} rows differ, as {wrong[0]}")


def measure(rows: int, rounds: int, subjects: Sequence[Subject]) -> dict[str, list[float]]:
    """Return CPU microseconds per change by name, one of each round."""
    third = max(rows // 3, 1)
    samples: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(SERVER))
        project = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        names = {f"kinds_{place}": subject for place, subject in enumerate(subjects)}
        workload.declare(
            project,
            {
                f"{name}/{model}.sql": text
                for name, subject in names.items()
                for model, text in subject.texts.items()
            },
        )
        both_cores = stack.enter_context(ThreadPoolExecutor(2))
        sides = [*both_cores.map(lambda name: Side(cluster, project, name, TABLES), names)]
        for side in sides:
            stack.enter_context(closing(side.session))
        say(f"{len(sides)} databases: set up")
        for number in range(WARMING + rounds):
            for side in sides:
                side.execute(CHANGES, round=number, third=third)
            [*both_cores.map(Side.stage, sides)]
            for side in sides:
                spent = side.apply(names[side.name])
                if number >= WARMING:
                    samples[names[side.name].name].append(spent / (3 * third) * 1e6)
            say(f"round {number + 1} of {WARMING + rounds}")
    return samples


def compare(samples: Mapping[str, Sequence[float]], what: str, beside: str) -> list[report.Row]:
    """Return a row for each name; ratios are to the first of them, in the same round."""
    first = next(iter(samples.values()))
    return [
        {
            what: name,
            "per change, µs": median(taken),
            beside: report.spread([one / plain for one, plain in zip(taken, first, strict=True)]),
        }
        for name, taken in samples.items()
    ]


def measure_distinct(rows: int, rounds: int, sizes: Sequence[int]) -> list[report.Row]:
    """Return a row of the table for each number of values in the group."""
    half = max(rows // 2, 1)
    each = {size: max(2 * half // size, 1) for size in sizes}
    samples: dict[int, list[float]] = {size: [] for size in sizes}
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(SERVER))
        project = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        subjects = list_distinct(sizes)
        models = {name: text for subject in subjects for name, text in subject.texts.items()}
        workload.declare(project, {f"kinds/{name}.sql": text for name, text in models.items()})
        tables = "".join(VALUES.format(size=size, each=each[size]) for size in sizes)
        side = Side(cluster, project, "kinds", tables)
        stack.enter_context(closing(side.session))
        for size in sizes:
            side.fill_values(size, size * each[size])
        side.stage()
        side.apply_all()
        side.execute("vacuum analyze")
        say(f"groups of {', '.join(map(str, sizes))} values: filled")
        for number in range(WARMING + rounds):
            for size, subject in zip(sizes, subjects, strict=True):
                first = number * half
                last = size * each[size] + first
                side.execute(
                    NEW_VALUES.format(size=size) + OLD_VALUES.format(size=size),
                    first=last,
                    last=last + half - 1,
                    kept=first + half,
                )
                side.stage()
                spent = side.apply(subject)
                if number >= WARMING:
                    samples[size].append(spent / (2 * half) * 1e6)
            say(f"round {number + 1} of {WARMING + rounds}")
    return [
        {
            "values in the group": size,
            "of them replaced": half // each[size],
            "per change, µs": median(samples[size]),
        }
        for size in sizes
    ]


def measure_parents(sizes: Sequence[int]) -> list[report.Row]:
    """Return a row of the table for each number of groups under the parent."""
    rows: list[report.Row] = []
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(SERVER))
        project = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        subjects = list_parents(sizes)
        models = {name: text for subject in subjects for name, text in subject.texts.items()}
        workload.declare(project, {f"kinds/{name}.sql": text for name, text in models.items()})
        # The values of size 0 are those of the other model.
        tables = "".join(VALUES.format(size=size, each=1) for size in (0, *sizes))
        side = Side(cluster, project, "kinds", tables + "".join(map(PARENTS.format, sizes)))
        stack.enter_context(closing(side.session))
        for size in sizes:
            side.fill_values(size, size)
        side.stage()
        side.apply_all()
        side.execute("vacuum analyze")
        say(f"parents of {', '.join(map(str, sizes))} groups: filled")
        helper = copy.copy(side)
        helper.session = stack.enter_context(closing(psycopg2.connect(cluster.dsn("kinds"))))
        helper.session.autocommit = True
        pool = stack.enter_context(ThreadPoolExecutor(1))
        number = 0
        for size, subject in zip(sizes, subjects, strict=True):
            side.execute(f"update places_{size} set name = 'another'")
            side.stage()
            moved = side.apply_all("front")
            longest = 0.0
            filling = pool.submit(helper.apply_all, "behind")
            while not filling.done():
                for table, row in ((0, number), (size, size + number)):
                    side.execute(NEW_VALUES.format(size=table), first=row, last=row)
                number += 1
                side.stage()
                longest = max(longest, side.apply_all("front"))
            side.apply_all()
            side.check(subject)
            say(f"{size} groups moved")
            rows.append(
                {
                    "groups under the parent": size,
                    "its apply, ms": moved * 1000,
                    "until filled, s": filling.result(),
                    "longest apply of others meanwhile, ms": longest * 1000,
                }
            )
    return rows


def main() -> None:
    """Measure, and publish a table for each part."""
    parser = report.parser(__doc__)
    parser.add_argument("--rows", type=int, default=3_000, help="a batch (%(default)s)")
    parser.add_argument("--rounds", type=int, default=4, help="default: %(default)s")
    parser.add_argument(
        "--values",
        type=int,
        nargs="+",
        default=[10, 1_000, 100_000, 1_000_000],
        help="distinct ones in a group",
    )
    parser.add_argument(
        "--groups",
        type=int,
        nargs="+",
        default=[1_000, 100_000, 1_000_000],
        help="of a model under a parent",
    )
    parts = ["kinds", "roll_ups", "distinct", "parents"]
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts, help="default: all")
    options = parser.parse_args()
    rows, rounds = options.rows, options.rounds
    sizes = vars(options)
    if "kinds" in options.parts:
        taken = compare(
            measure(rows, rounds, list_kinds()), "beside a count", "times a plain count"
        )
        report.publish("kinds", taken, sizes=sizes)
    if "roll_ups" in options.parts:
        taken = compare(measure(rows, rounds, list_roll_ups()), "above it", "times the model")
        report.publish("kinds_roll_ups", taken, sizes=sizes)
    if "distinct" in options.parts:
        taken = measure_distinct(rows, rounds, options.values)
        report.publish("kinds_distinct", taken, sizes=sizes)
    if "parents" in options.parts:
        report.publish("kinds_parents", measure_parents(options.groups), sizes=sizes)


if __name__ == "__main__":
    main()
