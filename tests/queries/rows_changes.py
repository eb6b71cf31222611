"""Tables for rows models, and random changes of them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.queries.rows_lab import RowsLab

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

VALUES_OF_A: dict[str, tuple[str, ...]] = {
    "kind": _KINDS,
    "mood": ("null", "'sad'", "'ok'", "'it''s \"x\"'"),
    "amount": ("null", "0", "1.5", "1.50", "-3", "1e20", "'NaN'", "'Infinity'", "0.001"),
    "discount": ("null", "0", "1.25", "2"),
    "price": ("null", "0", "'-0'", "1.5", "1e300", "'NaN'"),
    "n": ("null", "0", "1", "2", "-7"),
    "flag": ("null", "true", "false"),
    "at": (
        "null", "'2026-03-29T01:30:00Z'", "'2026-03-28T23:30:00Z'", "'0044-03-15T00:00:00Z BC'",
        "'infinity'",
    ),
    "day": ("null", "'2026-01-01'", "'infinity'"),
    "span": ("null", "'1 day'", "'24:00'"),
    "code": ("null", "'ab'", "'abcdef'", "''"),
    "tags": ("null", "'{}'", "'{b,a,NULL}'", "'{\"x y\"}'"),
    "doc": ("null", "'short'", "repeat('long ', 20)", "repeat('other ', 20)"),
    "raw": ("null", "'\\x'", "'\\x00ff'", "decode(repeat('00ff', 40), 'hex')"),
    "j": ("null", "'{\"a\":1}'", "'{\"a\": 1}'"),
    "dot": ("null", "'(1,2)'", "'(1,2.5)'"),
    "page": ("null", "'<a/>'", "'<a></a>'"),
    # = compares their areas.
    "corner": ("null", "'(1,1),(0,0)'", "'(2,1),(1,0)'"),
    "range": ("null", "'empty'", "'[1,3)'"),
    "u": ("null", "'8b1bd2c0-0000-4000-8000-000000000001'"),
    '"odd ""name"': ("null", "'x'", "'y'"),
    "unused": ("null", "'x'", "'y'"),
}  # fmt: skip

KEY_OF_E: dict[str, tuple[str, ...]] = {
    "mood": ("'sad'", "'ok'"),
    "span": ("'1 day'", "'24:00'", "'1 mon'"),
    "numbers": ("'{}'", "'{1,NULL}'", "array_fill(7, '{1000}')"),
    "raw": ("'\\x'", "'\\x00ff'", "decode(repeat('00', 4000), 'hex')"),
    "letter": ("'a'", "''"),
    "doc": ("'{\"a\":1}'", "'{\"a\":1.0}'", "'null'"),
    "range": ("'empty'", "'[1,3)'", "'[1.0,3)'"),
}

Change = Callable[[Random], str]


def write(lab: RowsLab, rng: Random, change: Change) -> None:
    """Run some transactions of changes."""
    for _ in range(rng.randrange(1, 5)):
        lab.transact(*(change(rng) for _ in range(rng.choice((1, 1, 3, 8)))))


def change_a(rng: Random) -> str:
    row_id = rng.randrange(9)
    if rng.random() < 0.35:
        names = ", ".join(VALUES_OF_A)
        values = ", ".join(rng.choice(texts) for texts in VALUES_OF_A.values())
        return f"insert into lab.a (id, {names}) values ({row_id}, {values})"
    some = rng.sample(list(VALUES_OF_A), rng.choice((1, 1, 2, 5)))
    values = ", ".join(f"{name} = {rng.choice(VALUES_OF_A[name])}" for name in some)
    is_moved = "exists (select from lab.a where id >= 9)"
    return rng.choices(
        (
            f"update lab.a set {values} where id = {row_id}",
            f"update lab.a set {values} where id % 3 = {row_id % 3}",
            f"update lab.a set id = {rng.randrange(9)}, {values} where id = {row_id}",
            f"update lab.a set id = id + 9, {values} where not {is_moved}",
            "update lab.a set id = id - 9 where id >= 9",
            f"delete from lab.a where id = {row_id}",
            f"delete from lab.a where id % 2 = {row_id % 2}",
            "truncate lab.a",
        ),
        (8, 2, 4, 1, 2, 3, 1, 0.3),
    )[0]


def change_b(rng: Random) -> str:
    number = rng.choice(("1.5", "1.50", "2", "'NaN'", "'Infinity'"))
    region = rng.choice(("'n'", "'N'", "''", "repeat('ü', 900)", "repeat('ü', 899)"))
    letter = rng.choice(("'a'", "'ab'", "''"))
    note = rng.choice(_KINDS)
    other = rng.choice((f'"No" = {number}', f"region = {region}", f"letter = {letter}"))
    is_row = f'region = {region} and letter = {letter} and "No" = {number}'
    return rng.choices(
        (
            f"insert into lab.b values ({region}, {number}, {letter}, {note}, 'x')",
            f"update lab.b set note = {note}, doc = doc || 'x' where region = {region}",
            f"update lab.b set {other} where {is_row}",
            f'delete from lab.b where "No" = {number}',
        ),
        (5, 3, 3, 1),
    )[0]


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


def change_e(rng: Random) -> str:
    name = rng.choice(list(KEY_OF_E))
    values = [rng.choice(texts) for texts in KEY_OF_E.values()]
    value = rng.choice(KEY_OF_E[name])
    third = rng.randrange(3)
    return rng.choice(
        (
            f"insert into lab.e values ({', '.join(values)}, {rng.randrange(9)})",
            f"update lab.e set n = n + 1 where {name} = {value}",
            f"update lab.e set {name} = {value} where n % 3 = 1",
            f"update lab.e set span = '24:00' where span = '1 day' and n % 3 = {third}",
            f"delete from lab.e where n % 5 = {rng.randrange(5)}",
        )
    )
