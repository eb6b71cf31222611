"""A source, its stream and a model, in one database and without a slot."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import psycopg2

from loader.source.table_shape import read_shapes
from loader.staging import migrate
from testkit.comparison import apart
from testkit.servers import connect_target
from waltally import database
from waltally.tables import Table, quoted

SLOT = "lab"


class SourceTables:
    """Tables of schema lab, and one session in their database, which has our functions too."""

    def __init__(self, dsn: str, *statements: str) -> None:
        with closing(connect_target(dsn)) as target:
            migrate.upgrade(target)
        self.connection = database.connect(dsn, "source")
        self.sources: dict[str, dict[str, Any]] = {}
        """By table what the compiler is told of it."""
        for statement in statements:
            self.execute(statement)

    def execute(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(query, values or None)
            return cursor.fetchall() if cursor.description else []

    def value(self, query: str, *values: object) -> Any:
        ((found,),) = self.execute(query, *values)
        return found

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


class Lab(SourceTables):
    """The database: tables of schema lab, whose changes are written down."""

    def __init__(self, dsn: str, tables: str) -> None:
        super().__init__(dsn, (Path(__file__).parent / "lab.sql").read_text(), tables)
        for (name,) in self.execute(
            "select relname::text from pg_class where relnamespace = 'lab'::regnamespace "
            "and relkind = 'r' and relname not in ('change', 'bad', 'rejected') order by 1"
        ):
            self.read_shape(name)
            self.execute("select lab.follow(%s)", name)
        self.execute("select set_config('lab.purged', '', false), set_config('lab.one', '', false)")

    def clear(self) -> None:
        """Empty the tables."""
        self.execute(f"truncate {', '.join(f'lab.{quoted(name)}' for name in self.sources)}")

    def log_changes(self) -> None:
        """Let the change log have what was written down, for what could not be counted."""
        self.execute(
            "truncate cdc.change_log, lab.rejected; insert into cdc.change_log (slot_name, "
            "commit_lsn, ordinal, xid, committed_at, payload, action) select %s, "
            "'0/1000'::pg_lsn + n, 1, n, now(), n::text, action::\"char\" from lab.change",
            SLOT,
        )

    def last_change(self) -> int:
        return int(self.value("select coalesce(max(n), 0) from lab.change"))


class Model:
    """A fact in the lab: its table and its routine."""

    def __init__(
        self, lab: Lab, name: str, query: str, rng: Random, asked: str = "", **options: Any
    ) -> None:
        self.lab = lab
        self.name = name
        # A view has no primary key that another query could rely on.
        self.query = asked or query
        self.timezone = options.get("timezone", "UTC")
        self.compiled = lab.compile(query, **options)
        self.ignored = options.get("ignore_deletes", [])
        self.applied = self.begun = lab.last_change()
        spelled = json.dumps(self.compiled)
        for statement in (
            f"select cdc.write_table(%s, 'lab_models.{name}', 'uix_{name}')",
            f"select cdc.write_deltas(%s, 'lab_models.{name}_deltas')",
            f"select cdc.write_fact(%s, 'lab_models.{name}_apply', 'lab_models.{name}_deltas', "
            f"'lab_models.{name}', 'lab.rejected', 'lab_models.{name}', '{name}')",
        ):
            lab.execute(lab.value(statement, spelled).replace("%", "%%") + "\n-- %s", "")
        self._read_by(rng)
        self.columns = lab.execute(
            "select name, type, kind from cdc.list_columns(%s) "
            "where is_shown and kind <> 'id' order by place",
            spelled,
        )
        self.step("rebuild", None)

    def _read_by(self, rng: Random) -> None:
        """Choose what a reader gives: what the model needs and more, in any order."""
        given = list(self.compiled["sources"])
        rng.shuffle(given)
        self.gives = []
        lists: dict[str, list[str]] = {}
        for source in given:
            names = self._needs(source)
            table = self.lab.sources[source["table"].removeprefix("lab.")]
            all_names = [column["name"] for column in table["columns"]]
            if rng.random() < 0.2:
                names = names + [n for n in rng.sample(all_names, 2) if n not in names]
            rng.shuffle(names)
            lists[source["table"]] = names
            self.gives.append(
                {
                    "table": table["name"],
                    "places": [all_names.index(name) + 1 for name in names],
                    "is_alone": source["keeps_deleted"],
                }
            )
        order = [s["table"] for s in given]
        self.table_nos = [order.index(s["table"]) + 1 for s in self.compiled["sources"]]
        width = max(len(self._needs(s)) for s in self.compiled["sources"])
        places = [
            [lists[s["table"]].index(n) + 1 for n in self._needs(s)]
            + [None] * (width - len(self._needs(s)))
            for s in self.compiled["sources"]
        ]
        self.places = places if width else None

    @staticmethod
    def _needs(source: dict[str, Any]) -> list[str]:
        return [column["name"] for column in source["columns"] if column["is_needed"]]

    def step(
        self,
        step: str,
        to: int | None,
        cancel: int | None = None,
        each: bool = False,
    ) -> None:
        """Let the routine make a step, over the changes up to a number."""
        self.lab.execute(
            f"select lab_models.{self.name}_apply(%s, %s, lab.changes(%s, %s, %s, %s, %s), %s, "
            f"%s::integer[], null, null::lab_models.{self.name}[])",
            step,
            SLOT,
            json.dumps(self.gives),
            each,
            self.applied,
            self.applied if to is None else to,
            cancel,
            self.table_nos,
            self.places,
        )
        if to is not None:
            self.applied = to

    def differences(self, digits: int | None = None) -> list[tuple[Any, ...]]:
        """Return rows of the model that the query does not give, and the other way round.

        With `digits` so many significant ones of an expression of totals count.
        """
        self._find_bad()
        rounded = {
            name: f"lab.significant({quoted(name)}, {digits})"
            for name, type_, kind in self.columns
            if digits and (type_, kind) == ("numeric", "derived")
        }
        shown = ", ".join(
            rounded.get(name, f"{quoted(name)}::{type_}")
            + (' collate "C"' if type_ in ("text", "character varying") else "")
            for name, type_, _ in self.columns
        )
        asked = ", ".join(rounded.get(column[0]) or self._asked(*column) for column in self.columns)
        query = self.lab.named(self.query, "good")
        stored = f"select {shown} from lab_models.{self.name}"
        return self._in_timezone(apart(stored, f"select {asked} from (\n{query}\n) as query"))

    def _asked(self, name: str, type_: str, kind: str) -> str:
        if type_ not in ("text", "character varying"):
            return f"{quoted(name)}::{type_}"
        text = f"{quoted(name)}::text"
        if kind == "key":
            texts = sum(key["type"] == "text" for key in self.compiled["keys"])
            share = min(1000, 2000 // texts)
            text = (
                f"case when octet_length({text}) <= {share} then {text} "
                f"else left({text}, {(share - 33) // 4}) || '-' || md5({text}) end"
            )
        return f'({text}) collate "C"'

    def _in_timezone(self, query: str) -> list[tuple[Any, ...]]:
        self.lab.execute("select set_config('timezone', %s, false)", self.timezone)
        self.lab.execute(
            "select set_config('lab.purged', %s, false)",
            " ".join(table.removeprefix("lab.") for table in self.ignored),
        )
        try:
            return self.lab.execute(query)
        finally:
            self.lab.execute("set timezone to 'UTC'; set lab.purged to ''")

    def fails(self) -> bool:
        """Return whether PostgreSQL cannot answer the query over all rows."""
        return self._error("select count(query) from (\n%s\n) as query", "seen") is not None

    def _find_bad(self) -> None:
        """Write down the rows that the query cannot take alone, and no other ones.

        What a row is to blame for is an error in what is added up, or a sum that is not finite.
        """
        self.lab.execute("delete from lab.bad")
        kept = [k["name"] for k in self.compiled["kept"] if k["type"] == "numeric"]
        names = ", ".join(map(quoted, kept)) or "null"
        finite = f"count(query), count(*) filter (where 'NaN' in ({names}) or 'Infinity' in ({names}) or '-Infinity' in ({names}))"
        for source in self.compiled["sources"]:
            name = source["table"].removeprefix("lab.")
            for (row_id,) in self._in_timezone(f'select id from seen."{name}"'):
                self.lab.execute("select set_config('lab.one', %s, false)", f"{row_id} {name}")
                if self._cannot_take(finite):
                    self.lab.execute("insert into lab.bad values (%s, %s)", name, row_id)

    def _cannot_take(self, finite: str) -> bool:
        inputs = ", ".join(
            f"waltally_source_{n} as (select {_columns(source)} from one.{quoted(source['table'].removeprefix('lab.'))})"
            for n, source in enumerate(self.compiled["sources"], 1)
        )
        try:
            ((_, not_finite),) = self._in_timezone(
                f"with {inputs} select {finite} from (\n{self.compiled['query']}\n) as query"
            )
        except psycopg2.Error as error:
            if _is_of_a_row(error):
                return True
            raise
        return bool(not_finite)

    def _error(self, query: str, schema: str) -> psycopg2.Error | None:
        try:
            self._in_timezone(query % self.lab.named(self.query, schema))
        except psycopg2.Error as error:
            if _is_of_a_row(error):
                return error
            raise
        return None


def _is_of_a_row(error: psycopg2.Error) -> bool:
    code = error.pgcode or ""
    return code[:2] in ("22", "21", "54") or code in ("0A000", "42601")


def _columns(source: dict[str, Any]) -> str:
    return (
        ", ".join(f"{quoted(column['name'])}::{column['type']}" for column in source["columns"])
        or "1"
    )
