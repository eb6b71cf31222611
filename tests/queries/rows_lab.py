"""Tables, their change log and rows models over them, in one database and without a slot."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import psycopg2

from testkit.comparison import apart
from tests.queries.lab import SourceTables


class RowsLab(SourceTables):
    """The database: tables of schema lab, whose changes are in the log."""

    def __init__(self, dsn: str, tables: str) -> None:
        super().__init__(dsn, (Path(__file__).parent / "rows_lab.sql").read_text(), tables)

    def follow(
        self,
        table: str,
        has_old_rows: bool,
        leaves_out: bool = False,
        identity: tuple[str, ...] = (),
    ) -> None:
        """Write down a table's changes, with whole old rows, their keys alone or other columns."""
        source = self.read_shape(table)
        source["has_old_rows"] = has_old_rows
        names = [column["name"] for column in source["columns"]]
        own = names if has_old_rows else source["key"]
        self.execute("select lab.follow(%s, %s, %s)", table, list(identity) or own, leaves_out)

    def transact(self, *statements: str) -> None:
        """Run statements in one transaction; one that a constraint refuses takes no part in it."""
        with self.connection.cursor() as cursor:
            cursor.execute("begin")
            for statement in statements:
                cursor.execute("savepoint one")
                try:
                    cursor.execute(statement)
                except (psycopg2.IntegrityError, psycopg2.errors.CardinalityViolation):
                    cursor.execute("rollback to one")
            cursor.execute("commit")


class RowsModel:
    """A model of tables of the lab, rows or a fact: its table, its reader and its routine.

    A fact has no baseline here: it begins while its tables are empty.
    """

    def __init__(
        self, lab: RowsLab, name: str, query: str, rng: Random, expected: str = "", **options: Any
    ) -> None:
        self.lab, self.name, self.rng = lab, name, rng
        self.expected = expected or query
        self.has_parts = True
        self.timezone = options.get("timezone", "UTC")
        self.compiled = lab.compile(query, **options)
        is_rows = self.compiled["kind"] == "rows"
        sources = self.compiled["sources"]
        self.tables = [source["table"].removeprefix("lab.") for source in sources]
        self.table = self.tables[0]
        gives = []
        places = []
        for source, table in zip(sources, self.tables, strict=True):
            needed = [c["name"] for c in source["columns"] if c["is_needed"]]
            given = [c["name"] for c in lab.sources[table]["columns"]]
            given = [n for n in given if n in needed or rng.random() < 0.2]
            rng.shuffle(given)
            places.append([given.index(n) + 1 for n in needed])
            alone: bool | str = source["keeps_deleted"]
            if is_rows and not self.compiled["has_old_rows"]:
                alone = "each"
            gives.append([f"lab.{table}", given, alone, "lab", table])
        width = max(map(len, places))
        self.places = [[*row, *[None] * (width - len(row))] for row in places] if width else None
        spelled = json.dumps(self.compiled)
        made = (
            ("write_table", (spelled, f"lab.{name}", f"pk_{name}")),
            ("write_row_deltas" if is_rows else "write_deltas", (spelled, f"lab.{name}_deltas")),
            (
                "write_rows" if is_rows else "write_fact",
                (
                    spelled,
                    f"lab.{name}_apply",
                    f"lab.{name}_deltas",
                    f"lab.{name}",
                    "lab.rejected",
                    name,
                    name,
                ),
            ),
            ("write_reader", (f"lab.{name}_reader", json.dumps(gives))),
        )
        for writer, values in made:
            marks = ", ".join(["%s"] * len(values))
            with lab.connection.cursor() as cursor:
                cursor.execute(lab.value(f"select cdc.{writer}({marks})", *values))
        self.columns = [
            n
            for (n,) in lab.execute("select name from cdc.list_columns(%s) order by place", spelled)
        ]
        self.lsn = self.seeded = self.now()
        if is_rows:
            self.seed()
        self.rebuild()

    def now(self) -> str:
        """Return a position after every change that is in the log."""
        return str(
            self.lab.value("select coalesce(max(commit_lsn) + 1, '0/1') from cdc.change_log")
        )

    def seed(self) -> None:
        """Store a baseline: the query's rows as they are."""
        self.lab.execute("delete from cdc.baseline_group where declared_name = %s", self.name)
        texts = ", ".join(f'"{name}"::text' for name in self.columns)
        self.lab.execute("select set_config('timezone', %s, false)", self.timezone)
        self.lab.execute(
            f"insert into cdc.baseline_group select 'lab', '{self.name}', 'lab.{self.table}', "
            f"array[{texts}], array[1] "
            f"from ({self.lab.named(self.expected, 'seen')}) as query"
        )
        self.lab.execute("reset timezone")
        self.seeded = self.now()

    def rebuild(self) -> None:
        """Start from the baseline, and take all that came since as one batch."""
        truncated = self.lab.execute(
            "select 1 from cdc.change_log where action = 'T' and commit_lsn >= %s", self.seeded
        )
        self.step("rebuild", "null::cdc.change[]", [f"lab.{self.table}"] if truncated else None)
        self.lsn = self.seeded
        self._batches("refill", [])

    def step(self, step: str, changes: str, truncated: list[str] | None = None) -> str | None:
        rejected: str | None = self.lab.value(
            f"select made.rejected_lsn from lab.{self.name}_apply("
            f"%s, 'lab', {changes}, %s, %s::integer[], %s::text[], null::lab.{self.name}[]) as made",
            step,
            list(range(1, len(self.tables) + 1)),
            self.places,
            truncated,
        )
        return rejected

    def catch_up(self) -> None:
        """Apply what is in the log, in batches of whole transactions, each in parts."""
        self._batches(
            "add",
            self._cuts(
                "select distinct commit_lsn, 0 from cdc.change_log where commit_lsn >= %s", self.lsn
            ),
        )

    def _cuts(self, query: str, *values: object) -> list[tuple[str, int]]:
        cuts = [tuple(row) for row in self.lab.execute(query + " order by 1, 2", *values)]
        return [cut for cut in cuts[1:] if self.rng.random() < self.rng.choice((0, 0.3))]

    def _batches(self, step: str, cuts: list[tuple[str, int]]) -> None:
        inside = (
            "select commit_lsn, ordinal from cdc.change_log "
            "where commit_lsn >= %s and commit_lsn < %s"
        )
        for end, _ in [*cuts, (self.now(), 0)]:
            some = self._cuts(inside, self.lsn, end) if self.has_parts else []
            parts = list(pairwise([(self.lsn, 0), *some, (end, 0)]))
            rejected = [self.step(step, self._read(end, *part, False)) for part in parts]
            if any(rejected):
                for part in parts:
                    self.step("list", self._read(end, *part, True))
            self.lsn = end

    def _read(self, end: str, first: tuple[str, int], last: tuple[str, int], is_each: bool) -> str:
        (a, b), (c, d) = first, last
        positions = f"'{self.lsn}', '{end}', '{a}', {b}, '{c}', {d}"
        return f"lab.{self.name}_reader('lab', {positions}, {is_each})"

    def differences(self, only_good: bool = False) -> list[tuple[Any, ...]]:
        """Return rows of the model that the query does not give, and the other way round, as texts.

        `only_good` leaves out what the query cannot take.
        """
        texts = ", ".join(f'"{name}"::text collate "C"' for name in self.columns)
        query = f"select row({texts})::text from ({self.lab.named(self.expected, 'seen')}) as query"
        if only_good:
            query = "select * from lab.good_rows($lab$" + query + f"$lab$, '{self.table}')"
        model = f"select row({texts})::text from lab.{self.name}"
        self.lab.execute("select set_config('timezone', %s, false)", self.timezone)
        found = self.lab.execute(apart(model, query))
        self.lab.execute("reset timezone")
        return found
