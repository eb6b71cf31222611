"""A model that groups by a value of any type is what `create table as` of its query would be."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from random import Random
from typing import Any

import psycopg2
import pytest

from testkit.comparison import apart
from testkit.databases import empty_database
from testkit.servers import Cluster
from tests.queries.lab import Lab, Model
from tests.queries.writer import Writer
from waltally.tables import literal, quoted

DATABASES = {
    "C": "template template0 lc_collate 'C' lc_ctype 'C'",
    "libc": "template template0 lc_collate 'C.UTF-8' lc_ctype 'C.UTF-8'",
    "icu": "template template0 locale_provider icu icu_locale 'de' lc_collate 'C' lc_ctype 'C'",
}

WORDS = ("", " ", "a", "A", "ä", "Z", "ab", "ab ", "ß", "x'y", 'q"q', "{a}", "back\\slash")
LONG = "".join(Random(1).choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", k=6000))
"""No compression makes it short enough for an index."""

MOMENTS = ("2026-03-29 01:00:00.5", "2026-03-29 01:00:01.4", "infinity", "0044-03-15 BC")
CASES: dict[str, tuple[str, ...]] = {
    "boolean": ("true", "false"),
    "smallint": ("0", "-1", "7"),
    "bigint": ("0", "9223372036854775807"),
    "numeric": ("0", "1.5", "1.50", "1e20", "-0.333333333333333333333"),
    "numeric(12, 2)": ("0.00", "1.50", "-2.25", "9999999999.99"),
    "real": ("0", "-0", "0.1", "1e-30"),
    "double precision": ("0", "-0", "0.1", "1e300"),
    "text": (*WORDS, LONG),
    'text collate "C"': WORDS,
    'text collate "de-x-icu"': WORDS,
    "varchar(9) collate lab.loose": (*WORDS[:5], "AB", "Ab"),
    "varchar": WORDS,
    "varchar(5)": ("", "a", "A", "ab", "zzzzz"),
    "varchar(5)[]": ("{}", "{a,b}", "{NULL,a}", "[2:3]={p,q}"),
    "bpchar": ("", "a", "a ", "ab"),
    "char(4)": ("", "a", "ab", "é"),
    '"char"': ("", "a", "\\303"),
    "name": ("x", "y z", "ü"),
    "bytea": ("", "\\x00", "\\xdeadbeef", "\\x5c27"),
    "bit(3)": ("000", "101"),
    "varbit(8)": ("", "0", "1", "10101010"),
    "uuid": (
        "00000000-0000-0000-0000-000000000001",
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    ),
    "date": ("2026-01-01", "infinity", "0044-03-15 BC"),
    "time": ("00:00", "23:59:59.999", "24:00"),
    "time(0)": ("00:00", "23:59:59"),
    "timetz": ("00:00+00", "01:00+01", "00:00+01"),
    "timestamp": MOMENTS,
    "timestamp(0)": MOMENTS,
    "timestamptz": MOMENTS,
    "interval": ("1 day", "24:00", "1 mon", "30 days", "00:00:00.5"),
    "interval(0)": ("1 day", "24:00", "00:00:01"),
    "inet": ("10.0.0.1", "10.0.0.0/8", "::1"),
    "cidr": ("10.0.0.0/8", "::1/128"),
    "macaddr": ("08:00:2b:01:02:03", "08:00:2b:01:02:04"),
    "jsonb": ("null", "1", "1.0", '{"k": "x", "l": [1, 2]}', '{"k": null}', '"s"'),
    "integer[]": ("{}", "{1,2}", "{NULL,3}", "{{1,2},{3,4}}"),
    "numeric(12, 2)[]": ("{}", "{1.50}", "{1.50,NULL}"),
    "interval[]": ("{1 day}", "{24:00}"),
    "bit(3)[]": ("{000}", "{000,101}"),
    "daterange": ("empty", "[2026-01-01,2026-02-01)", "(,)"),
    "numrange": ("[1,2)", "[1.0,2)", "empty"),
    "int4multirange": ("{}", "{[1,3),[5,7)}"),
    "xid8": ("1", "2"),
    "oid": ("1", "2"),
    "pg_lsn": ("0/0", "0/16B3748"),
    "tsvector": ("", "a b", "a:1 b:2"),
    # A domain is what it is over.
    "lab.short": ("a", "zzzzz"),
    # Of extensions.
    "public.citext": ("a", "A", "ab", "AB", "Ab", LONG),
    "public.citext[]": ("{}", "{a,B}", "{A,b}", "{NULL}"),
    "public.hstore": ("", "a=>1", "a=>1, b=>NULL"),
    '"l.x".ltree': ("", "a.b", "a"),
    "public.cube": ("(1,2)", "(1),(2)", "0"),
    "public.isbn": ("0-393-04002-X", "978-0-11-000533-1"),
    "public.seg": ("1 .. 2", "1.0 .. 2", "5"),
}
"""By a type the values of a column."""

KEPT_ALONE: dict[str, tuple[str, ...]] = {
    "json": ('{"k":1}', '{"k" : 1}', "[1,[2]]"),
    "xml": ("<a/>", "<a></a>"),
    "point": ("(1,2)", "(0,-1)"),
    "box": ("(1,1),(0,0)", "(3,3),(2,2)"),
    "jsonpath": ("$.a", "$.b[*]"),
}
"""Of types that PostgreSQL does not group by."""

EXPRESSIONS = {
    "not finite": ("double precision", "v * 'Infinity'::float8"),
    "cut": ("text", "left(v, 2)::varchar(3)"),
    "rounded": ("numeric", "round(v, 1)::numeric(30, 1)"),
    "collated": ("text", 'v collate "C"'),
    "an element": ("integer[]", "v[1]"),
    "of a name": ("name", "upper(v::text)"),
}
"""What else a query groups by: the type of a column v, and the expression."""

WIDENED = (
    "select code, bits, amount, at, count(*) as n, code || count(*) as c from {t} group by 1, 2, 3, 4",
    "select id, amount, code, code || 'x' as c, at, bits from {t}",
)
"""A fact and rows with types that have a length."""

COLUMNS = """
select attname::text, case typtype when 'd' then format_type(typbasetype, typtypmod) else format_type(atttypid, atttypmod) end,
    attcollation::regcollation::text, cdc.equal_is_identical(atttypid, atttypmod, attcollation)
from pg_attribute inner join pg_type on pg_type.oid = atttypid
where attrelid = %s::regclass and attnum > 0 and attname = any('{id,v,n,s}')
order by attnum
"""


@pytest.fixture(scope="module", params=DATABASES)
def lab(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Lab]:
    database = empty_database(cluster, options=DATABASES[request.param])
    domain = (
        "create domain lab.short as varchar(5); create collation lab.loose"
        " (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
    )
    extensions = "".join(
        f"create extension {name} schema public;"
        for name in ("citext", "hstore", "cube", "isn", "seg")
    )
    others = 'create schema "l.x";'
    others += 'create extension ltree schema "l.x"'
    with Lab(cluster.dsn(database.name), domain, extensions, others) as made:
        yield made


IN_EACH = [
    (database, case)
    for database in DATABASES
    for case in (*CASES, *EXPRESSIONS, *KEPT_ALONE)
    # No other type has a collation.
    if database == "C" or re.search("text|char|name|coll|cut|short", case)
]


@pytest.mark.parametrize(("lab", "case"), IN_EACH, indirect=["lab"])
def test_a_model_is_what_create_table_as_of_its_query_would_be(lab: Lab, case: str) -> None:
    rng = Random(case)
    type_, key = EXPRESSIONS.get(case, (case, "v"))
    lab.clear()
    lab.execute(
        "drop table if exists lab.t cascade; drop table if exists lab.asked_m, lab.asked_r;"
        f"create table lab.t (id int generated always as identity primary key, v {type_}, n int)"
    )
    lab.follow("t")
    queries = {"r": f"select id, {key} as v, n from {{t}}"}
    if case not in KEPT_ALONE:
        queries["m"] = f"select {key} as v, count(*) as n, sum(n) as s from {{t}} group by {key}"
    own = (CASES | KEPT_ALONE)[type_]
    values = {quoted("v"): ["null", *map(literal, own)], quoted("n"): ["1", "2"]}
    writer = Writer(lab, rng, {"t": values}, {})
    for _ in range(5):
        lab.execute(writer._statement())
    if LONG in own:
        # From here on a hash finds the groups.
        lab.execute("insert into lab.t (v, n) values (%s, 1)", LONG)
    for name, query in queries.items():
        asked = lab.named(query, "lab")
        lab.execute(f"create table lab.asked_{name} as {asked} with no data")
    models = [Model(lab, name, query, rng) for name, query in queries.items()]
    for model in models:
        seed(lab, model)
        must_be_asked(lab, model)
    for _ in range(4):
        for _ in range(rng.choice((1, 5, 20))):
            lab.execute(writer._statement())
        for model in models:
            model.catch_up()
            must_be_asked(lab, model)
    for model in models:
        seed(lab, model)
        must_be_asked(lab, model)


def seed(lab: Lab, model: Model) -> None:
    """Fill the model from what its query gives where the table is, as a seed does."""
    lab.execute("truncate cdc.baseline_group")
    compiled = json.dumps(model.compiled)
    ranged = lab.value("select cdc.write_range(%s, 1, 'from lab.t')", compiled)
    lab.execute(
        f"insert into cdc.baseline_group select 'lab', '{model.name}', 'lab.t', dimensions,"
        f" sums::numeric[] from ({ranged}) as given"
    )
    model.seeded = model.now()
    model.rebuild()


def must_be_asked(lab: Lab, model: Model) -> None:
    """See that the model has the columns and rows of a table that the query makes."""
    columns: list[tuple[Any, ...]] = lab.execute(COLUMNS, f"lab.asked_{model.name}")
    assert lab.execute(COLUMNS, f"lab.{model.name}") == columns
    names = ", ".join(
        f'{name}::text collate "C"' if is_plain or model.is_rows else name
        for name, _, _, is_plain in columns
    )
    asked = f"select {names} from ({lab.named(model.expected, 'seen')}) as q"
    assert lab.execute(apart(f"select {names} from lab.{model.name}", asked)) == []


LENGTHS = {
    "amount": "numeric(5,2)",
    "at": "timestamp(0) without time zone",
    "bits": "bit varying(3)",
    "code": "character varying(3)",
}


@pytest.mark.parametrize("lab", ["C"], indirect=True)
@pytest.mark.parametrize("query", WIDENED, ids=["fact", "rows"])
@pytest.mark.parametrize(
    ("column", "value"),
    # The last two would be rounded, and to the values of the first row.
    [
        *(("code", "abcd"), ("bits", "1011"), ("amount", "1234.5")),
        *(("amount", "1.2512"), ("at", "2026-01-01 00:00:00.25")),
    ],
)
def test_a_length_that_is_widened_at_the_source_cuts_no_value(
    lab: Lab, query: str, column: str, value: str
) -> None:
    lab.clear()
    lab.execute(
        "drop table if exists lab.t cascade; create table lab.t"
        " (id int primary key, code varchar, bits varbit, amount numeric, at timestamp)"
    )
    lab.follow("t")
    # As it was when the model was made.
    for own in lab.sources["t"]["columns"]:
        if own["name"] in LENGTHS:
            own["exact"] = LENGTHS[own["name"]]
    model = Model(lab, "m", query, Random(1))
    types = (
        "select attname, format_type(atttypid, atttypmod) from pg_attribute"
        " where attrelid = 'lab.m'::regclass and attname::text = any(%s)"
    )
    assert dict(lab.execute(types, [*LENGTHS])) == LENGTHS
    lab.execute("insert into lab.t values (1, 'abc', '101', 1.25, '2026-01-01')")
    model.catch_up()
    lab.execute(f"create view lab.reading as select {column} from lab.m")
    lab.execute(f"insert into lab.t (id, {column}) values (2, %s)", value)
    with pytest.raises(psycopg2.Error, match="a view still needs the former ones") as stopped:
        model.catch_up()
    assert "Drop what needs" in str(stopped.value.diag.message_hint)
    lab.execute("drop view lab.reading")
    model.catch_up()
    assert model.differences() == []
    assert "(" not in dict(lab.execute(types, [column]))[column]
    # It stays so.
    lab.execute(f"create view lab.reading as select {column} from lab.m")
    seed(lab, model)
    assert model.differences() == []


@pytest.mark.parametrize("lab", ["C"], indirect=True)
@pytest.mark.parametrize("has_old_rows", [True, False], ids=["old rows", "keys"])
@pytest.mark.parametrize("type_", ["text collate lab.loose", "public.citext"])
def test_rows_have_a_key_of_texts_that_are_equal_and_differ(
    lab: Lab, type_: str, has_old_rows: bool
) -> None:
    rng = Random(1)
    lab.clear()
    lab.execute(
        "drop table if exists lab.r cascade;"
        f"create table lab.r (k {type_} primary key, n int, doc text)"
    )
    # Of a document that an update leaves alone the stream has nothing.
    lab.follow("r", has_old_rows, leaves_out=True)
    model = Model(lab, "m", "select k, n, k::text || n as kn, doc from {r}", rng)
    keys = [literal(k) for k in ("a", "A", "b", "B", "ab", "Ab", "AB")]
    values = {'"k"': keys, '"n"': ["1", "2"], '"doc"': ["null", "repeat('x', 60)"]}
    writer = Writer(lab, rng, {"r": values}, {"r": ['"k"']})
    for _ in range(20):
        # Another spelling of the key is an update.
        lab.transact(*(writer._statement() for _ in range(rng.choice((1, 3, 10)))))
        model.catch_up()
        assert model.differences() == []
        spelled = 'select k::text collate "C" as k from lab.'
        assert lab.execute(apart(f"{spelled}m", f"{spelled}r")) == []


@pytest.mark.parametrize("lab", ["C"], indirect=True)
def test_equal_texts_of_two_tables_are_one_group(lab: Lab) -> None:
    lab.clear()
    lab.execute("drop table if exists lab.t, lab.r cascade")
    for table in ("t", "r"):
        lab.execute(f"create table lab.{table} (id serial primary key, k text collate lab.loose)")
        lab.follow(table)
    both = "select k from {t} union all select k from {r}"
    model = Model(lab, "m", f"select k, count(*) as n from ({both}) as x group by k", Random(1))
    lab.execute("begin; insert into lab.t (k) values ('a'); insert into lab.r (k) values ('A')")
    lab.execute("commit")
    model.catch_up(is_cut=False)
    assert model.lab.execute("select lower(k), n from lab.m") == [("a", 2)]


@pytest.mark.parametrize("lab", ["C"], indirect=True)
def test_a_collation_that_is_another_one_here_is_the_default_one(lab: Lab) -> None:
    lab.clear()
    lab.execute(
        "drop table if exists lab.t cascade; create table lab.t (id int, k text collate lab.loose)"
    )
    lab.follow("t")
    query = "select k, count(*) as n from {t} group by k"
    (column,) = (own for own in lab.sources["t"]["columns"] if own["name"] == "k")
    assert lab.compile(query)["collations"] == {"k": "lab.loose"}
    column["collation_is"] = column["collation_is"].replace("level2", "level1")
    assert lab.compile(query)["collations"] == {}


@pytest.mark.parametrize("lab", ["icu"], indirect=True)
def test_a_state_says_reindex_where_texts_sort_in_another_way(lab: Lab) -> None:
    said = "select cdc.explain_upgrade(cdc.major_version())"
    assert lab.value(said) is None
    name = lab.value("select quote_ident(current_database())")
    lab.execute("update pg_database set datcollversion = '1' where datname = current_database()")
    remedy = lab.value(said).split("`")[1]
    assert remedy.startswith(f"reindex database {name}; alter database")
    for statement in remedy.split(";"):
        lab.execute(statement or "select")
    assert lab.value(said) is None
