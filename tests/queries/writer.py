"""Random changes of tables whose columns hold a few values each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Protocol

Pools = Mapping[str, Mapping[str, Sequence[str]]]
"""By table and column the values, as SQL."""


class Target(Protocol):
    def transact(self, *statements: str) -> None: ...


class Writer:
    """Changes the tables of schema lab; `keys` are the columns of their primary keys."""

    def __init__(
        self, lab: Target, rng: Random, pools: Pools, keys: Mapping[str, Sequence[str]]
    ) -> None:
        self.lab, self.rng, self.pools, self.keys = lab, rng, pools, keys

    def write(self, count: int) -> None:
        """Commit so many statements in a few transactions."""
        while count > 0:
            part = self.rng.randint(1, count)
            self.lab.transact(*(self._statement() for _ in range(part)))
            count -= part

    def insert(self, table: str) -> str:
        """Return a statement that puts a row in, in place of that of its key."""
        pools, keys = self.pools[table], self.keys[table]
        values = ", ".join(map(self.rng.choice, pools.values()))
        sets = ", ".join(f"{c} = excluded.{c}" for c in pools if c not in keys)
        text = f"insert into lab.{table} ({', '.join(pools)}) values ({values}) on conflict"
        return (
            f"{text} ({', '.join(keys)}) do update set {sets}"
            if keys and sets
            else f"{text} do nothing"
        )

    def _statement(self) -> str:
        rng = self.rng
        table = rng.choice(list(self.pools))
        pools, keys = self.pools[table], self.keys[table]
        some = f"ctid in (select ctid from lab.{table} order by md5(ctid || '{rng.random()}') limit {rng.choice((1, 1, 3))})"
        kind = rng.random()
        if kind < 0.5:
            return self.insert(table)
        if kind < 0.85:
            others = [name for name in pools if name not in keys]
            names = rng.sample(others, min(len(others), rng.choice((1, 1, 2))))
            if not names or kind > 0.75:
                names = [rng.choice(list(keys or pools))]
            sets = ", ".join(f"{name} = {rng.choice(pools[name])}" for name in names)
            return f"update lab.{table} set {sets} where {some}"
        return f"delete from lab.{table} where {some}" if kind < 0.99 else f"truncate lab.{table}"
