"""Random queries over models: each is refused, or kept equal to itself while its inputs change.

By hand: `python -m tests.queries.model_generator --count 5000`.
"""

from __future__ import annotations

import re
from random import Random
from typing import Any

import psycopg2

from tests.queries.generator import TYPES, Catalog, Outcome, Queries, Scope, Trial, main, said
from tests.queries.lab import Lab
from tests.queries.models_lab import (
    BELOW,
    TABLES,
    Below,
    Dependent,
    fill_beside,
    fill_one,
    writer_of,
)

MORE = {
    "each_order": "select * from {orders}",
    "open_customer": "select id, lower(name) as name, region_id + 1 as next, code from {customers} where is_open",
    "weight": "select a, b, role, weight from {weights}",
    "roles": "select a, role, count(*) as members, sum(weight) as weight from {weights} group by 1, 2",
}

_ORDERLESS = (
    "count(distinct {})", "min({})", "max({})", "max({})", "mode() within group (order by {})",
    "percentile_disc(0.5) within group (order by {})", "percentile_disc(0.3) within group (order by {} desc nulls last)",
    "array_agg({0} order by {0})", "array_agg({0} order by {0} desc nulls last)",
    "array_agg(distinct {})",
)  # fmt: skip
_OF_TYPE = {
    "text": ("string_agg({0}, ',' order by {0})", "string_agg(distinct {}, '-')"),
    "boolean": ("bool_or({})", "bool_and({})"),
    "numeric": ("stddev({})", "var_pop({})", "sum(distinct {})"),
    "integer": ("bit_or({})", "stddev_samp({})", "avg(distinct {})"),
}
_NOT_GROUPED = ("text[]", "jsonb", "json", "double precision", "interval")
_WINDOWS = (
    "row_number()", "rank()", "dense_rank()", "lag({0})", "lead({0}, 2)", "first_value({1})", "last_value({0})", "ntile(2)",
    "count(*)", "count({0})", "max({0}::text)", "sum(length({0}::text))", "array_agg({1})", "percent_rank()", "nth_value({0}, 2)",
)  # fmt: skip


class ModelQueries(Queries):
    """Makes queries over models, whose columns it is told."""

    def __init__(self, lab: Lab, rng: Random) -> None:
        self.rng = rng
        self.catalog = Catalog.of(lab)
        self.tables: dict[str, Scope] = {}
        self.is_roll_up = False
        self.keys: dict[str, list[str]] = {}
        """Of each model."""

    def query(self) -> tuple[str, dict[str, Any]]:
        if self.rng.random() < 0.15:
            return self._by_group(), {}
        text, options = super().query()
        options.pop("ignore_deletes", None)
        return text, options

    def _by_group(self) -> str:
        """Return a query of which the rows of a group decide the result: no totals alone."""
        rng = self.rng
        self.ctes: list[str] = []
        name = rng.choice([name for name, keys in self.keys.items() if keys])
        scope = self._named("s", self.tables[name])
        keys = [f"s.{key}" for key in self.keys[name]]
        parts = [
            column for column, type_ in scope if type_ not in _NOT_GROUPED and column != "s.note"
        ]
        parts = rng.sample(parts, min(len(parts), rng.choice((1, 1, 2))))
        where = f" where {self._condition(scope)}" if rng.random() < 0.4 else ""
        source = f"from {{{name}}} as s{where}"
        value, other = (rng.choice(scope)[0] for _ in range(2))
        sort = f"{value}{rng.choice(('', ' desc', ' desc nulls last'))}"
        order = rng.choice((f"{sort}, {', '.join(keys)}", ", ".join(keys), sort))
        split = ", ".join(parts)
        kind = rng.random()
        if kind < 0.2:
            return f"select distinct {split}, {value} as chosen {source}"
        if kind < 0.4:
            return f"select distinct on ({split}) {split}, {value} as chosen, {other} as beside {source} order by {split}, {order}"
        if kind < 0.6:
            total = f"json_agg({value} order by {order}) as together, count(distinct ({value}, {other})) as many"
            having = rng.choice(
                ("count(*) > 1", f"max({keys[0]}::text) > 'b'", f"count({value}) = 1")
            )
            return f"select {split}, {total} {source} group by {split} having {having}"
        calls = rng.sample(_WINDOWS, 3)
        over = f"partition by {split}" + (f" order by {order}" if kind < 0.9 else "")
        windows = ", ".join(
            f"{call.format(value, other)} over ({over}) as w{n}" for n, call in enumerate(calls)
        )
        listed = ", ".join(f"{column} as c{n}" for n, column in enumerate({*keys, *parts, value}))
        text = f"select {listed}, {windows} {source}"
        return (
            text
            if rng.random() < 0.6
            else f"select * from ({text}) as x where {rng.choice(('w0 is not null', 'w1::text < $q$3$q$', 'c0 is not null'))}".replace(
                "$q$", "'"
            )
        )

    def _from(self) -> tuple[list[str], str, Scope]:
        rng = self.rng
        self.ctes = []
        kind = rng.random()
        self.is_roll_up = kind < 0.3
        if kind < 0.3:
            source, scope = self._side("s")
        elif kind < 0.8:
            source, scope = self._joined("s")
        else:
            types = [rng.choice(("integer", "text", "numeric", "date")) for _ in range(3)]
            arms = [self._selected(types, f"r{n}") for n in range(rng.choice((2, 2, 3)))]
            source, scope = self._named_arms(arms, types, "s")
            if rng.random() < 0.4:
                source, scope = self._extended(source, scope, "t", rng.choice((2, 3)))
        return self.ctes, source, scope

    def _named_arms(self, arms: list[str], types: list[str], alias: str) -> tuple[str, Scope]:
        text = " union all ".join(arms)
        scope = [(f"{alias}.c{n}", type_) for n, type_ in enumerate(types, 1)]
        if self.rng.random() < 0.3:
            self.ctes.append(f"u_{alias} as ({text})")
            return f"u_{alias} as {alias}", scope
        return f"({text}) as {alias}", scope

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
        return self._extended(*self._side(f"{alias}1"), alias, self.rng.choice((3, 3, 4, 5)))

    def _extended(self, source: str, scope: Scope, alias: str, end: int) -> tuple[str, Scope]:
        """Return what is joined with further models."""
        rng = self.rng
        for n in range(2, end):
            side, added = self._side(f"{alias}{n}")
            shared = {name.partition(".")[2] for name, _ in scope} & {
                name.partition(".")[2] for name, _ in added
            }
            if n == 2 and shared and rng.random() < 0.08:
                join = rng.choice(("join", "left join"))
                source = f"{source} {join} {side} using ({rng.choice(sorted(shared))})"
                scope = [*scope, *added]
                continue
            join = rng.choice(("join", "join", "left join", "left join", "left join", ","))
            on = self._equal(scope, added) if join == "," else self._on(scope, added)
            if join == "," and rng.random() < 0.1:
                source += f" cross join {side}"
            else:
                source += f" {join.replace(',', 'join')} {side} on {on}"
            scope = [*scope, *added]
        return source, scope

    def _side(self, alias: str) -> tuple[str, Scope]:
        rng = self.rng
        name = rng.choice(sorted(self.tables))
        scope = self._named(alias, self.tables[name])
        kind = rng.random()
        if kind < 0.6:
            return f"{{{name}}} as {alias}", scope
        if kind < 0.65:
            return self._odd_side(name, alias, scope)
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

    def _odd_side(self, name: str, alias: str, scope: Scope) -> tuple[str, Scope]:
        """Return a model whose rows are unfolded, or joined with constants, or arms of UNION ALL."""
        rng = self.rng
        inner = self._named("i", self.tables[name])
        arrays = [column for column, type_ in inner if type_ == "text[]"]
        if arrays and rng.random() < 0.5:
            text = f"select i.*, e as made from {{{name}}} as i cross join lateral unnest({arrays[0]}) as e"
            return f"({text}) as {alias}", [*scope, (f"{alias}.made", "text")]
        if rng.random() < 0.5:
            on = rng.choice(("true", f"{self._expression('integer', 0, inner)} = v.n"))
            join = rng.choice(("join", "left join"))
            text = f"select i.*, v.t as made from {{{name}}} as i {join} (values (1, 'a'), (2, 'web'), (2, null)) as v (n, t) on {on}"
            return f"({text}) as {alias}", [*scope, (f"{alias}.made", "text")]
        types = [rng.choice(("integer", "text", "date")) for _ in range(2)]
        arms = [self._selected(types, f"{alias}_{n}") for n in range(2)]
        return self._named_arms(arms, types, alias)

    def _equal(self, left: Scope, right: Scope) -> str:
        pairs = [
            f"{one} = {other}"
            for one, type_ in left
            for other, own in right
            if own == type_
            or {own, type_} <= {"integer", "bigint", "smallint"}
            or {own, type_} == {"date", "timestamp with time zone"}
        ]
        named = [pair for pair in pairs if re.search(r"id|\.[ab]\b|owner", pair)]
        return self.rng.choice((self.rng.random() < 0.8 and named) or pairs or ["true"])

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
        other = rng.choice([n for n, own in scope if own == type_])
        made = rng.choice(
            ("{} is not null", "{} is null", "{} is distinct from {}", "{} >= {}", "")
        )
        return made.format(name, other) or super()._expression("boolean", 1, scope)

    def _expression(self, type_: str, depth: int, scope: Scope) -> str:
        """Return a column far more often than over sources: what is joined is the question here."""
        columns = [name for name, own in scope if own == type_]
        if columns and self.rng.random() < 0.7:
            return self.rng.choice(columns)
        numbers = [name for name, own in scope if re.search("int|numeric", own)]
        if numbers and type_ in ("text", "numeric", "bigint") and self.rng.random() < 0.7:
            return f"{self.rng.choice(numbers)}::{type_}"
        if type_ == "boolean" and self.rng.random() < 0.6:
            return self._condition(scope)
        return super()._expression(type_, depth if self.rng.random() < 0.4 else 0, scope)

    def _key(self, scope: Scope) -> str:
        # Long texts are kept in another spelling, as keys: a case of models.sql has them.
        scope = [(name, type_) for name, type_ in scope if not name.endswith(".note")] or scope
        name, type_ = self.rng.choice(scope)
        if type_ in ("text[]", "jsonb", "double precision"):
            return f"{name}::text"
        return name if self.rng.random() < 0.7 else super()._key(scope)

    def _total(self, scope: Scope, depth: int) -> str:
        rng = self.rng
        if depth or rng.random() > (0.5 if self.is_roll_up else 0.03):
            return super()._total(scope, depth)
        type_ = rng.choice([own for _, own in scope])
        if rng.random() < 0.1:
            value, weight = self._expression(type_, 0, scope), self._expression("integer", 0, scope)
            near = rng.choice(("0.5", "0.95"))
            return (
                f"cdc.percentile_disc({near}, array_agg({value} order by {value}), "
                f"array_agg({weight} order by {value}))"
            )
        shape = rng.choice(_OF_TYPE.get(type_, ()) + _ORDERLESS)
        made = shape.format(self._expression(type_, rng.choice((0, 0, 1)), scope))
        return made + (f" filter (where {self._condition(scope)})" if rng.random() < 0.3 else "")


class ModelTrial(Trial[Dependent]):
    """Over models, and over each other."""

    width = 6
    queries: ModelQueries

    def __init__(self, lab: Lab, seed: int) -> None:
        super().__init__(lab, seed)
        self.queries = ModelQueries(lab, self.rng)
        self.writer = writer_of(lab, self.rng)
        below = {**BELOW, **MORE}
        self.below = [Below(lab, name, query, self.rng) for name, query in below.items()]
        for model in self.below:
            self._see(model)
        self.tables = dict(self.queries.tables)

    def _see(self, model: Below | Dependent) -> None:
        columns = [(name, type_) for name, type_, *_ in model.columns if type_ in TYPES]
        if columns:
            self.queries.tables[model.name] = columns
            self.queries.keys[model.name] = [key["name"] for key in model.compiled["keys"]]

    def clear(self) -> None:
        self.queries.tables = dict(self.tables)
        self.queries.keys = {
            name: keys for name, keys in self.queries.keys.items() if name in self.tables
        }
        self.lab.renew()
        self.lab.execute("delete from cdc.dependent_model; truncate cdc.to_fill")
        self.lab.drop_made("^m[0-9]+(__apply.*)?$")
        self.lab.execute("select cdc.drop_unused_indexes('lab')")
        self.lab.transact(*(f"truncate lab.{table}" for table in self.writer.pools))
        self.writer.write(self.rng.choice((0, 20, 60)))
        self._catch_up()

    def model(self, name: str, query: str, options: dict[str, Any]) -> Dependent:
        model = Dependent(self.lab, name, query, **options)
        if self.rng.random() < 0.4:
            self._see(model)
        return model

    def live(self, models: list[tuple[Dependent, Outcome]]) -> None:
        self._fill(models)
        if self.rng.random() < 0.3:
            self._fill_beside(models)
        for _ in range(5):
            self.writer.write(self.rng.choice((1, 3, 8)))
            self._catch_up()
            self._fill(models)
            for model, outcome in models:
                if outcome.kind == "kept":
                    self._compare(model, outcome)

    def _catch_up(self) -> None:
        self.rng.shuffle(self.below)
        for model in self.below:
            model.catch_up()

    def _fill(self, models: list[tuple[Dependent, Outcome]]) -> None:
        """Fill what is to be filled. What has failed, or fails then, has a query that fails."""
        for model, outcome in models:
            for routine, error in self.lab.execute(
                "select left(own.routine, strpos(own.routine, '(') - 1), own.error from cdc.dependent_model as own "
                "where own.relation = %s and cdc.is_to_be_filled(own.relation)",
                f"lab.{model.name}",
            ):
                if error:
                    self._stop(model, outcome, error)
                    continue
                try:
                    fill_one(self.lab, f"lab.{model.name}", routine)
                except psycopg2.Error as error:
                    self._stop(model, outcome, said(error))
                else:
                    self.filled += 1

    def _fill_beside(self, models: list[tuple[Dependent, Outcome]]) -> None:
        """Fill models over those over tables while these change. What fails is filled again."""
        lowest = {
            name
            for (name,) in self.lab.execute(
                "select relation from cdc.dependent_model where level = 1 and error is null"
            )
        }
        names = [f"lab.{model.name}" for model, outcome in models if outcome.kind == "kept"]

        def change() -> None:
            self.writer.write(self.rng.choice((1, 3, 8)))
            self._catch_up()

        try:
            fill_beside(self.lab, [name for name in names if name in lowest], change)
        except psycopg2.Error:
            self.lab.execute("rollback")

    def _stop(self, model: Dependent, outcome: Outcome, reason: str) -> None:
        """Say whether the query fails as its model does."""
        if outcome.kind != "kept":
            return
        outcome.kind, outcome.reason = "stopped", reason
        try:
            model.differences()
        except psycopg2.Error:
            return
        # What a query can take in one order of its conditions, it cannot in another one.
        outcome.kind = "stopped alone"

    def _compare(self, model: Dependent, outcome: Outcome) -> None:
        try:
            found = model.differences()
        except psycopg2.Error as error:
            outcome.kind, outcome.reason = "stopped", said(error)
            return
        self.followed += 1
        if found:
            outcome.kind, outcome.reason = "wrong", f"differs: {found[:4]}"


def begin(dsn: str, seed: int) -> ModelTrial:
    return ModelTrial(Lab.following(dsn, TABLES), seed)


if __name__ == "__main__":
    main(begin)
