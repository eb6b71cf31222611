"""Random queries over models: each is refused, or kept equal to itself while its inputs change.

By hand: `python -m tests.queries.model_generator --count 5000`.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import psycopg2
import psycopg2.extras

from testkit.servers import Server
from tests.queries.generator import TYPES, Catalog, Outcome, Queries, Scope, said
from tests.queries.models_lab import Above, Below
from tests.queries.rows_lab import RowsLab

TABLES = """
create table lab.orders (
    id integer primary key, customer integer, channel text, placed date, at timestamptz, amount numeric,
    is_paid boolean, ratio double precision, tags text[], doc jsonb, hours smallint
);
create table lab.customers (id integer primary key, name text, region integer, since date, is_open boolean, code bigint);
create table lab.members (a integer, b integer, role text, weight integer, primary key (a, b));
"""

BELOW = {
    "each_order": "select * from {orders}",
    "days": (
        "select placed as day, customer, channel, is_paid, count(*) as orders, sum(amount) as amount, "
        "avg(hours) as hours from {orders} group by 1, 2, 3, 4"
    ),
    "customer": "select id, name, region, since, is_open, code from {customers}",
    "open_customer": "select id, lower(name) as name, region + 1 as next from {customers} where is_open",
    "member": "select a, b, role, weight from {members}",
    "roles": "select a, role, count(*) as members, sum(weight) as weight from {members} group by 1, 2",
}

_ORDERLESS = (
    "count(distinct {})",
    "min({})",
    "max({})",
    "max({})",
    "mode() within group (order by {})",
    "percentile_disc(0.5) within group (order by {})",
    "array_agg({0} order by {0})",
    "array_agg(distinct {})",
)
_OF_TYPE = {
    "text": ("string_agg({0}, ',' order by {0})", "string_agg(distinct {}, '-')"),
    "boolean": ("bool_or({})", "bool_and({})"),
    "numeric": ("stddev({})", "var_pop({})", "sum(distinct {})"),
    "integer": ("bit_or({})", "stddev_samp({})", "avg(distinct {})"),
}


VALUES: dict[str, dict[str, tuple[str, ...]]] = {
    "orders": {
        "customer": ("null", *map(str, range(1, 6))),
        "channel": ("null", "'web'", "'Web'", "'a'", "''", "repeat('long', 60)"),
        "placed": ("null", "'2026-01-03'", "'2026-01-31'", "'2026-02-01'"),
        "at": (
            "null",
            "'2026-03-29 00:30+00'",
            "'2026-03-29 01:30+00'",
            "'2026-01-01 00:00+00'",
        ),
        "amount": ("null", "0", "1.5", "1.50", "-2", "7", "0.001"),
        "is_paid": ("null", "true", "false"),
        "ratio": ("null", "0.1", "2.5", "'-0'"),
        "tags": ("null", "'{}'", "'{a,b}'", "'{a,NULL}'"),
        "doc": ("null", "'{\"k\": 1}'", "'[1, 2]'"),
        "hours": ("null", "1", "2", "7"),
    },
    "customers": {
        "name": ("null", "'a'", "'A'", "'web'", "''"),
        "region": ("null", "1", "2", "3"),
        "since": ("null", "'2026-01-03'", "'2026-02-01'"),
        "is_open": ("null", "true", "false"),
        "code": ("null", "1", "2", "9000000000"),
    },
    "members": {"role": ("null", "'a'", "'web'"), "weight": ("null", "0", "1", "5")},
}
KEYS: dict[str, tuple[str, ...]] = {"orders": ("id",), "customers": ("id",), "members": ("a", "b")}


class ModelQueries(Queries):
    """Makes queries over models, whose columns it is told."""

    def __init__(self, lab: RowsLab, rng: Random) -> None:
        self.rng = rng
        self.catalog = Catalog.of(lab)
        self.tables: dict[str, Scope] = {}
        self.is_roll_up = False

    def query(self) -> tuple[str, dict[str, Any]]:
        text, options = super().query()
        options.pop("ignore_deletes", None)
        return text, options

    def _from(self) -> tuple[list[str], str, Scope]:
        rng = self.rng
        self.ctes: list[str] = []
        kind = rng.random()
        self.is_roll_up = kind < 0.3
        if kind < 0.3:
            source, scope = self._side("s")
        elif kind < 0.8:
            source, scope = self._joined("s")
        else:
            types = [rng.choice(("integer", "text", "numeric", "date")) for _ in range(3)]
            arms = [self._selected(types, f"r{n}") for n in range(rng.choice((2, 2, 3)))]
            source = f"({' union all '.join(arms)}) as s"
            scope = [(f"s.c{n}", type_) for n, type_ in enumerate(types, 1)]
        return self.ctes, source, scope

    def _selected(self, types: list[str], alias: str) -> str:
        source, scope = self._joined(alias) if self.rng.random() < 0.6 else self._side(alias)
        listed = ", ".join(
            f"{self._expression(type_, self.rng.choice((0, 0, 1)), scope)}::{type_} as c{n}"
            for n, type_ in enumerate(types, 1)
        )
        where = f" where {self._condition(scope)}" if self.rng.random() < 0.3 else ""
        return f"select {listed} from {source}{where}"

    def _joined(self, alias: str) -> tuple[str, Scope]:
        """Return two to four models, joined one after the other."""
        rng = self.rng
        source, scope = self._side(f"{alias}1")
        for n in range(2, rng.choice((3, 3, 4, 5))):
            side, added = self._side(f"{alias}{n}")
            join = rng.choice(("join", "join", "left join", "left join", "left join", ","))
            if join == ",":
                self.late = self._equal(scope, added)
                source = (
                    f"{source} cross join {side}"
                    if rng.random() < 0.1
                    else f"{source} join {side} on {self.late}"
                )
            else:
                source = f"{source} {join} {side} on {self._on(scope, added)}"
            scope = [*scope, *added]
        return source, scope

    def _side(self, alias: str) -> tuple[str, Scope]:
        rng = self.rng
        name = rng.choice(sorted(self.tables))
        scope = self._named(alias, self.tables[name])
        kind = rng.random()
        if kind < 0.65:
            return f"{{{name}}} as {alias}", scope
        inner = self._named("i", self.tables[name])
        text = f"select * from {{{name}}}"
        if kind > 0.8:
            type_ = rng.choice(("integer", "text", "date"))
            text = f"select i.*, {self._expression(type_, 1, inner)}::{type_} as made from {{{name}}} as i"
            scope = [*scope, (f"{alias}.made", type_)]
            if rng.random() < 0.5:
                text += f" where {self._condition(inner)}"
        if rng.random() < 0.5:
            self.ctes.append(f"c_{alias} as ({text})")
            return f"c_{alias} as {alias}", scope
        return f"({text}) as {alias}", scope

    def _equal(self, left: Scope, right: Scope) -> str:
        pairs = [
            f"{one} = {other}"
            for one, type_ in left
            for other, own in right
            if own == type_ or {own, type_} <= {"integer", "bigint", "smallint"}
        ]
        named = [
            pair
            for pair in pairs
            if any(word in pair for word in ("id", ".customer", ".a", ".b", "region"))
        ]
        return (
            self.rng.choice(named or pairs or ["true"])
            if self.rng.random() < 0.8
            else self.rng.choice(pairs or ["true"])
        )

    def _on(self, left: Scope, right: Scope) -> str:
        rng = self.rng
        kind = rng.random()
        if kind < 0.08:
            return f"{rng.choice(right)[0]} is not null"
        if kind < 0.16:
            name, type_ = rng.choice(right)
            return f"{name} = {self._expression(type_, 1, left)}"
        made = self._equal(left, right)
        if kind < 0.3:
            made += f" and {self._equal(left, right)}"
        if kind > 0.75:
            made += f" and {self._condition([*left, *right] if rng.random() < 0.5 else right)}"
        return made

    def _condition(self, scope: Scope) -> str:
        rng = self.rng
        name, type_ = rng.choice(scope)
        return rng.choice(
            (
                f"{name} is not null",
                f"{name} is null",
                f"{name} is distinct from {rng.choice([n for n, own in scope if own == type_])}",
                f"{name} >= {rng.choice([n for n, own in scope if own == type_])}",
                super()._expression("boolean", 1, scope),
            )
        )

    def _expression(self, type_: str, depth: int, scope: Scope) -> str:
        """Return a column far more often than over sources: what is joined is the question here."""
        columns = [name for name, own in scope if own == type_]
        if columns and self.rng.random() < 0.7:
            return self.rng.choice(columns)
        numbers = [
            name for name, own in scope if own in ("integer", "bigint", "numeric", "smallint")
        ]
        if numbers and type_ in ("text", "numeric", "bigint") and self.rng.random() < 0.7:
            return f"{self.rng.choice(numbers)}::{type_}"
        if type_ == "boolean" and self.rng.random() < 0.6:
            return self._condition(scope)
        return super()._expression(type_, depth if self.rng.random() < 0.4 else 0, scope)

    def _key(self, scope: Scope) -> str:
        name, type_ = self.rng.choice(scope)
        if type_ in ("text[]", "jsonb", "double precision"):
            return f"{name}::text"
        return name if self.rng.random() < 0.7 else super()._key(scope)

    def _total(self, scope: Scope, depth: int) -> str:
        rng = self.rng
        if depth or rng.random() > (0.5 if self.is_roll_up else 0.03):
            return super()._total(scope, depth)
        type_ = rng.choice([own for _, own in scope])
        shape = rng.choice(_OF_TYPE.get(type_, ()) + _ORDERLESS)
        made = shape.format(self._expression(type_, rng.choice((0, 0, 1)), scope))
        return made + (f" filter (where {self._condition(scope)})" if rng.random() < 0.3 else "")


class Writer:
    """Writes random changes of the three tables."""

    def __init__(self, lab: RowsLab, rng: Random) -> None:
        self.lab, self.rng = lab, rng

    def write(self, count: int) -> None:
        """Commit so many statements in a few transactions."""
        while count > 0:
            part = self.rng.randint(1, count)
            self.lab.transact(*(self._statement() for _ in range(part)))
            count -= part

    def _statement(self) -> str:
        rng = self.rng
        table = rng.choice(("orders", "orders", "customers", "customers", "members"))
        own, keys = VALUES[table], KEYS[table]
        numbers = range(1, 13 if table == "orders" else 6)
        at = " and ".join(f"{key} = {rng.choice(numbers)}" for key in keys)
        one = f"ctid in (select ctid from lab.{table} order by md5(ctid || '{rng.random()}') limit {rng.choice((1, 1, 3))})"
        kind = rng.random()
        if kind < 0.5:
            row = ", ".join(
                [*(str(rng.choice(numbers)) for _ in keys), *(rng.choice(v) for v in own.values())]
            )
            sets = ", ".join(f"{c} = excluded.{c}" for c in own)
            return f"insert into lab.{table} values ({row}) on conflict ({', '.join(keys)}) do update set {sets}"
        if kind < 0.75:
            names = rng.sample(list(own), rng.choice((1, 1, 2)))
            return f"update lab.{table} set {', '.join(f'{n} = {rng.choice(own[n])}' for n in names)} where {one}"
        if kind < 0.85:
            return f"update lab.{table} set {keys[0]} = {rng.choice(numbers)} where {at}"
        return f"delete from lab.{table} where {one}" if kind < 0.99 else f"truncate lab.{table}"


class ModelTrial:
    """Keeps several queries over models, and over each other, through one history."""

    WIDTH = 6

    def __init__(self, lab: RowsLab, seed: int) -> None:
        self.lab, self.rng = lab, Random(seed)
        self.queries = ModelQueries(lab, self.rng)
        self.followed = self.filled = 0
        self.below = [Below(lab, name, query, self.rng) for name, query in BELOW.items()]
        lab.execute("create schema if not exists oracle")
        for model in self.below:
            self._see(model.name, model.compiled)
        self.tables = dict(self.queries.tables)

    def _see(self, name: str, compiled: dict[str, Any]) -> None:
        columns = [
            (column, type_)
            for column, type_ in self.lab.execute(
                "select name, type from cdc.list_columns(%s) where is_shown order by place",
                psycopg2.extras.Json(compiled),
            )
            if type_ in TYPES
        ]
        if columns:
            self.queries.tables[name] = columns

    def outcomes(self, count: int) -> Iterator[Outcome]:
        """Yield what became of each of so many queries."""
        left = count
        while left > 0:
            models: list[tuple[Above, Outcome]] = []
            self._clear()
            writer = Writer(self.lab, self.rng)
            writer.write(self.rng.choice((0, 10, 30)))
            self._catch_up()
            while left > 0 and len(models) < self.WIDTH:
                left -= 1
                made = self._begin(f"m{left}", *self.queries.query())
                if isinstance(made, Outcome):
                    yield made
                    continue
                models.append(made)
                if self.rng.random() < 0.4:
                    self._see(made[0].name, made[0].compiled)
            self._fill(models)
            for _ in range(5):
                writer.write(self.rng.choice((1, 3, 8)))
                self._catch_up()
                self._fill(models)
                for model, outcome in models:
                    if outcome.kind == "kept":
                        self._compare(model, outcome)
            for _, outcome in models:
                yield outcome

    def _clear(self) -> None:
        self.queries.tables = dict(self.tables)
        self.lab.execute("delete from cdc.downstream_model; truncate cdc.to_fill")
        for kind, name in self.lab.execute(
            "select 'function', oid::regprocedure::text from pg_proc "
            "where pronamespace = 'lab'::regnamespace and proname ~ '^m[0-9]+__apply' "
            "union all select 'table', oid::regclass::text from pg_class "
            "where relnamespace = 'lab'::regnamespace and relkind = 'r' and relname ~ '^m[0-9]+$'"
        ):
            self.lab.execute(f"drop {kind} {name}")
        self.lab.execute("select cdc.drop_unused_indexes('lab')")
        self.lab.transact("truncate lab.orders, lab.customers, lab.members")
        self._catch_up()

    def _catch_up(self) -> None:
        self.rng.shuffle(self.below)
        for model in self.below:
            model.catch_up()

    def _begin(
        self, name: str, query: str, options: dict[str, Any]
    ) -> Outcome | tuple[Above, Outcome]:
        text = query
        for known in self.queries.tables:
            text = text.replace(f"{{{known}}}", f"lab.{known}")
        try:
            self.lab.execute(
                "select set_config('timezone', %s, false)", options.get("timezone", "UTC")
            )
            with self.lab.connection.cursor() as cursor:
                cursor.execute(f"explain {text}")
        except psycopg2.Error as error:
            return Outcome("invalid", query, options, said(error))
        finally:
            self.lab.execute("set timezone to 'UTC'")
        try:
            model = Above(self.lab, name, query, **options)
        except psycopg2.Error as error:
            return Outcome(
                "refused" if error.pgcode == "WL003" else "wrong", query, options, said(error)
            )
        return model, Outcome("kept", query, options)

    def _fill(self, models: list[tuple[Above, Outcome]]) -> None:
        """Fill what is to be filled. What has failed, or fails then, has a query that fails."""
        for model, outcome in models:
            for routine, error in self.lab.execute(
                "select left(own.routine, strpos(own.routine, '(') - 1), own.error from cdc.downstream_model as own "
                "where own.model_name = %s and cdc.is_to_be_filled(own.model_name)",
                f"lab.{model.name}",
            ):
                if error:
                    self._stop(model, outcome, error)
                    continue
                try:
                    self.lab.execute(
                        f"select {routine}('fill', null, null::text[], null, null::text[])"
                    )
                except psycopg2.Error as error:
                    self._stop(model, outcome, said(error))
                    continue
                self.lab.execute(
                    "delete from cdc.to_fill where model_name = %s", f"lab.{model.name}"
                )
                self.lab.execute("select cdc.fill_above(%s, 'below')", f"lab.{model.name}")
                self.filled += 1

    def _stop(self, model: Above, outcome: Outcome, reason: str) -> None:
        """Say whether the query fails as its model does."""
        if outcome.kind != "kept":
            return
        outcome.kind, outcome.reason = "stopped", reason
        try:
            model.differences()
        except psycopg2.Error:
            self.lab.execute("set timezone to 'UTC'")
            return
        # What a query can take in one order of its conditions, it cannot in another one.
        outcome.kind = "stopped alone"

    def _compare(self, model: Above, outcome: Outcome) -> None:
        try:
            found = model.differences()
        except psycopg2.Error as error:
            self.lab.execute("set timezone to 'UTC'")
            outcome.kind, outcome.reason = "stopped", said(error)
            return
        self.followed += 1
        if found:
            outcome.kind, outcome.reason = "wrong", f"differs: {found[:4]}"


def main() -> None:
    """Run so many queries, and print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shown", default="wrong,stopped alone", help="print these kinds")
    asked = parser.parse_args()
    counted: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    with Server({"fsync": "off"}) as server, suppress(KeyboardInterrupt):
        lab = RowsLab(server.dsn(), TABLES)
        for table in ("orders", "customers", "members"):
            lab.follow(table, True)
        trial = ModelTrial(lab, asked.seed)
        for outcome in trial.outcomes(asked.count):
            counted[outcome.kind] += 1
            if outcome.kind != "kept":
                reasons[f"{outcome.kind}: {outcome.reason.splitlines()[0]}"] += 1
            if outcome.kind in asked.shown.split(","):
                print(
                    f"\n{outcome.kind} {outcome.reason}\n  {outcome.query}\n  {outcome.options}",
                    flush=True,
                )
            if counted.total() % 200 == 0:
                print(
                    dict(counted),
                    f"{trial.followed} steps equal, {trial.filled} filled",
                    flush=True,
                )
    print("\n".join(f"{count:6} {line}" for line, count in reasons.most_common(80)))
    print(dict(counted), f"{trial.followed} steps equal, {trial.filled} filled")


if __name__ == "__main__":
    main()
