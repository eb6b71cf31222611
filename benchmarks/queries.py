"""What `loader init --query` keeps of the corpus, beside asking the queries themselves.

python -m benchmarks.queries --rows 1000000 --cases 045-mattermost-posts-by-team

Each case of tests/queries/corpus gets so many rows in its largest table, and the others fewer: a
parent has a tenth, and the first thousandth of them has a tenth of its children. Values have the
widths that applications have: a text some 30 bytes, columns that the query does not read 150
together; a day is one of two years. The models are made as plain tables with their unique index, as
dbt would, and query and view are asked three times; the least counts. *Time* is the query's over
the view's, *bytes* the models' with indexes over the tables' without. *A change* is a new row of
the largest table, through all models of the query, in a batch of 500; its tables have --change-rows
rows. The summary leaves out what the price refuses.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import median

from benchmarks.report import Table, main, show
from loader.proposing.propose import Proposed, propose
from loader.proposing.questions import Options
from testkit.databases import Database, empty_database
from testkit.servers import Cluster
from tests.queries.cases import rendered
from tests.queries.lab import Lab
from tests.queries.models_lab import Below, Dependent
from tests.queries.models_lab import fill as fill_models
from tests.queries.test_corpus import CASES, Case, begin_case, read_case, rendered_models
from waltally.errors import SettingError
from waltally.settings import Settings
from waltally.tables import quoted

BATCH = 500
_PARENTS = 1000
"""How many of what a column names that is no table here."""
_COLUMNS = """
select a.attname::text, format_type(a.atttypid, null), a.attnum = any(i.indkey) and i.indnatts = 1,
    (select confrelid::regclass::text from pg_constraint
     where conrelid = c.oid and contype = 'f' and conkey = array[a.attnum] limit 1),
    a.attnotnull
from pg_class as c inner join pg_attribute as a on a.attrelid = c.oid
left join pg_index as i on i.indrelid = c.oid and i.indisprimary
where c.oid = %s::regclass and a.attnum > 0 and a.attgenerated = '' and a.attidentity = ''
    and a.attname <> 'other_columns'
order by a.attnum
"""


def values_of(type_: str, number: str) -> str:
    """Return a value of a type, by a number."""
    ago = f"(({number}) % 1051200) * interval '1 minute'"
    return {
        "uuid": f"md5(({number})::text)::uuid",
        "boolean": f"({number}) % 3 = 0",
        "text": f"'a text of usual length ' || ({number}) % 1000",
        "character varying": f"'text ' || ({number}) % 50",
        "text[]": f"array['a' || ({number}) % 9, 'b' || ({number}) % 5]",
        "jsonb": f"jsonb_build_object('k', ({number}) % 20)",
        "numeric": f"round((({number}) % 10000) / 100.0, 2)",
        "date": f"current_date - (({number}) % 730)::int",
        "timestamp without time zone": f"localtimestamp - {ago}",
        "timestamp with time zone": f"now() - {ago}",
    }.get(type_, f"(({number}) % 1000)::{type_}")


def key_of(type_: str, number: str, pool: list[str]) -> str:
    """Return the key of the row of a number: the first ones have those that the case names."""
    own = {
        "uuid": f"md5(({number})::text)::uuid",
        "text": f"'key ' || ({number})",
        "character varying": f"'key ' || ({number})",
    }.get(type_, f"({number})::{type_}")
    return f"coalesce((array[{_listed(type_, pool)}])[{number}], {own})" if pool else own


def _listed(type_: str, pool: list[str]) -> str:
    return ", ".join(f"({one})::{type_}" for one in pool)


def fill(database: Database, case: Case, rows: int) -> None:
    """Make the tables of a case and their rows."""
    database.execute("drop schema if exists lab cascade; create schema lab; set search_path = lab")
    database.execute(case.tables)
    add_columns(database, case)
    database.execute("set session_replication_role = replica")
    for place, table in enumerate(tables_of(case)):
        insert(database, case, table, 1, rows_of(case, place, rows))
    database.execute("analyze")


def tables_of(case: Case) -> list[str]:
    """Return the tables of a case; the last one is the largest."""
    return re.findall(r"create table (\w+)", case.tables)


def rows_of(case: Case, place: int, rows: int) -> int:
    """Return how many rows a table has, by its place."""
    above = len(tables_of(case)) - 1 - place
    return max(rows // 10**above, 10) if above else rows


def add_columns(database: Database | Lab, case: Case) -> None:
    """Let the tables have what an application has beside the columns that its query reads."""
    for table in tables_of(case):
        database.execute(f"alter table {table} add other_columns text default repeat('x', 150)")


def insert(database: Database | Lab, case: Case, table: str, first: int, last: int) -> None:
    """Insert the rows of these numbers."""
    columns, texts = [], []
    own = database.execute(_COLUMNS, table)
    for n, (name, type_, is_key, parent, is_filled) in enumerate(own):
        listed = case.values.get(f"{table}.{name}") or case.values.get(name) or []
        pool = [*dict.fromkeys(one for one in listed if one != "null")]
        # Another order in each column, the same in each run.
        number = f"abs(hashint8extended(g, {n}) % 1000000007)"
        if is_key or name == "id":
            text = key_of(type_, "g", pool)
        elif parent or name.endswith("_id") or type_ == "uuid":
            parents = {parent, f"{name.removesuffix('_id')}s"} & {*tables_of(case)}
            most = max(last // 10, 10) if parents else _PARENTS
            known = next((case.values.get(f"{one}.id") for one in parents), None) or pool
            # Few have many of the rows: the first of a thousand has a tenth.
            one = f"(1 + floor({most} * power(({number}) / 1000000007::float8, 3)))::integer"
            text = key_of(type_, one, known)
        elif listed:
            text = f"(array[{_listed(type_, listed)}])[1 + ({number}) % {len(listed)}]"
        else:
            text = values_of(type_, number)
        if not is_filled:
            parts, nulls = (len(listed), listed.count("null")) if listed else (10, 1)
            text = f"case when ({number}) % {parts} >= {nulls} then {text} end"
        columns.append(quoted(name))
        texts.append(text)
    database.execute(
        f"insert into {table} ({', '.join(columns)}) select {', '.join(texts)}"
        f" from generate_series({first}, {last}) as g on conflict do nothing"
    )


def least(database: Database, query: str) -> float:
    """Return the least time of three that the server takes."""
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        database.execute(f"select count(q) from ({query}) as q")
        times.append(time.perf_counter() - begun)
    return min(times)


def make_model(database: Database, made: Proposed, name: str) -> None:
    """Make a model's table with its indexes, as dbt would."""
    text, _ = plain(made.files[f"models/{name}.sql"])
    model = made.compiled[name]
    hidden = "".join(f", 1::bigint as waltally_{n}" for n in range(model.compiled.hidden))
    database.execute(
        f"create table {quoted(name)} with (fillfactor = 80)"
        f" as select own.*{hidden} from ({text}) as own"
    )
    if model.compiled.keys:
        listed = ", ".join(map(quoted, model.compiled.keys))
        database.execute(f"create unique index on {quoted(name)} ({listed}) nulls not distinct")


def propose_for(dsn: str, case: Case) -> Proposed:
    """Return what is written, with its price; without one where the query finds no row here."""
    settings = Settings.of(dsn, dsn, "waltally", "cdc")
    options = Options(timezone="UTC", prove="sample", timeout=60, anyway=True)
    try:
        return propose(settings, {"report": case.query}, options)
    except SettingError:
        return propose(settings, {"report": case.query}, replace(options, prove="none"))


def measure_case(database: Database, name: str, rows: int) -> dict[str, float]:
    """Return the times of query and view in ms, and how both and the bytes are to one another.

    `refused` is 1 where the price refuses it; beside it what the price says for each true value.
    """
    case = read_case(name)
    fill(database, case, rows)
    dsn = database.cluster.dsn(database.name)
    made = propose_for(dsn, case)
    database.execute("set timezone to 'UTC'")
    for model in made.models:
        make_model(database, made, model)
    database.execute("analyze")
    kept = sum(bytes_of(database, "pg_total_relation_size", quoted(model)) for model in made.models)
    tables = sum(bytes_of(database, "pg_table_size", one.quoted) for one in made.tables)
    query, view = (
        least(database, case.query),
        least(database, plain(made.files[made.readers[0]])[0]),
    )
    measured = {
        "query, ms": 1000 * query,
        "view, ms": 1000 * view,
        "time": query / view,
        "bytes": kept / tables,
        "refused": 0.0,
    }
    if price := made.prices.get("report"):
        measured |= {
            "refused": float(price.is_dear),
            "bytes, said": price.kept / kept,
            "view, said": price.view_seconds / view,
            "query, said": price.query_seconds / query,
        }
    return measured


class _Even(Random):
    """Leaves out nothing, and makes no key too long."""

    def random(self) -> float:
        return 0.99


def change_cost(lab: Lab, dsn: str, name: str, rows: int) -> float:
    """Return the microseconds that a new row of the largest table costs in a batch."""
    case = read_case(name)
    begin_case(lab, case, Random(name))
    lab.execute("set search_path = lab")
    add_columns(lab, case)
    made = propose(
        Settings.of(dsn, dsn, "waltally", "cdc"),
        {"report": case.query},
        Options(timezone="UTC", prove="none", anyway=True),
    )
    below = followed(lab, made.files, tables_of(case))

    def write(first: int, last: int, tables: Mapping[str, int]) -> float:
        def own() -> None:
            for table, before in tables.items():
                insert(lab, case, table, before + first, before + last)

        return seconds_of(lab, below, own)

    for place, table in enumerate(tables_of(case)):
        write(1, rows_of(case, place, rows), {table: 0})
    fill_models(lab)
    write(1, BATCH, {tables_of(case)[-1]: rows})
    seconds = write(BATCH + 1, 2 * BATCH, {tables_of(case)[-1]: rows})
    return 1e6 * seconds / BATCH


def followed(lab: Lab, files: Mapping[str, str], tables: list[str]) -> list[Below]:
    """Follow the tables, make the models in the lab, and return those over tables."""
    for table in tables:
        lab.follow(table)
    models, _ = rendered_models(
        {Path(path).stem: text for path, text in files.items() if path.endswith(".sql")}
    )
    lab.execute("set search_path = pg_catalog")
    below = []
    for own, (query, options) in models.items():
        if any(f"{{{other}}}" in query for other in models):
            Dependent(lab, own, query, **options)
        else:
            below.append(Below(lab, own, query, _Even(1), **options))
            below[-1].has_parts = False
    return below


def seconds_of(lab: Lab, below: list[Below], write: Callable[[], object]) -> float:
    """Return how long the models take to catch up with what is written to their tables."""
    lab.execute("set search_path = lab")
    write()
    lab.execute("set search_path = pg_catalog")
    lab.execute("analyze")
    begun = time.perf_counter()
    for model in below:
        model.catch_up(is_cut=False)
    return time.perf_counter() - begun


def plain(text: str) -> tuple[str, dict[str, object]]:
    """Return a file's query over tables and models in the search path, and its config."""
    query, options = rendered(text)
    return re.sub(r"\{(\w+)\}", r'"\1"', query), options


def bytes_of(database: Database, function: str, name: str) -> float:
    """Return what a function says that a table takes."""
    return float(database.value(f"select {function}(%s::regclass)", name))


def measure(rows: int, change_rows: int, cases: list[str]) -> Iterator[Table]:
    """Measure the cases; all of the corpus where none is named."""
    found: dict[str, dict[str, float]] = {}
    with (
        Cluster() as cluster,
        empty_database(cluster) as database,
        empty_database(cluster) as other,
        Lab(cluster.dsn(other.name)) as lab,
    ):
        database.with_functions()
        for name in cases or CASES:
            found[name] = measure_case(database, name, rows)
            found[name]["a change, µs"] = change_cost(
                lab, cluster.dsn(other.name), name, change_rows
            )
            show(f"{rows:,} rows", [{"query": name, **found[name]}])
    written = [one for one in found.values() if not one["refused"]]
    summary = [
        {
            f"of each query; {len(found) - len(written)} of {len(found)} are refused": what,
            "median": median(values),
            "worst": worst(values),
        }
        for what, worst in (("view, ms", max), ("time", min), ("bytes", max), ("a change, µs", max))
        for values in [[one[what] for one in written]]
    ]
    yield Table("queries", summary, {"cases": found})


if __name__ == "__main__":
    main(
        __doc__,
        measure,
        rows=(1_000_000, "of a case's largest table"),
        change_rows=(20_000, "of it where changes are measured"),
        cases=(CASES, "cases of the corpus"),
    )
