"""Values that a type or a collation takes for equal are groups of their own, by their texts.

Tables with a column of every type and of every kind of collation, and facts of all their columns: a
row differs from the others of its table in one column. Python counts the texts that the server
prints.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest
from auditing.job import audit

from loader.source.table import BY_SESSION
from testkit.databases import empty_database, paste
from testkit.models import Models
from testkit.project import host_project
from testkit.servers import Cluster
from tests.spark.audited import Audited
from tests.spark.test_spelling import NO_INPUT, SAMPLES, TYPES, quoted_type
from waltally.errors import TableUnfit
from waltally.tables import literal

EXTENSIONS = (
    *("citext", "hstore", "ltree", "isn", "cube", "seg", "intarray", "lo", "pg_trgm"),
    *("earthdistance", "tablefunc", "btree_gist"),
)
"""Every one of PostgreSQL that brings a type."""

COLLATIONS = {
    "blind": "(provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
    "bare": "(provider = icu, locale = 'und-u-ks-level1', deterministic = false)",
    "loose": "(provider = icu, locale = 'und-u-ka-shifted-kn', deterministic = false)",
    "plain": 'from "POSIX"',
}
MADE_TYPES = """
    create domain decimals as numeric; create domain days as interval;
    create type priced as (price numeric, name citext);
"""
COLLATED_TYPES = """
    create domain tag_{0} as text collate {0};
    create domain tag_of_{0} as tag_{0} check (value <> 'x');
    create domain code_{0} as char(4) collate {0};
    create domain mail_{0} as citext collate {0};
    create type pair_{0} as (a text collate {0}, b char(3) collate {0});
    create type span_{0} as range (subtype = text, collation = {0});
"""

ALIKE = ("Email", "email", "\u00e9mail", "e-mail", "1", "01", "a", "a ", "A")
OF_TEXT = ("text", "varchar", "varchar(9)", "char(6)", "bpchar", "name", "citext")
OF_TEXTS = ("text[]", "citext[]", "char(6)[]", "tag_{0}[]")
OF_COLLATION = ("tag_{0}", "tag_of_{0}", "code_{0}", "mail_{0}", "pair_{0}", "span_{0}")

BLIND = "text collate blind"
FEW = (
    ("float4", "float8", "numeric", "citext"),
    (BLIND, "bpchar collate loose", "tag_blind", "jsonb"),
)
"""What is also audited and replayed with many changes: in Spark a fact of many columns is slow."""

CONDITIONS = ("citext", BLIND, "bpchar collate loose", "tag_blind")

EQUAL: dict[str, tuple[str, ...]] = {
    "numeric": ("1", "1.0", "1.00", "0", "-0.0", "1e30"),
    "float4": ("0", "-0", "1e20", "1e-7"),
    "float8": ("0", "-0", "1e22", "1e-300"),
    "interval": ("1 day", "24:00:00", "1 mon", "30 days", "-24:00", "-1 day"),
    "jsonb": ('{"a": 1.0}', '{"a": 1.00}', "1", "1.0", '"1"', "null"),
    "numrange": ("[1.5,2)", "[1.50,2.0)"),
    "nummultirange": ("{[1.5,2)}", "{[1.50,2)}"),
    "inet": ("10.0.0.1", "10.0.0.1/24", "::ffff:1.2.3.4", "1.2.3.4"),
    "timetz": ("12:00+00", "13:00+01"),
    "bpchar": ALIKE,
    "citext": ALIKE,
    "cube": ("(0)", "(-0)", "(1,2)"),
    "ean13": ("978-0-393-04002-9",),
    "earth": ("(6378168,0,0)",),
    "hstore": ("a=>1,b=>2", "b=>2,a=>1", "a=>NULL", 'a=>"NULL"'),
    "isbn": ("0-393-04002-X", "0-393-04002-X!"),
    "isbn13": ("978-0-393-04002-9",),
    "ismn": ("M-060-11561-5",),
    "ismn13": ("979-0-060-11561-5",),
    "issn": ("1436-4522",),
    "issn13": ("977-1436-452-00-8",),
    "lo": ("1", "2"),
    "lquery": ("Top.*", "top.*"),
    "ltree": ("Top.a", "top.a"),
    "ltxtquery": ("Top & a", "top & a"),
    "query_int": ("1&2", "1|2"),
    "seg": ("1", "1.0", "1.00", "0.9 .. 1.1"),
    "tablefunc_crosstab_2": ("(a,b,)", "(A,b,)"),
    "tablefunc_crosstab_3": ("(a,b,,)",),
    "tablefunc_crosstab_4": ("(a,b,,,)",),
    "upc": ("012345678905",),
    "bpchar[]": ('{"a"}', '{"a "}'),
    "numeric[]": ("{1.0}", "{1.00}", "{NaN}"),
    "interval[]": ("{1 day}", "{24:00:00}"),
    "float8[]": ("{0}", "{-0}", "{NaN}"),
    # The stream has texts of a domain: NaN is not null there.
    "decimals": ("1.0", "1.00", "NaN", "Infinity"),
    "measure": ("0", "-0", "NaN", "1e20"),
    "days": ("1 day", "24:00"),
    "priced": ("(1.0,a)", "(1.00,a)", "(NaN,A)", "(1.0,A)"),
}
"""Of types and what is made of them, texts of values of which some are equal."""

NO_TEXT = {
    *NO_INPUT,
    *("gtrgm", "ghstore", "ltree_gist", "intbig_gkey", "gbtreekey_var"),
    *(f"gbtreekey{size}" for size in (2, 4, 8, 16, 32)),
}
"""No value of these can be written."""

KINDS = """
    select typname::text from pg_type
    where
        typtype <> 'p' and typcategory <> 'A' and typname <> all(%s) and typrelid not in (
            select oid from pg_class where relkind <> 'c'
        )
        and (
            typnamespace = 'pg_catalog'::regnamespace
            or exists (select from pg_depend where classid = 'pg_type'::regclass
                and objid = pg_type.oid and deptype = 'e')
        )
"""
"""Every type of PostgreSQL and its extensions that a column can have, without arrays."""

PER_FACT = 28
"""A unique index takes 32 columns."""

Groups = Counter[tuple[str | None, ...]]


@dataclass(frozen=True)
class Kind:
    """A column: its name, its type as SQL has it, texts of values."""

    name: str
    type_: str
    texts: tuple[str, ...]

    def value(self, text: str) -> str:
        """Return the SQL of a value."""
        return f"{literal(text)}::{self.type_}"

    def stored(self, printed: bytes | None) -> str | None:
        """Return the text of a value in a fact, from what the server prints."""
        if printed is None:
            return None
        text = printed.decode()
        match self.type_:
            case "bool":
                return {"t": "true", "f": "false"}[text]
            case "bytea":
                return text.removeprefix("\\x")
            case "float4" | "float8":
                number = Decimal(text)
                return f"{number:f}" if number else "0"
        return text


def kinds(connection: psycopg.Connection[tuple[object, ...]]) -> list[Kind]:
    """Make the types; return a column of each."""
    for each in EXTENSIONS:
        connection.execute(f"create extension if not exists {each}".encode())
    connection.execute(f"{TYPES}; {MADE_TYPES}".encode())
    samples = {name: EQUAL.get(name, texts[:6]) for name, texts in SAMPLES.items()} | EQUAL
    every = {str(name) for (name,) in connection.execute(KINDS, (sorted(NO_TEXT),)).fetchall()}
    assert every - set(BY_SESSION) - samples.keys() == set(), "a type without a sample"
    for name, definition in COLLATIONS.items():
        connection.execute(f"create collation {name} {definition}".encode())
        connection.execute(COLLATED_TYPES.format(name).encode())
        samples |= {f"{type_} collate {name}": ALIKE for type_ in OF_TEXT}
        samples |= {
            f"{type_.format(name)} collate {name}": tuple(f'{{"{text}"}}' for text in ALIKE)
            for type_ in OF_TEXTS
        }
        samples |= {type_.format(name): ALIKE for type_ in OF_COLLATION[:4]}
        samples[f"pair_{name}"] = tuple(f'("{text}","{text[:3]}")' for text in ALIKE)
        samples[f"span_{name}"] = tuple(f'["{text}",)' for text in ALIKE)
    return [
        Kind(f"c{number}", quoted_type(type_), texts)
        for number, (type_, texts) in enumerate(samples.items())
        if type_.partition("(")[0].partition("[")[0] not in BY_SESSION
        # A new server's types come with it; an older one lacks some.
        and connection.execute(
            "select to_regtype(%s) is not null", (quoted_type(type_.partition(" ")[0]),)
        ).fetchone()
        == (True,)
    ]


@dataclass(frozen=True)
class Declared:
    """A fact of some columns of a table; `texts` are of the column that a condition asks for."""

    table: str
    columns: Sequence[Kind]
    tested: Kind | None = None
    texts: tuple[str, ...] = ()

    @property
    def model(self) -> str:
        """The fact as a model of dbt."""
        where = {self.tested.name: {"in": self.texts}} if self.tested else {}
        dimensions = {each.name: {"type": "text", "nulls": "count"} for each in self.columns}
        return (
            f"{{{{ waltally.fact(tables={{'rows': 'public.{self.table}'}},"
            f" dimensions={json.dumps(dimensions)}, where={json.dumps(where)},"
            " measures={'row_count': {'count': 'rows'}}) }}"
        )

    def count(self, rows: Sequence[Mapping[Kind, str | None]]) -> Groups:
        """Return how often the texts of the columns are there."""
        return Counter(
            tuple(row[each] for each in self.columns)
            for row in rows
            if self.tested is None or row[self.tested] in self.texts
        )


class Everything:
    """Tables of all the columns, and their facts."""

    def __init__(self, pipeline: Audited, columns: Sequence[Kind]) -> None:
        self.pipeline = pipeline
        self.last = 0
        places = range(0, len(columns), PER_FACT)
        self.tables: dict[str, Sequence[Kind]] = {
            f"t_{at}": columns[at : at + PER_FACT] for at in places
        }
        self.facts = {f"f{name}": Declared(name, of) for name, of in self.tables.items()}
        self.few: dict[str, Declared] = {}
        for number, types in enumerate(FEW):
            table = f"t_few_{number}"
            of = [each for each in columns if each.type_ in types]
            self.tables[table] = of
            self.few[f"f{table}"] = Declared(table, of)
            for each in of:
                if each.type_ in CONDITIONS:
                    self.few[f"f_{each.name}"] = Declared(table, [each], each, ("email", "a "))
        self.facts |= self.few
        for name, kinds in self.tables.items():
            listed = ", ".join(f"{each.name} {each.type_}" for each in kinds)
            self.execute(
                f"create table {name} (id int, {listed})",
                f"alter table {name} replica identity full",
            )

    def execute(self, *statements: str) -> None:
        with closing(psycopg.connect(self.pipeline.dsn)) as connection:
            for statement in statements:
                connection.execute(statement.encode())
            connection.commit()

    def insert(self, copies: int) -> None:
        """Insert rows of which each differs in one column: every value of it, and null."""
        inserts = []
        for table, columns in self.tables.items():
            names = ", ".join(each.name for each in columns)
            typical = [each.value(each.texts[0]) for each in columns]
            for place, each in enumerate(columns):
                for value in (*map(each.value, each.texts), "null"):
                    first, self.last = self.last + 1, self.last + copies
                    row = [*typical[:place], value, *typical[place + 1 :]]
                    inserts.append(
                        f"insert into {table} (id, {names}) select id, {', '.join(row)}"
                        f" from generate_series({first}, {self.last}) as id"
                    )
        self.execute(*inserts)

    def move(self) -> None:
        """Give some rows another value of a column, equal or not."""
        self.execute(
            *(
                f"update {table} set {each.name} = {each.value(text)}"
                f" where id % {len(columns)} = {number} and id / {len(columns)} % 7 = {place}"
                for table, columns in self.tables.items()
                for number, each in enumerate(columns)
                for place, text in enumerate(each.texts[:6])
            )
        )

    def delete(self) -> None:
        """Delete half of the rows."""
        self.execute(*(f"delete from {table} where id % 4 in (0, 1)" for table in self.tables))

    def rows(self, table: str) -> list[dict[Kind, str | None]]:
        """Return the texts of all rows, as they must be in a fact."""
        columns = self.tables[table]
        names = ", ".join(each.name for each in columns)
        options = "-c TimeZone=UTC -c search_path=pg_catalog,pg_temp"
        with closing(psycopg.connect(self.pipeline.dsn, options=options)) as connection:
            found = connection.execute(f"select {names} from public.{table}".encode()).pgresult
        assert found is not None
        return [
            {each: each.stored(found.get_value(row, place)) for place, each in enumerate(columns)}
            for row in range(found.ntuples)
        ]

    def built(self, name: str) -> Groups:
        """Return what a fact holds."""
        names = ", ".join(each.name for each in self.facts[name].columns)
        groups = self.pipeline.source.execute(
            f"select {names}, row_count from analytics.{name} where row_count <> 0"
        )
        return Counter({tuple(group): rows for *group, rows in groups})

    def differences(self) -> list[tuple[str, list[tuple[str, str | None]], int, int]]:
        """Return where the facts differ from the count: a group's odd values, built, counted."""
        rows, found = {table: self.rows(table) for table in self.tables}, []
        for name, fact in self.facts.items():
            counted, built = fact.count(rows[fact.table]), self.built(name)
            [(typical, _)] = counted.most_common(1)
            for group in counted.keys() | built.keys():
                if counted[group] != built[group]:
                    values = zip(fact.columns, group, typical, strict=True)
                    odd = [(each.type_, text) for each, text, usual in values if text != usual]
                    found.append((name, odd, built[group], counted[group]))
        return found

    def stage(self) -> None:
        self.pipeline.must("run", "--once")

    def must_be_exact(self) -> None:
        self.pipeline.build()
        assert self.pipeline.rejected() == []
        assert self.differences() == []

    def job(self, name: str, *flags: str) -> None:
        code, out, err = self.pipeline.run(*flags, job=name)
        assert code == 0, out + err

    def audit(self, *facts: str) -> dict[str, int]:
        """Return how many values the audit finds wrong in each fact, where it finds some."""
        report = audit(self.pipeline.settings(*facts))
        assert not report.refused
        found = {each.name: each.comparison.difference_count for each in report.facts}
        return {name: count for name, count in found.items() if count}


@pytest.fixture
def everything(cluster: Cluster, tmp_path: Path) -> Iterator[Everything]:
    with empty_database(cluster, "alike", "encoding 'UTF8' template template0") as database:
        with closing(psycopg.connect(cluster.dsn("alike"), autocommit=True)) as connection:
            columns = kinds(connection)
        made = Everything(Audited(database, tmp_path, Models()), columns)
        models = {name: fact.model for name, fact in made.facts.items()}
        made.pipeline.use_project(host_project(tmp_path, models))
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("who_counts", ["server"], indirect=True)
@pytest.mark.usefixtures("who_counts")
def test_a_group_is_what_has_the_same_texts(everything: Everything, tmp_path: Path) -> None:
    pipeline = everything.pipeline
    everything.insert(2)
    code, said = pipeline.refused("setup")
    assert code == TableUnfit.exit_code
    for remedy in re.findall(r"^Try: (.*)", said, re.M):
        paste(pipeline.source.cluster, "alike", remedy)
    pipeline.must("setup")
    everything.job("seed")
    everything.stage()
    everything.must_be_exact()

    everything.insert(1)
    everything.move()
    with pipeline.follow():
        assert everything.audit(*everything.few) == {}
    everything.must_be_exact()
    everything.delete()
    everything.stage()
    everything.must_be_exact()
    archive, named = str(tmp_path / "archive"), (("--fact", name) for name in everything.few)
    everything.job("archive", "--to", archive)
    everything.job("replay", "--from", archive, "--compare", *itertools.chain(*named))
    with pipeline.follow():
        assert everything.audit() == {}

    # Who checks tells apart what the column does not.
    [(name, column)] = (
        (name, each.name)
        for name, fact in everything.few.items()
        for each in fact.columns
        if each.type_ == BLIND and fact.tested is None
    )
    pipeline.source.execute(
        f"update analytics.{name} set row_count = row_count + case {column} when 'a' then 1"
        f" else -1 end where {column} in ('a', 'A')"
    )
    with pipeline.follow():
        assert everything.audit(name) == {name: 2}
