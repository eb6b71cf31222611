"""A value has the same text in the stream and in the seed, whatever its type."""

from __future__ import annotations

from contextlib import closing
from random import Random

from counting import columns
from counting.values import NOT_FINITE
from waltally_jobs.common import arrow
from waltally_jobs.common.connections import connect

from loader.source.table import BY_SESSION
from tests.spark.support import Source
from waltally.session_settings import _VALUES
from waltally.tables import Table, quoted

TYPES = """
    create type mood as enum ('sad', 'o''k "x" \\ y');
    create domain flag as bool;
    create domain measure as float8;
    create domain octets as bytea;
    create domain code as char(6);
    create type pair as (word char(4), flag bool, size float8);
    create type span as range (subtype = text);
    create type shout as enum ('quiet');
    create function loud(shout) returns text language sql as $$ select 'LOUD' $$;
    create cast (shout as text) with function loud(shout);
"""

TEXTS = (
    *("", " ", "a", "a  ", "'", '"', "\\", "\\x41", "null", "é\u20ac\U0001f600", "a\tb\nc"),
    "{},()",
)
JSON = ('{"a" : 1.0, "b":"\\u00e9"}', "null", "1e3", '"x"')
SAMPLES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("name", "text", "varchar", "varchar(9)", "bpchar", "char(12)"), TEXTS),
    **{"bool": ("t", "f"), "flag": ("t", "f"), "bool[]": ("{t,NULL,f}",), "char": ("a", "", "\\")},
    **{"bytea": ("", "\\x", "\\x00ff10", "abc"), "octets": ("\\x00ff",), "code": ("ab",)},
    **{"int2": ("0", "-32768"), "int4": ("0", "-7"), "int8": ("9223372036854775807",)},
    **{"oid": ("4294967295",), "xid": ("7",), "cid": ("7",), "xid8": ("18446744073709551615",)},
    **{"tid": ("(1,2)",), "pg_lsn": ("0/15368E0",), "refcursor": ("a  ",)},
    "float4": ("0", "-0", "1e-7", "1e20", "1.1", "3.4e38", "NaN", "Infinity", "-Infinity"),
    "float8": ("0", "-0", "1e-300", "1e22", "0.1", "123456789012345678", "NaN", "-inf", "inf"),
    "numeric": ("0", "7.50", "-0.0", "1e30", "1e-30", "NaN", "Infinity", "-Infinity"),
    **{"numeric(8,3)": ("7.5",), "measure": ("1e20", "NaN", "0.1"), "float8[]": ("{1e20,NaN}",)},
    **{"json": JSON, "jsonb": JSON, "jsonpath": ("$.a[*] ? (@ > 1)",)},
    "xml": ("<a/>", '<?xml version="1.0" encoding="latin1"?><a>b</a>', "text"),
    **{"date": ("2026-11-22", "0001-01-01 BC", "infinity"), "time": ("12:00", "23:59:59.5")},
    "timestamp": ("2026-11-22 12:00", "2026-11-22 12:00:00.123456", "-infinity"),
    "timestamptz": ("2026-11-22 12:00+02", "1850-01-01 00:00+00", "infinity"),
    "interval": ("1 year -2 days 03:04:05.6", "-1 hour", "0"),
    **{"timetz": ("12:00+05:30",), "bit": ("1",), "varbit": ("", "1010")},
    **{"cidr": ("10.0.0.0/8", "::1/128"), "inet": ("10.0.0.1", "10.0.0.1/24", "::1")},
    **{"macaddr": ("08:00:2b:01:02:03",), "macaddr8": ("08:00:2b:01:02:03:04:05",)},
    **{"point": ("(1,2.5)",), "line": ("{1,2,3}",), "lseg": ("[(1,2),(3,4)]",)},
    **{"box": ("(1,2),(3,4)",), "path": ("[(1,2),(3,4)]", "((1,2),(3,4))")},
    **{"polygon": ("((1,2),(3,4))",), "circle": ("<(1,2),3>",)},
    "uuid": ("00000000-0000-0000-0000-00000000000A",),
    **{"tsvector": ("'a':1A 'b c':2",), "tsquery": ("'a' & !'b'",)},
    **{"txid_snapshot": ("10:20:10,14",), "pg_snapshot": ("10:20:10,14",)},
    **{"int2vector": ("1 2",), "oidvector": ("1 2",), "int4range": ("[1,5)", "empty")},
    **{"int8range": ("[1,5)",), "numrange": ("[1.50,)",), "daterange": ("[2026-01-01,)",)},
    **{"tsrange": ('["2026-01-01 10:00",)',), "tstzrange": ('["2026-01-01 10:00+01",)',)},
    **{"int4multirange": ("{[1,5)}",), "int8multirange": ("{[1,5)}",)},
    **{"nummultirange": ("{[1.50,2)}",), "tsmultirange": ('{["2026-01-01 10:00",)}',)},
    "tstzmultirange": ('{["2026-01-01 10:00+01",)}',),
    "datemultirange": ("{[2026-01-01,2026-02-01)}",),
    **{"mood": ("sad", 'o\'k "x" \\ y'), "mood[]": ("{sad}",), "shout": ("quiet",)},
    **{"pair": ('("a ",t,1e20)', "(,,)"), "pair[]": ('{"(a,t,1)"}',), "span": ('["a ",b)',)},
    **{"char(4)[]": ('{"a",NULL}',), "bytea[]": ('{"\\\\x00ff"}',)},
}
"""Of each type, values as text."""

NO_INPUT = {
    *("gtsvector", "pg_brin_bloom_summary", "pg_brin_minmax_multi_summary", "pg_dependencies"),
    *("pg_mcv_list", "pg_ndistinct", "pg_node_tree"),
}
"""No value of these can be written as text."""

KINDS = """
    select case typname when 'char' then '"char"' else quote_ident(typname) end
    from pg_type
    where typnamespace = 'pg_catalog'::regnamespace and typtype in ('b', 'r', 'm')
        and typcategory <> 'A' and typname <> all(%s) order by 1
"""
"""Every type of PostgreSQL that a column can have, without arrays, which are made of them."""

READ = """
    select
        name,
        case when left(token, 1) = '\\' then substr(token, 2)::jsonb #>> '{}' else token end
    from (
        select name, cdc.image_value((%s::jsonb -> 'columns')::text, name) as token
        from unnest(%s::text[]) as name
    ) as image
"""


def quoted_type(name: str) -> str:
    return '"char"' if name == "char" else name


def test_every_type_has_one_text_in_stream_and_seed_or_is_refused(source: Source) -> None:
    table = Table("public", "Of every type")
    with source.session() as connection:
        connection.ask(TYPES)
        kinds = [name.strip('"') for (name,) in connection.ask(KINDS, (sorted(NO_INPUT),))]
        refused = {name for name in kinds if name in BY_SESSION}
        assert set(kinds) - refused <= SAMPLES.keys(), "a type without a sample"
        # A new server's types come with it; an older one lacks some.
        known = [
            name
            for name in SAMPLES
            if connection.ask("select to_regtype(%s) is not null", (quoted_type(name),))
            == [(True,)]
        ]
        names = {name: f"c {number}" for number, name in enumerate(known)}
        listed = ", ".join(f"{quoted(c)} {quoted_type(name)}" for name, c in names.items())
        connection.ask(f"create table {table.quoted} (id int primary key, {listed})")
        connection.ask("select pg_create_logical_replication_slot('spelling', 'wal2json')")
        dice, most = Random(7), max(map(len, SAMPLES.values()))
        for row in range(2 * most + 1):
            values = [
                SAMPLES[name][row]
                if row < len(SAMPLES[name])
                else dice.choice([None, *SAMPLES[name]])
                if row < 2 * most
                else None
                for name in known
            ]
            marks = ", ".join(
                f"%s::text::{quoted_type(name)}"
                if name != "bytea" and name != "octets"
                else f"%s::{quoted_type(name)}"
                for name in known
            )
            connection.ask(f"insert into {table.quoted} values ({row}, {marks})", values)
        for setting, value in _VALUES.items():
            connection.ask("select set_config(%s, %s, false)", (setting, value))
        streamed: dict[tuple[int, str], str | None] = {}
        changes = connection.ask(
            "select data from pg_logical_slot_peek_changes('spelling', null, null,"
            " 'format-version', '2', 'include-transaction', '0')"
        )
        for row, (payload,) in enumerate(changes):
            for column, text in connection.ask(READ, (payload, list(names.values()))):
                streamed[row, column] = text
        connection.ask("select pg_drop_replication_slot('spelling')")
    with closing(connect(source.dsn, "source")) as monitor:
        written = columns.texts(monitor, table, list(names.values()))
    query = ", ".join(f"{written[name]} as {quoted(name)}" for name in names.values())
    seeded: dict[tuple[int, str], str | None] = {}
    for batch in arrow.batches(source.dsn, f"select id, {query} from {table.quoted}"):
        for found in batch.to_pylist():
            seeded.update({(found["id"], name): found[name] for name in names.values()})
    types = {column: name for name, column in names.items()}
    numeric = ("numeric", "numeric(8,3)", "float4", "float8")
    wrong = {
        (types[column], value, seeded[row, column])
        for (row, column), value in streamed.items()
        if value != seeded[row, column]
        # Tasks take these for null, and say how many there are.
        and not (types[column] in numeric and seeded[row, column] in NOT_FINITE)
    }
    assert not wrong
    assert len(streamed) == len(seeded) == (2 * most + 1) * len(names)
