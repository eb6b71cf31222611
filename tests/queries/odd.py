"""Two tables of odd types, their values, and random changes of them."""

from __future__ import annotations

from random import Random

from tests.queries.lab import Lab

TYPES = """
create type lab.mood as enum ('sad', 'ok', 'it''s', 'Ünder "x"');
create domain lab.amount as numeric(12, 2);
create domain lab.blob as bytea;
"""
TABLES = """
create table lab.a (
    id bigint primary key, mood lab.mood, name text, code varchar(5), flag boolean, small smallint,
    amount lab.amount, price numeric, ratio double precision, at timestamptz, seen timestamp,
    day date, pad char(4), doc jsonb, tags text[], raw bytea, span interval, moods lab.mood[],
    nums int[], u uuid, bits bit(3), addr inet, period daterange, clock time, r real, n int,
    "odd ""name}" text, cash money, blob lab.blob
);
create table lab.b (
    n bigint, id int primary key, name varchar collate "C", mood lab.mood,
    amount numeric(12, 2), at timestamptz, flag boolean, body json, letter "char", day date,
    pad char(2), tags varchar(3)[] collate "C", label name
);
"""

_TEXTS = (
    None, "", "a", "b", "A", "ä", "ab", "ß", "null", "NULL", " ", "7", "-3", "1.5", "1.50", "x'y",
    'q"q', "{a}", "{name}", "back\\slash", "$1", "%s", "today", "2026-01-01", "é" * 700,
    "z" * 1200, "%", "_", "e\nf", "waltally_rows", "0", "1e3", "NaN", "true",
)  # fmt: skip
_NUMBERS = (None, "0", "1", "-1", "7", "2", "3", "100", "32767")
_MOODS = (None, "sad", "ok", "it's", 'Ünder "x"')
_MOMENTS = (
    None, "2026-03-29 00:59:59+00", "2026-03-29 01:00:00+00", "2026-10-25 00:30:00+00",
    "2026-10-25 01:30:00+00", "2026-01-01 00:00:00+00", "1970-01-01 00:00:00.000001+00",
    "2025-12-31 23:30:00+00", "0044-03-15 12:00:00+00 BC", "12026-01-01 00:00:00+00", "infinity",
)  # fmt: skip
_DATES = (None, "2026-01-01", "2026-02-28", "2024-02-29", "0044-03-15 BC", "infinity", "1970-01-01")

VALUES: dict[str, dict[str, tuple[str | None, ...]]] = {
    "a": {
        "mood": _MOODS,
        "name": _TEXTS,
        "code": (None, "", "ab", "AB", "7", "zzzzz", "ü"),
        "flag": (None, "true", "false"),
        "small": _NUMBERS,
        "amount": (None, "0.00", "1.50", "-2.25", "9999999999.99", "0.01", "100.00", "NaN"),
        "price": (
            None, "0", "1.5", "1.50", "-0.333333333333333333333", "NaN", "Infinity", "1e20",
            "123456789012345678901234567890.123", "3", "3.000",
        ),
        "ratio": (None, "0", "-0", "0.1", "1e300", "NaN", "-Infinity", "1.5", "2.5", "3.5"),
        "at": _MOMENTS,
        "seen": (
            None, "2026-03-29 02:30:00", "2026-01-01 00:00:00", "infinity", "1999-12-31 23:59",
        ),
        "day": _DATES,
        "pad": (None, "a", "ab", "ab  ", "    ", "é"),
        "doc": (
            None, "null", "{}", '{"k": 1}', '{"k": 1.0}', '{"k": "x", "l": [1, 2]}', "[1, 2]",
            '"s"', '{"k": null}', '{"k": "null}]"}', '{"k": "2026-01-01"}', '{"amount": "12.5"}',
        ),
        "tags": (None, "{}", "{a}", "{a,b}", "{a,a}", "{NULL,a}", '{"x,y","{}"}', "[2:3]={p,q}"),
        "raw": (None, "", "\\x00", "\\xdeadbeef", "\\x5c27"),
        "span": (None, "1 day", "24:00", "1 mon", "-1 day", "00:00:00.5"),
        "moods": (None, "{}", "{sad}", "{sad,ok}", '{"it\'s",NULL}'),
        "nums": (None, "{}", "{1,2}", "{NULL,3}", "{{1,2},{3,4}}", "{0}"),
        "u": (
            None, "00000000-0000-0000-0000-000000000001", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        ),
        "bits": (None, "000", "101"),
        "addr": (None, "10.0.0.1", "10.0.0.0/8", "::1"),
        "period": (None, "empty", "[2026-01-01,2026-02-01)", "(,)", "[2026-01-01,)"),
        "clock": (None, "00:00", "23:59:59.999", "24:00"),
        "r": (None, "0", "0.1", "NaN", "1e-30", "1.5"),
        "n": (None, "0", "1", "-1", "2147483647", "5", "12"),
        'odd "name}': (None, "x", "y"),
        "cash": (None, "1.50", "2"),
        "blob": (None, "", "\\x00", "\\xdeadbeef"),
    },
    "b": {
        "n": (None, "0", "1", "-1", "9223372036854775807", "4611686018427387904", "7"),
        "name": _TEXTS,
        "mood": _MOODS,
        "amount": (None, "0.00", "1.50", "3.25", "-1.10"),
        "at": _MOMENTS,
        "flag": (None, "true", "false"),
        "body": (None, '{"k":1}', '{"k" : 1}', '{"k":"x","k":"y"}', "[]", "[1,[2]]"),
        "letter": (None, "a", "", "\\303"),
        "day": _DATES,
        "pad": (None, "a", "ab", ""),
        "tags": (None, "{}", "{a,b}", "{NULL}"),
        "label": (None, "x", "y z"),
    },
}  # fmt: skip


class Writer:
    """Changes the tables at random; few values, so that rows look alike."""

    def __init__(self, lab: Lab, rng: Random, truncates: bool = True) -> None:
        self.lab = lab
        self.rng = rng
        self.truncates = truncates
        self.ids: dict[str, list[int]] = {name: [] for name in VALUES}
        self.next_id = 1
        # Of each column a few values alone.
        self.pools = {
            table: {c: rng.sample(v, min(len(v), rng.randint(2, 6))) for c, v in columns.items()}
            for table, columns in VALUES.items()
        }

    def write(self, count: int) -> None:
        """Make so many changes, in one transaction."""
        for _ in range(count):
            self._change(self.rng.choice(sorted(self.ids)))

    def _change(self, table: str) -> None:
        rng, ids = self.rng, self.ids[table]
        kind = rng.random()
        if kind < 0.02 and self.truncates:
            self.lab.execute(f"truncate lab.{table}")
            ids.clear()
        elif kind < 0.45 or not ids:
            row = {c: rng.choice(pool) for c, pool in self.pools[table].items()}
            names = ", ".join('"' + c.replace('"', '""') + '"' for c in row)
            marks = ", ".join(["%s"] * len(row))
            self.lab.execute(
                f"insert into lab.{table} (id, {names}) values (%s, {marks})",
                self.next_id,
                *row.values(),
            )
            ids.append(self.next_id)
            self.next_id += 1
        elif kind < 0.8:
            column = rng.choice(sorted(self.pools[table]))
            name = '"' + column.replace('"', '""') + '"'
            self.lab.execute(
                f"update lab.{table} set {name} = %s where id = any(%s)",
                rng.choice(self.pools[table][column]),
                rng.sample(ids, min(len(ids), rng.choice((1, 1, 3)))),
            )
        else:
            gone = rng.sample(ids, min(len(ids), rng.choice((1, 1, 2, 5))))
            self.lab.execute(f"delete from lab.{table} where id = any(%s)", gone)
            self.ids[table] = [i for i in ids if i not in gone]
