"""Random changes of tables whose columns hold a few values each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any, Protocol

from waltally.tables import quoted

Pools = Mapping[str, Mapping[str, Sequence[str]]]
"""By table and column the values, as SQL."""

_NUMBERS = [str(n) for n in (*range(1, 5), *range(1, 5), *range(5, 41))]
_COLUMNS = """
select c.relname::text, a.attname::text, format_type(a.atttypid, null), a.attnotnull,
    coalesce(a.attnum = any(i.indkey), false), coalesce(i.indnkeyatts = 1, false)
from pg_class as c inner join pg_attribute as a on a.attrelid = c.oid
left join pg_index as i on i.indrelid = c.oid and i.indisprimary
where c.relnamespace = %s::regnamespace and c.relname = any(%s) and a.attnum > 0
order by c.oid, a.attnum
"""


class Target(Protocol):
    def execute(self, query: str, *values: object) -> list[tuple[Any, ...]]: ...
    def transact(self, *statements: str) -> None: ...


class Writer:
    """Changes the tables of a schema; `keys` are the columns of their primary keys."""

    truncates = True
    schema = "lab"

    def __init__(
        self, lab: Target, rng: Random, pools: Pools, keys: Mapping[str, Sequence[str]]
    ) -> None:
        self.lab, self.rng, self.pools, self.keys = lab, rng, pools, keys

    @classmethod
    def of(
        cls,
        lab: Target,
        rng: Random,
        tables: Iterable[str],
        given: Mapping[str, Sequence[str]],
        times: Sequence[str] = (),
    ) -> Writer:
        """Return one of these tables. `given` has the values of {table.column} or {column}.

        Others hold values of their type, dates and times these of the type {}.
        """
        pools: dict[str, dict[str, Sequence[str]]] = {}
        keys: dict[str, list[str]] = {}
        for table, name, type_, is_not_null, is_key, is_alone in lab.execute(
            _COLUMNS, cls.schema, list(tables)
        ):
            pool = given.get(f"{table}.{name}") or given.get(name)
            if not pool:
                some = _NUMBERS if is_key and is_alone else _NUMBERS[:4]
                pool = [
                    *_values(type_, some, times or around()),
                    *([] if is_not_null else ["null"]),
                ]
            pools.setdefault(table, {})[quoted(name)] = pool
            keys.setdefault(table, []).extend([quoted(name)] * is_key)
        return cls(lab, rng, pools, keys)

    def write(self, count: int) -> None:
        """Commit so many statements in a few transactions."""
        while count > 0:
            part = self.rng.randint(1, count)
            self.lab.transact(*(self._statement() for _ in range(part)))
            count -= part

    def insert(self, table: str) -> str:
        """Return a statement that puts a row in, in place of that of its key."""
        pools, keys = self.pools[table], self.keys.get(table, ())
        values = ", ".join(map(self.rng.choice, pools.values()))
        sets = ", ".join(f"{c} = excluded.{c}" for c in pools if c not in keys)
        text = (
            f"insert into {self.schema}.{table} ({', '.join(pools)}) values ({values}) on conflict"
        )
        return (
            f"{text} ({', '.join(keys)}) do update set {sets}"
            if keys and sets
            else f"{text} do nothing"
        )

    def _statement(self) -> str:
        rng = self.rng
        table = rng.choice(list(self.pools))
        pools, keys = self.pools[table], self.keys.get(table, ())
        own = f"{self.schema}.{table}"
        some = f"ctid in (select ctid from {own} order by md5(ctid || '{rng.random()}') limit {rng.choice((1, 1, 3))})"
        kind = rng.random()
        if kind < 0.5:
            return self.insert(table)
        if kind < 0.85:
            others = [name for name in pools if name not in keys]
            names = rng.sample(others, min(len(others), rng.choice((1, 1, 2))))
            if not names or kind > 0.75:
                names = [rng.choice(list(keys or pools))]
            sets = ", ".join(f"{name} = {rng.choice(pools[name])}" for name in names)
            return f"update {own} set {sets} where {some}"
        is_row = kind < 0.985 or not self.truncates
        return f"delete from {own} where {some}" if is_row else f"truncate {own}"


def around(*moments: str) -> list[str]:
    """Return times at and around moments, or around a change of the clock."""
    return [
        f"('{moment}'::{{0}} + interval '{more}')::{{0}}"
        for moment in moments or ("2026-03-29 01:00",)
        for more in ("-1 microsecond", "0", "1 hour", "10 days")
    ]


def _values(type_: str, numbers: Sequence[str], times: Sequence[str]) -> Sequence[str]:
    """Return values of a type; numbers are these, and texts as many."""
    if re.match("date|timestamp", type_):
        return [time.format(type_) for time in times]
    return {
        "uuid": [f"'00000000-0000-0000-0000-{number:0>12}'" for number in numbers],
        "boolean": ("true", "false"),
        "numeric": ("0", "1.5", "1.50", "-2.25", "10", "0.07"),
        "double precision": ("0", "'-0'", "1.5", "-2.25", "10"),
        "text": [f"'{chr(96 + int(n))}'" if int(n) < 5 else f"'x{n}'" for n in numbers],
        "text[]": ("'{}'", "'{a}'", "'{a,b}'", "'{b,b,NULL}'"),
        "jsonb": ("'{\"k\": 1}'", "'[1, 2]'"),
    }.get(type_, numbers)
