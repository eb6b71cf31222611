"""Queries of public applications: what `loader init --query` makes of one gives its own answer.

A case is a file of corpus/: the application's tables and its query. `values` says what a column holds
where the type's own values would not do. A query that the splitter refuses has models that a person
wrote, and what reads them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from jinja2 import Environment

from testkit.comparison import apart
from testkit.databases import Database, empty_database
from testkit.servers import Cluster
from tests.proposing.support import proposed
from tests.queries.lab import Lab
from tests.queries.models_lab import Above, Below, fill
from tests.queries.writer import Writer
from waltally.errors import LoaderError

CORPUS = Path(__file__).parent / "corpus"
CASES = sorted(path.stem for path in CORPUS.glob("*.sql"))

JINJA = Environment(finalize=lambda value: "" if value is None else value)
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
_TABLES = "select relname::text from pg_class where relnamespace = 'lab'::regnamespace and relkind = 'r' and relname not in ('rejected', 'bad') order by oid"
_FOREIGN_KEYS = "select conrelid::regclass::text, conname::text from pg_constraint where contype = 'f' and connamespace = 'lab'::regnamespace"

REFUSED = {
    "006-notify-allowance-of-a-service": "A window over rows needs each of them",
    "050-sentry-resolution-time": "adds up values of type interval",
    "074-zulip-active-accounts": "DISTINCT ON takes one row of several",
    "106-lago-recurring-revenue": "a text cast to timestamp",
}
"""The queries that the splitter does not keep, with words of the reason."""


class Case(NamedTuple):
    """A file of corpus/."""

    tables: str
    query: str
    by_hand: dict[str, str]
    """Models and what reads them, by name."""
    values: dict[str, list[str]]


def _read(name: str) -> Case:
    _, *parts = re.split(
        r"^-- (?=(?:tables|query|model|reads|values)\b)",
        (CORPUS / f"{name}.sql").read_text(),
        flags=re.M,
    )
    texts = {
        title.removeprefix("model "): text.strip().removesuffix(";")
        for title, _, text in (part.partition("\n") for part in parts)
    }
    values = {}
    for line in texts.pop("values", "").splitlines():
        column, _, pool = line.removeprefix("-- ").partition(": ")
        values[column] = pool.split(" | ")
    tables, query = texts.pop("tables"), texts.pop("query")
    return Case(tables, query, texts, values)


class Application:
    """The tables of a case, and random changes of them."""

    def __init__(self, lab: Lab, case: Case, rng: Random) -> None:
        self.lab, self.case, self.rng = lab, case, rng
        lab.sources.clear()
        lab.clear()
        # A query's name of a table is that of one alone.
        lab.execute("drop schema purged cascade; create schema purged")
        lab.execute(f"set search_path = lab; {case.tables}; set search_path = pg_catalog")
        # Rows come and go in any order.
        for table, constraint in lab.execute(_FOREIGN_KEYS):
            lab.execute(f"alter table {table} drop constraint {constraint}")
        self.columns = {name: lab.execute(_COLUMNS, name) for (name,) in lab.execute(_TABLES)}
        self.pools = {
            table: {column[0]: self._pool(table, *column) for column in columns}
            for table, columns in self.columns.items()
        }
        keys = {table: [c[0] for c in columns if c[3]] for table, columns in self.columns.items()}
        self.writer = Writer(lab, rng, self.pools, keys)

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

    def follow(self) -> None:
        for name in self.columns:
            self.lab.follow(name)

    def fill(self) -> None:
        for table in self.columns:
            self.lab.transact(*(self.writer.insert(table) for _ in range(30)))


@pytest.fixture(scope="module")
def database(cluster: Cluster) -> Iterator[Database]:
    # Not the collation under which models keep texts.
    icu = "template template0 locale_provider icu icu_locale 'de' lc_collate 'C' lc_ctype 'C'"
    with empty_database(cluster, options=icu) as made:
        yield made


@pytest.fixture(scope="module")
def lab(database: Database) -> Iterator[Lab]:
    made = Lab(database.cluster.dsn(database.name))
    yield made
    made.connection.close()


def _rendered(files: dict[str, str]) -> tuple[dict[str, tuple[str, dict[str, Any]]], str]:
    """Return the models of a project, each with its config, and the query that reads them."""
    models, reads = {}, ""
    for name, text in files.items():
        options: dict[str, Any] = {"materialized": "view" if name == "reads" else "waltally"}
        query = JINJA.from_string(text).render(
            config=options.update,
            source=lambda _, table: f"{{{table}}}",
            ref=lambda model: f"{{{model}}}",
        )
        if options.pop("materialized") == "waltally":
            models[name] = query, options
        else:
            reads = query
    for name in models:
        reads = reads.replace(f"{{{name}}}", name)
    return models, reads


def _kinds(below: list[Below], above: list[Above]) -> str:
    """Return how many models of which kind there are, as the README has it."""
    kinds = Counter(model.compiled["kind"] for model in below)
    kinds.update(
        {"fact": "fact over models"}.get(kind, kind)
        for kind in (model.compiled["kind"] for model in above)
    )
    listed = ("rows", "fact", "fact over models", "roll-up")
    return ", ".join(f"{kinds[kind]} {kind}" for kind in listed if kinds[kind])


def _differences(lab: Lab, reads: str, query: str) -> tuple[list[tuple[Any, ...]], str]:
    """Return what the two queries do not have in common, and the application's answer."""
    lab.execute("set search_path = lab")
    found = lab.execute(apart(reads, query))
    answer = lab.execute(f"select x::text from ({query}) as x order by 1")
    lab.execute("set search_path = pg_catalog")
    return found, str(answer)


@pytest.mark.parametrize("name", CASES)
def test_a_query_of_an_application_is_kept_or_refused_for_its_reason(
    database: Database, lab: Lab, name: str
) -> None:
    rng = Random(name)
    case = _read(name)
    application = Application(lab, case, rng)
    files = case.by_hand
    if name in REFUSED:
        with pytest.raises(LoaderError, match=REFUSED[name]) as refused:
            proposed(database, case.query)
        assert refused.value.remedy
    else:
        made = proposed(database, case.query, prove="none").files
        files = {Path(path).stem: text for path, text in made.items() if path.endswith(".sql")}
    models, reads = _rendered(files)
    application.follow()
    below, above = [], []
    for own, (query, options) in models.items():
        if any(f"{{{other}}}" in query for other in models):
            above.append(Above(lab, own, query, **options))
        else:
            below.append(Below(lab, own, query, rng, **options))
    assert LISTED[name] == _kinds(below, above)
    fill(lab)
    answers: set[str] = set()
    # Until the changes mattered.
    for step in range(40):
        if step >= 5 and len(answers) > 3:
            break
        application.writer.write(rng.randrange(1, 40))
        if step % 3 == 0:
            application.fill()
        rng.shuffle(below)
        for model in below:
            model.catch_up()
        assert lab.execute("select error from cdc.downstream_model where error is not null") == []
        fill(lab)
        differences, answer = _differences(lab, reads, case.query)
        assert differences == []
        answers.add(answer)
    assert len(answers) > 3
    assert [(one.name, one.differences()) for one in above if one.differences()] == []


def test_each_case_is_in_the_table() -> None:
    assert list(LISTED) == CASES
