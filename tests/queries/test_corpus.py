"""Queries of public applications: what `loader init --query` makes of one gives its own answer.

A case is a file of corpus/: the application's tables and its query. `values` says what a column holds
where the type's own values would not do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from testkit.comparison import apart
from testkit.databases import Database, empty_database
from testkit.servers import Cluster
from tests.proposing.support import proposed
from tests.queries.cases import rendered
from tests.queries.lab import Lab
from tests.queries.models_lab import Below, Dependent, fill
from tests.queries.writer import Writer, around

CORPUS = Path(__file__).parent / "corpus"
CASES = sorted(path.stem for path in CORPUS.glob("*.sql"))

LISTED = dict(
    re.findall(r"^\| (\d{3}-\S+) \| ([^|]+) \|", (CORPUS / "README.md").read_text(), re.M)
)
"""The cases of the README, with their models by kind."""

_FOREIGN_KEYS = "select conrelid::regclass::text, conname::text from pg_constraint where contype = 'f' and connamespace = 'lab'::regnamespace"


class Case(NamedTuple):
    """A file of corpus/."""

    tables: str
    query: str
    values: dict[str, list[str]]


def read_case(name: str) -> Case:
    """Return a case of the corpus."""
    _, tables, query, *values = re.split(
        r"^-- (?:tables|query|values)\n", (CORPUS / f"{name}.sql").read_text(), flags=re.M
    )
    given = re.findall(r"^-- (\S+): (.*)", "".join(values), re.M)
    return Case(
        tables, query.strip().removesuffix(";"), {name: pool.split(" | ") for name, pool in given}
    )


def _times(query: str) -> list[str]:
    """Return times at and around those that a query names, and today's."""
    times = around(*dict.fromkeys(re.findall(r"'(\d{4}-\d\d-\d\d[^']*)'", query)))
    if re.search(r"now\(\)|current_date", query):
        times += [f"(current_date - {days})::{{}}" for days in (0, 1, 7, 8, 30, 90, 365)]
        times += [f"(now() - interval '{days} days')::{{}}" for days in (0, 7, 30)]
    return times


def begin_case(lab: Lab, case: Case, rng: Random) -> Writer:
    """Make the tables of a case, in place of those of the one before."""
    lab.sources.clear()
    lab.clear()
    # A query's name of a table is that of one alone.
    lab.execute("drop schema purged cascade; create schema purged")
    lab.execute(f"set search_path = lab; {case.tables}; set search_path = pg_catalog")
    # Rows come and go in any order.
    for table, constraint in lab.execute(_FOREIGN_KEYS):
        lab.execute(f"alter table {table} drop constraint {constraint}")
    tables = re.findall(r"create table (\w+)", case.tables)
    return Writer.of(lab, rng, tables, case.values, _times(case.query))


@pytest.fixture(scope="module")
def database(cluster: Cluster) -> Iterator[Database]:
    # Not the collation under which models keep texts.
    icu = "template template0 locale_provider icu icu_locale 'de' lc_collate 'C' lc_ctype 'C'"
    with empty_database(cluster, options=icu) as made:
        yield made


@pytest.fixture(scope="module")
def lab(database: Database) -> Iterator[Lab]:
    with Lab(database.cluster.dsn(database.name)) as made:
        yield made


def rendered_models(files: dict[str, str]) -> tuple[dict[str, tuple[str, dict[str, Any]]], str]:
    """Return the models of a project, each with its config, and the query that reads them."""
    models, reads = {}, ""
    for name, text in files.items():
        query, options = rendered(text)
        if options.pop("materialized") == "waltally":
            models[name] = query, options
        else:
            reads = query
    for name in models:
        reads = reads.replace(f"{{{name}}}", name)
    return models, reads


def _kinds(below: list[Below], dependents: list[Dependent]) -> str:
    """Return how many models of which kind there are, as the README has it."""
    kinds = Counter(model.compiled["kind"] for model in below)
    kinds.update(
        {"fact": "fact over models"}.get(kind, kind)
        for kind in (model.compiled["kind"] for model in dependents)
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
def test_a_query_of_an_application_is_kept(database: Database, lab: Lab, name: str) -> None:
    rng = Random(name)
    case = read_case(name)
    writer = begin_case(lab, case, rng)
    made = proposed(database, case.query, prove="none").files
    models, reads = rendered_models(
        {Path(path).stem: text for path, text in made.items() if path.endswith(".sql")}
    )
    for table in writer.pools:
        lab.follow(table)
    below, dependents = [], []
    for own, (query, options) in models.items():
        if any(f"{{{other}}}" in query for other in models):
            dependents.append(Dependent(lab, own, query, **options))
        else:
            below.append(Below(lab, own, query, rng, **options))
    assert LISTED[name] == _kinds(below, dependents)
    fill(lab)
    answers: set[str] = set()
    # Until the changes mattered.
    for step in range(40):
        if step >= 5 and len(answers) > 3:
            break
        writer.write(rng.randrange(1, 40))
        if step % 3 == 0:
            for table in writer.pools:
                lab.transact(*(writer.insert(table) for _ in range(30)))
        rng.shuffle(below)
        for model in below:
            model.catch_up()
        assert lab.execute("select error from cdc.dependent_model where error is not null") == []
        fill(lab)
        differences, answer = _differences(lab, reads, case.query)
        assert differences == []
        answers.add(answer)
    assert len(answers) > 3
    assert [(one.name, one.differences()) for one in dependents if one.differences()] == []


def test_each_case_is_in_the_table() -> None:
    assert list(LISTED) == CASES
