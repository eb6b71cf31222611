"""Queries of public applications: what reads a case's models gives the application's own answer.

A case is a file of corpus/: the application's tables and its query, models over these tables, and the
query that reads them. `values` says what a column holds where the type's own values would not do.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from testkit.comparison import apart
from testkit.databases import empty_database
from testkit.servers import Cluster
from tests.queries.models_lab import Above, Below, fill
from tests.queries.rows_lab import RowsLab

CORPUS = Path(__file__).parent / "corpus"
CASES = sorted(path.stem for path in CORPUS.glob("*.sql"))

LISTED = dict(
    re.findall(r"^\| (\d{3}-\S+) \| ([^|]+) \|", (CORPUS / "README.md").read_text(), re.M)
)
"""The cases of the README, with their models by kind."""

_NUMBERS = [str(n) for n in (*range(1, 5), *range(1, 5), *range(5, 41))]
_COLUMNS = """
select a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, coalesce(a.attnum = any(i.indkey), false),
    coalesce(i.indnkeyatts = 1, false)
from pg_attribute as a left join pg_index as i on i.indrelid = a.attrelid and i.indisprimary
where a.attrelid = ('lab.' || quote_ident(%s))::regclass and a.attnum > 0 order by a.attnum
"""
_TABLES = "select relname::text from pg_class where relnamespace = 'lab'::regnamespace and relkind = 'r' and relname <> 'rejected' order by oid"
_FUNCTIONS = "select oid::regprocedure::text from pg_proc where pronamespace = 'lab'::regnamespace and proname ~ '_(apply|apply_.*|deltas|reader)$'"
_FOREIGN_KEYS = "select conrelid::regclass::text, conname::text from pg_constraint where contype = 'f' and connamespace = 'lab'::regnamespace"


class Case(NamedTuple):
    """A file of corpus/."""

    tables: str
    query: str
    models: dict[str, tuple[str, dict[str, Any]]]
    reads: str
    values: dict[str, list[str]]


def _read(name: str) -> Case:
    parts: dict[str, str] = {}
    models: dict[str, tuple[str, dict[str, Any]]] = {}
    for part in re.split(
        r"^-- (?=(?:tables|query|model \w+|reads|values)$)",
        (CORPUS / f"{name}.sql").read_text(),
        flags=re.M,
    )[1:]:
        title, _, text = part.partition("\n")
        text = text.strip().removesuffix(";")
        if title.startswith("model "):
            models[title.removeprefix("model ")] = _model(text)
        else:
            parts[title] = text
    values = {}
    for line in parts.get("values", "").splitlines():
        column, _, pool = line.removeprefix("-- ").partition(": ")
        values[column] = pool.split(" | ")
    reads = re.sub(r"{{ ref\('(\w+)'\) }}", r"\1", parts["reads"])
    return Case(parts["tables"], parts["query"], models, reads, values)


def _model(text: str) -> tuple[str, dict[str, Any]]:
    config, _, query = text.partition("}}")
    call = ast.parse(config.removeprefix("{{ "), mode="eval").body
    assert isinstance(call, ast.Call)
    options = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    assert options.pop("materialized") == "waltally"
    return re.sub(r"{{ (?:source\('app', |ref\()'(\w+)'\) }}", r"{\1}", query), options


class Application:
    """The tables of a case, and random changes of them."""

    def __init__(self, lab: RowsLab, case: Case, rng: Random) -> None:
        self.lab, self.case, self.rng = lab, case, rng
        for (name,) in lab.execute(_TABLES):
            lab.execute(f"drop table lab.{name} cascade")
        for (function,) in lab.execute(_FUNCTIONS):
            lab.execute(f"drop function {function} cascade")
        lab.execute(
            "truncate cdc.change_log, cdc.baseline_group, lab.rejected, cdc.to_fill;"
            "delete from cdc.downstream_model; delete from cdc.installed_model"
        )
        lab.execute(f"set search_path = lab; {case.tables}; set search_path = pg_catalog")
        # Rows come and go in any order.
        for table, constraint in lab.execute(_FOREIGN_KEYS):
            lab.execute(f"alter table {table} drop constraint {constraint}")
        lab.sources.clear()
        self.columns = {name: lab.execute(_COLUMNS, name) for (name,) in lab.execute(_TABLES)}
        for name in self.columns:
            lab.follow(name, has_old_rows=True)
        self.pools = {
            table: {column[0]: self._pool(table, *column) for column in columns}
            for table, columns in self.columns.items()
        }

    def _pool(
        self, table: str, name: str, type_: str, is_not_null: bool, is_key: bool, is_alone: bool
    ) -> list[str]:
        given = self.case.values.get(f"{table}.{name}") or self.case.values.get(name)
        if given:
            return given
        numbers = _NUMBERS if is_key and is_alone else _NUMBERS[:4]
        pools = {
            "uuid": [f"'00000000-0000-0000-0000-{number:0>12}'" for number in numbers],
            "integer": numbers,
            "bigint": numbers,
            "smallint": numbers,
            "boolean": ["true", "false"],
            "double precision": ["0", "1.5", "-2.25", "10"],
            "text": [f"'{chr(96 + int(n))}'" if int(n) < 5 else f"'x{n}'" for n in numbers],
            "text[]": ["'{}'", "'{a}'", "'{a,b}'", "'{b,b,NULL}'"],
        }
        pool = (
            ["0", "1.50", "-2.25", "10", "0.07"]
            if type_.startswith("numeric")
            else pools.get(type_)
        )
        if pool is None:
            pool = self._moments(type_)
        return pool if is_not_null else [*pool, "null"]

    def _moments(self, type_: str) -> list[str]:
        """Return moments at and around those that the query names, and around today's clock."""
        named = re.findall(r"'(\d{4}-\d\d-\d\d[^']*)'", self.case.query)
        pool = [
            f"('{moment}'::{type_} + interval '{more}')::{type_}"
            for moment in dict.fromkeys(named or ["2026-03-29 01:00"])
            for more in ("-1 microsecond", "0", "1 hour", "10 days")
        ]
        if re.search(r"now\(\)|current_date", self.case.query):
            pool += [f"(current_date - {days})::{type_}" for days in (0, 1, 7, 8, 30, 90, 365)]
            pool += [f"(now() - interval '{days} days')::{type_}" for days in (0, 7, 30)]
        return pool

    def begin(self) -> None:
        for table in self.columns:
            self.lab.transact(self._insert(table, 30))

    def change(self) -> None:
        """Commit some transactions."""
        for _ in range(self.rng.randrange(1, 5)):
            self.lab.transact(
                *(
                    self._change(self.rng.choice(list(self.columns)))
                    for _ in range(self.rng.choice((1, 3, 10)))
                )
            )

    def _insert(self, table: str, count: int = 1) -> str:
        pools = self.pools[table]
        rows = ", ".join(
            f"({', '.join(map(self.rng.choice, pools.values()))})" for _ in range(count)
        )
        return f"insert into lab.{table} ({', '.join(pools)}) values {rows} on conflict do nothing"

    def _change(self, table: str) -> str:
        pools, rng = self.pools[table], self.rng
        some = f"ctid in (select ctid from lab.{table} order by md5(ctid || '{rng.random()}') limit {rng.choice((1, 1, 3))})"
        names = rng.sample(list(pools), min(len(pools), rng.choice((1, 2))))
        return rng.choices(
            (
                self._insert(table, rng.choice((1, 1, 5))),
                f"update lab.{table} set {', '.join(f'{n} = {rng.choice(pools[n])}' for n in names)} where {some}",
                f"delete from lab.{table} where {some}",
                f"truncate lab.{table}",
            ),
            (8, 5, 2, 0.03),
        )[0]


@pytest.fixture(scope="module")
def lab(cluster: Cluster) -> Iterator[RowsLab]:
    with empty_database(cluster) as database:
        made = RowsLab(cluster.dsn(database.name), "select 1")
        yield made
        made.connection.close()


def _kinds(below: list[Below], above: list[Above]) -> str:
    """Return how many models of which kind there are, as the README has it."""
    kinds = Counter(model.compiled["kind"] for model in below)
    kinds.update(
        {"fact": "fact over models"}.get(kind, kind)
        for kind in (model.compiled["kind"] for model in above)
    )
    listed = ("rows", "fact", "fact over models", "roll-up")
    return ", ".join(f"{kinds[kind]} {kind}" for kind in listed if kinds[kind])


def _differences(lab: RowsLab, case: Case) -> tuple[list[tuple[Any, ...]], str]:
    """Return what the two queries do not have in common, and the application's answer."""
    lab.execute("set search_path = lab")
    found = lab.execute(apart(case.reads, case.query))
    answer = lab.execute(f"select x::text from ({case.query}) as x order by 1")
    lab.execute("set search_path = pg_catalog")
    return found, str(answer)


@pytest.mark.parametrize("name", CASES)
def test_the_reading_query_gives_the_applications_answer(lab: RowsLab, name: str) -> None:
    rng = Random(name)
    case = _read(name)
    application = Application(lab, case, rng)
    over_models = [
        model
        for model, (query, _) in case.models.items()
        if any(f"{{{other}}}" in query for other in case.models)
    ]
    below = [
        Below(lab, model, query, rng, **options)
        for model, (query, options) in case.models.items()
        if model not in over_models
    ]
    above = [
        Above(lab, model, case.models[model][0], **case.models[model][1]) for model in over_models
    ]
    assert LISTED[name] == _kinds(below, above)
    fill(lab)
    application.begin()
    answers: set[str] = set()
    # Until the changes mattered.
    for step in range(40):
        if step >= 5 and len(answers) > 3:
            break
        application.change()
        rng.shuffle(below)
        for model in below:
            model.catch_up()
        assert lab.execute("select error from cdc.downstream_model where error is not null") == []
        fill(lab)
        differences, answer = _differences(lab, case)
        assert differences == []
        answers.add(answer)
    assert len(answers) > 3
    assert [(one.name, one.differences()) for one in above if one.differences()] == []


def test_each_case_is_in_the_table() -> None:
    assert list(LISTED) == CASES
