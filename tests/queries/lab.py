"""Tables, their change log and models over them, in one database and without a slot."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Self

import psycopg2

from loader.source.table_shape import read_shapes
from loader.staging import migrate
from testkit.comparison import apart
from testkit.servers import connect_target
from waltally import database
from waltally.tables import Table, quoted

_MADE = """
select 'function', oid::regprocedure::text from pg_proc
where pronamespace = 'lab'::regnamespace and proname ~ '_(apply|apply_.*|deltas|totals|merge|by_hash|reader)$' and proname ~ %s
union all
select 'table', oid::regclass::text from pg_class
where relnamespace = 'lab'::regnamespace and relkind = 'r' and relname <> all (%s) and relname ~ %s
"""

_MODELS_OF_A_SESSION = 25


class Lab:
    """The database: tables of schema lab, whose changes are in the log."""

    def __init__(self, dsn: str, *tables: str) -> None:
        with closing(connect_target(dsn)) as target:
            migrate.upgrade(target)
        self.connection = database.connect(dsn, "source")
        self.made = 0
        """How many models this session has made."""
        self.sources: dict[str, dict[str, Any]] = {}
        """By table what the compiler is told of it."""
        for statement in ((Path(__file__).parent / "lab.sql").read_text(), *tables):
            self.execute(statement)

    @classmethod
    def following(cls, dsn: str, tables: str) -> Self:
        """Return one that follows all of these tables."""
        made = cls(dsn, tables)
        for table in re.findall(r"create table lab\.(\w+)", tables):
            made.follow(table)
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def execute(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(query, values or None)
            return cursor.fetchall() if cursor.description else []

    def value(self, query: str, *values: object) -> Any:
        ((found,),) = self.execute(query, *values)
        return found

    @contextmanager
    def zone(self, name: str) -> Iterator[None]:
        """Let the session have a time zone."""
        self.execute("select set_config('timezone', %s, false)", name)
        try:
            yield
        finally:
            self.execute("reset timezone")

    def read_shape(self, name: str) -> dict[str, Any]:
        """Read what the compiler is told of a table, whose changes have whole old rows."""
        table = Table("lab", name)
        shape = read_shapes(self.connection, [table])[table]
        self.sources[name] = {
            **shape,
            "relation": f'"db"."lab"."{name}"',
            "name": name,
            "table": f"lab.{name}",
            "has_old_rows": True,
        }
        return self.sources[name]

    def follow(
        self,
        table: str,
        has_old_rows: bool = True,
        leaves_out: bool = False,
        identity: tuple[str, ...] = (),
    ) -> None:
        """Write down a table's changes, with whole old rows, their keys alone or other columns."""
        source = self.read_shape(table)
        source["has_old_rows"] = has_old_rows
        names = [column["name"] for column in source["columns"]]
        own = names if has_old_rows else source["key"]
        self.execute("select lab.follow(%s, %s, %s)", table, list(identity) or own, leaves_out)

    def clear(self) -> None:
        """Forget every model, and empty the tables and the log."""
        self.renew()
        self.drop_made("")
        if self.sources:
            self.execute(f"truncate {', '.join(f'lab.{quoted(name)}' for name in self.sources)}")
        self.execute(
            "truncate cdc.change_log, cdc.baseline_group, lab.rejected, cdc.to_fill;"
            "delete from cdc.dependent_model; delete from cdc.installed_model"
        )

    def renew(self) -> None:
        """Begin a new session where this one has plans of many models.

        A session keeps those of a dropped function to its end, and goes through them all at each DDL.
        """
        if self.made >= _MODELS_OF_A_SESSION:
            timeout = self.value("show statement_timeout")
            self.connection.close()
            self.connection = database.connect(self.connection.login, "source")
            self.execute("select set_config('statement_timeout', %s, false)", timeout)
            self.made = 0

    def drop_made(self, pattern: str) -> None:
        """Drop tables and functions of the models with such names."""
        for kind, name in self.execute(_MADE, pattern, [*self.sources, "rejected", "bad"], pattern):
            self.execute(f"drop {kind} {name} cascade")

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

    def compile(self, query: str, **options: object) -> dict[str, Any]:
        """Return what the compiler makes of a query that names the tables as {table}.

        Raises psycopg2.Error: WL003 with the reasons, and PostgreSQL's own.
        """
        text = self.named(query, '"db"."lab"')
        used = [source for source in self.sources.values() if source["relation"] in text]
        compiled: dict[str, Any] = self.value(
            "select cdc.compile_query(%s, %s, %s)", text, json.dumps(used), json.dumps(options)
        )
        return compiled

    def named(self, query: str, schema: str) -> str:
        """Return the query over the tables or views of a schema."""
        for name in self.sources:
            query = query.replace(f"{{{name}}}", f'{schema}."{name}"')
        return query


class Model:
    """A model of tables of the lab, rows or a fact: its table, its reader and its routine.

    A fact has no baseline here: only changes after its beginning count.
    """

    NO_CHANGED_ROWS = UPDATED = "null"
    """What a dependent would be given, and what it does."""

    def __init__(
        self,
        lab: Lab,
        name: str,
        query: str,
        rng: Random,
        expected: str = "",
        more: float = 0.5,
        **options: Any,
    ) -> None:
        self.lab, self.name, self.rng = lab, name, rng
        lab.made += 1
        self.expected = expected or query
        """What it is compared with."""
        self.has_parts = True
        self.timezone = options.get("timezone", "UTC")
        self.purged = " ".join(options.get("ignore_deletes", [])).replace("lab.", "")
        self.compiled = lab.compile(query, **options)
        self.is_rows = self.compiled["kind"] == "rows"
        sources = self.compiled["sources"]
        self.tables = [source["table"].removeprefix("lab.") for source in sources]
        self.table = self.tables[0]
        # A reader gives what the model needs and more, in any order.
        gives: list[list[Any]] = []
        ordinals = []
        for source, table in zip(sources, self.tables, strict=True):
            needed = [c["name"] for c in source["columns"] if c["is_needed"]]
            given = [c["name"] for c in lab.sources[table]["columns"]]
            given = [n for n in given if n in needed or rng.random() < more]
            rng.shuffle(given)
            ordinals.append([given.index(n) + 1 for n in needed])
            alone: bool | str = source["keeps_deleted"]
            # As where a model of the rows of b reads it too.
            if table == "b" or (self.is_rows and not self.compiled["has_old_rows"]):
                alone = "each"
            gives.append([f"lab.{table}", given, alone, "lab", table])
        width = max(map(len, ordinals))
        self.ordinals = (
            [[*row, *[None] * (width - len(row))] for row in ordinals] if width else None
        )
        shuffled = rng.sample(gives, len(gives))
        self.table_nos = [shuffled.index(one) + 1 for one in gives]
        spelled = json.dumps(self.compiled)
        table = f"lab.{name}"
        does = ("apply", "deltas", "totals", "merge", "by_hash")
        names = json.dumps({each: f"{table}_{each}" for each in does})
        for writer, values in (
            ("write_table", (spelled, table, f"pk_{name}")),
            ("write_functions", (spelled, names, table, "lab.rejected", name, name, query)),
            ("write_reader", (f"lab.{name}_reader", json.dumps(shuffled))),
        ):
            marks = ", ".join(["%s"] * len(values))
            with lab.connection.cursor() as cursor:
                cursor.execute(lab.value(f"select cdc.{writer}({marks})", *values))
        # A vacuum that gives pages back locks the table for a moment; cdc.apply would try again.
        lab.execute(f"alter table {table} set (vacuum_truncate = off)")
        self.columns = lab.execute(
            "select name, type, kind from cdc.list_columns(%s) "
            "where is_shown and kind <> 'id' order by ordinal",
            spelled,
        )
        self.lsn = self.seeded = self.now()
        self.is_lost = False
        if self.is_rows:
            self.seed()
        self.rebuild()
        if rng.random() < 0.3:
            # As where a key once was too long for an index.
            lab.execute(
                "select cdc.make_room(%s, hash, '54000') from cdc.key_hash(%s) as hash where hash is not null",
                *(table, spelled),
            )

    def now(self) -> str:
        """Return a position after every change that is in the log."""
        return str(
            self.lab.value(
                "select coalesce(max(commit_lsn) + 1::numeric, '0/1') from cdc.change_log"
            )
        )

    def seed(self) -> None:
        """Store a baseline: the query's rows as they are."""
        self.lab.execute("delete from cdc.baseline_group where model_name = %s", self.name)
        texts = ", ".join(f"{quoted(name)}::text" for name, _, _ in self.columns)
        with self.lab.zone(self.timezone):
            self.lab.execute(
                f"insert into cdc.baseline_group select 'lab', '{self.name}', 'lab.{self.table}', "
                f"array[{texts}], array[1] "
                f"from ({self.lab.named(self.expected, 'seen')}) as query"
            )
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
        rejected: str | None
        ((rejected, lost, _),) = self.lab.execute(
            f"select made.rejected_lsn, made.lost_lsn, {self.UPDATED.format(self.name, step)} from lab.{self.name}_apply("
            f"%s, 'lab', {changes}, %s, %s::integer[], %s::text[], {self.NO_CHANGED_ROWS.format(self.name)}::lab.{self.name}[]"
            ") as made",
            *(step, self.table_nos, self.ordinals, truncated),
        )
        self.is_lost = self.is_lost or lost is not None
        return rejected

    def catch_up(self, is_cut: bool = True) -> None:
        """Apply what is in the log, in batches of whole transactions, each in parts."""
        transactions = "select distinct commit_lsn, 0 from cdc.change_log where commit_lsn >= %s"
        self._batches("add", self._cuts(transactions, self.lsn) if is_cut else [])

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

    def differences(self, digits: int | None = None) -> list[tuple[Any, ...]]:
        """Return rows of the model that the query does not give, and the other way round.

        Rows that the query cannot take are left out. With `digits` so many significant ones of an
        expression of totals count.
        """
        rounded = {
            name: f"lab.significant({quoted(name)}, {digits})"
            for name, type_, kind in self.columns
            if digits and (type_, kind) == ("numeric", "expression")
        }
        columns = ", ".join(rounded.get(c[0]) or self._asked(*c[:2]) for c in self.columns)
        query = self.lab.named(self.expected, "good")
        self.lab.execute("select set_config('lab.purged', %s, false)", self.purged)
        try:
            with self.lab.zone(self.timezone):
                self.lab.execute("select lab.find_bad(%s, %s)", self._alone(), self.tables)
                return self.lab.execute(
                    apart(
                        f"select {columns} from lab.{self.name}",
                        f"select {columns} from (\n{query}\n) as query",
                    )
                )
        finally:
            self.lab.execute("set lab.purged to ''")

    def _asked(self, name: str, type_: str) -> str:
        """Return a column as it is compared: rows by their texts."""
        if not self.is_rows and type_ not in ("text", "character varying"):
            return f"{quoted(name)}::{type_}"
        return f'({quoted(name)}::text) collate "C"'

    def _alone(self) -> str:
        """Return a query that fails, or counts rows, where what is added up has no value."""
        inputs = []
        for n, (source, table) in enumerate(
            zip(self.compiled["sources"], self.tables, strict=True), 1
        ):
            columns = ", ".join(f"{quoted(c['name'])}::{c['type']}" for c in source["columns"])
            inputs.append(
                f"waltally_source_{n} as (select {columns or 1} from one.{quoted(table)})"
            )
        kept = [] if self.is_rows else self.compiled["state_columns"]
        names = ", ".join(quoted(k["name"]) for k in kept if k["type"] == "numeric") or "null"
        no_numbers = " or ".join(
            f"{one} in ({names})" for one in ("'NaN'", "'Infinity'", "'-Infinity'")
        )
        return (
            f"with {', '.join(inputs)} select count(*) filter (where {no_numbers}), count(query) "
            f"from (\n{self.compiled['query']}\n) as query"
        )

    def fails(self) -> bool:
        """Return whether PostgreSQL cannot answer the query over all rows."""
        query = self.lab.named(self.expected, "seen")
        try:
            with self.lab.zone(self.timezone):
                self.lab.execute(f"select count(query) from (\n{query}\n) as query")
        except psycopg2.Error as error:
            code = error.pgcode or ""
            if code[:2] in ("22", "21", "54") or code in ("0A000", "42601"):
                return True
            raise
        return False
