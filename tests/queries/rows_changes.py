"""Tables for rows models, and random changes of them."""

from __future__ import annotations

from random import Random

TABLES = """
create type lab.mood as enum ('sad', 'ok', 'it''s "x"');
create table lab.a (
    id bigint primary key, kind text, mood lab.mood, amount numeric, discount numeric(6, 2),
    price double precision, n integer, flag boolean, at timestamptz, day date, span interval,
    code char(6), tags text[], doc text, raw bytea, j json, dot point, page xml, corner box,
    range int4range, u uuid,
    "odd ""name" varchar(40), unused text
);
create table lab.b (
    region text, "No" numeric, letter char(3), note text, doc text,
    primary key (letter, region, "No")
);
create table lab.c (id integer primary key deferrable, kind text);
create table lab.d (id integer, kind text);
create table lab.e (
    mood lab.mood, span interval, numbers integer[], raw bytea, letter "char", doc jsonb,
    range numrange, n integer,
    primary key (mood, span, numbers, raw, letter, doc, range)
);
"""

_KINDS = (
    "null", "'draft'", "'paid'", "'Ünder'", "''", "'12'", "E'two\\nlines'",
    """'{"name":"kind","value":null}'""",
)  # fmt: skip

KEY_OF_E: dict[str, tuple[str, ...]] = {
    "mood": ("'sad'", "'ok'"),
    "span": ("'1 day'", "'24:00'", "'1 mon'"),
    "numbers": ("'{}'", "'{1,NULL}'", "array_fill(7, '{1000}')"),
    "raw": ("'\\x'", "'\\x00ff'", "decode(repeat('00', 4000), 'hex')"),
    "letter": ("'a'", "''"),
    "doc": ("'{\"a\":1}'", "'{\"a\":1.0}'", "'null'"),
    "range": ("'empty'", "'[1,3)'", "'[1.0,3)'"),
}
VALUES: dict[str, tuple[str, ...]] = {
    **{f"e.{name}": values for name, values in KEY_OF_E.items()},
    "id": tuple(map(str, range(9))),
    "kind": _KINDS,
    "note": _KINDS,
    "mood": ("null", "'sad'", "'ok'", "'it''s \"x\"'"),
    "amount": ("null", "0", "1.5", "1.50", "-3", "1e20", "'NaN'", "'Infinity'", "0.001"),
    "price": ("null", "0", "'-0'", "1.5", "1e300", "'NaN'"),
    "n": ("null", "0", "1", "2", "-7"),
    "at": (
        "null", "'2026-03-29T01:30:00Z'", "'2026-03-28T23:30:00Z'", "'0044-03-15T00:00:00Z BC'",
        "'infinity'",
    ),
    "day": ("null", "'2026-01-01'", "'infinity'"),
    "span": ("null", "'1 day'", "'24:00'"),
    "code": ("null", "'ab'", "'abcdef'", "''"),
    "a.doc": ("null", "'short'", "repeat('long ', 20)", "repeat('other ', 20)"),
    "raw": ("null", "'\\x'", "'\\x00ff'", "decode(repeat('00ff', 40), 'hex')"),
    "j": ("null", "'{\"a\":1}'", "'{\"a\": 1}'"),
    "dot": ("null", "'(1,2)'", "'(1,2.5)'"),
    "page": ("null", "'<a/>'", "'<a></a>'"),
    # = compares their areas.
    "corner": ("null", "'(1,1),(0,0)'", "'(2,1),(1,0)'"),
    "range": ("null", "'empty'", "'[1,3)'"),
    "region": ("'n'", "'N'", "''", "repeat('ü', 900)", "repeat('ü', 899)"),
    "No": ("1.5", "1.50", "2", "'NaN'", "'Infinity'"),
    "b.letter": ("'a'", "'ab'", "''"),
}  # fmt: skip


def change_c(rng: Random) -> str:
    kind = rng.choice(("null", "'x'", "'y'"))
    return rng.choice(
        (
            f"insert into lab.c values ({rng.randrange(9)}, {kind})",
            f"update lab.c set id = id + {rng.choice((1, -1, 2))}",
            "update lab.c set id = 8 - id",
            f"update lab.c set kind = {kind} where id % 2 = 0",
            f"delete from lab.c where id = {rng.randrange(9)}",
        )
    )
