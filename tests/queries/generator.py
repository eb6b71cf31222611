"""Random queries over two odd tables: each is refused, or kept equal to itself.

As SQLancer and sqlsmith test databases. By hand: `python -m tests.queries.generator --count 5000`.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any, Generic, TypeVar

import psycopg2

from testkit.servers import Server
from tests.queries.lab import Lab, Model
from tests.queries.odd import TABLES, VALUES, Writer
from tests.queries.odd import TYPES as OWN_TYPES
from waltally.tables import quoted

TYPES = {
    "boolean": ("true", "false", "null"),
    "smallint": ("0", "1", "-1", "7", "32767"),
    "integer": ("0", "1", "2", "-1", "3", "10", "100", "2147483647", "null"),
    "bigint": ("0", "1", "-1", "12", "9223372036854775807", "null"),
    "numeric": ("0", "0.0", "1.50", "-2.25", "1e20", "'NaN'", "'Infinity'", "0.1", "null"),
    "real": ("0", "'-0'", "1.5", "'NaN'", "'infinity'", "0.1"),
    "double precision": ("0", "'-0'", "2.5", "'NaN'", "'-Infinity'", "1e-7", "0.1"),
    "text": (
        "''", "'a'", "'A'", "'%'", "'today'", "'now'", "'2026-01-01'", "'7'", "'x''y'", "'{a,b}'",
        "'day'", "'hour'", "'month'", "'week'", "'YYYY-MM-DD'", "'TMMonth'", "'Europe/Berlin'",
        "'UTC'", "'k'", "'$.k'", "'base64'", "'hex'", "E'\\n'", "',-{name}'", "'null'", "null",
        "'C'", "'9D99'", "'1 day'", "'[a-z]+'", "'g'", "'i'",
    ),
    "character varying": ("'a'", "''", "'ab '"),
    "character": ("'a '", "''"),
    '"char"': ("'a'", "''"),
    "name": ("'x'", "'day'"),
    "bytea": ("'\\x00ff'", "''", "E'\\\\000a'"),
    "date": (
        "'2026-01-01'", "'01/02/2026'", "'today'", "'infinity'", "'Jan 5 2026'",
        "'0044-03-15 BC'", "'epoch'", "'yesterday'", "null",
    ),
    "timestamp without time zone": (
        "'2026-03-29 02:30'", "'now'", "'2026-01-01'", "'02/03/2026 10:00'", "'infinity'",
        "'today 5:00'",
    ),
    "timestamp with time zone": (
        "'2026-03-29 02:30'", "'2026-01-01 00:00+00'", "'now'", "'tomorrow'",
        "'2026-01-01 00:00 EST'", "'2026-01-01 00:00 IST'", "'infinity'",
    ),
    "time without time zone": ("'10:00'", "'now'", "'24:00'", "'allballs'"),
    "interval": (
        "'1 day'", "'24:00'", "'1-2'", "'-1 2:03:04'", "'P1Y'", "'1 mon'", "'1 day -2:00'",
    ),
    "uuid": ("'00000000-0000-0000-0000-000000000001'",),
    "jsonb": ("'{}'", "'null'", "'{\"k\": 1.0}'", "'[1,2]'"),
    "json": ("'{}'", "'{\"k\" : 1}'"),
    "text[]": ("'{}'", "'{a,b}'", "'{a,NULL}'", "'{today}'", "'{k}'"),
    "integer[]": ("'{}'", "'{1,2}'", "'{{1},{2}}'", "'{NULL}'"),
    "date[]": ("'{2026-01-01}'", "'{today}'", "'{01/02/2026}'"),
    "daterange": ("'empty'", "'[2026-01-01,2026-02-01)'", "'[today,)'", "'(,)'"),
    "inet": ("'10.0.0.1'", "'10.0.0.0/8'"),
    "cidr": ("'10.0.0.0/8'",),
    "bit": ("B'1'", "B'101'"),
    "bit varying": ("B'101'", "''"),
}  # fmt: skip
"""The types of expressions, with constants that are read in more than one way."""

_TOTALS = (
    *("count(*)", "count(1)", "count({1})", "sum({0})", "sum({0})", "sum({0})", "avg({0})") * 3,
    "sum({2}::numeric)", "max({0})",
)  # fmt: skip
_OF_TOTALS = (
    "{0} - {1}", "round({0}::numeric, 2)", "coalesce({0}, 0)", "{0} / nullif({1}, 0)", "({0})::integer",
    "{0} * 100.0", "case when {0} > 1 then {1} else 0 end", "greatest({0}, {1})", "{0} / {1}",
    "({0})::text", "{0} is null", "abs({0})", "{0} / 3", "({0})::double precision",
)  # fmt: skip
_OF_KEYS = (
    "({0})::text", "({0}) is null", "coalesce({0}, {0})", "nullif({0}, {0})", "count(*) || ({0})::text", "array[{0}]",
    "({0}) = ({0})", "greatest({0}, {0})", "case when count(*) > 1 then {0} end", "(select {0})", "unnest(array[{0}, {0}])",
)  # fmt: skip
_OF_TWO = (
    "case when {2} then {0} else {1} end", "coalesce({0}, {1})", "greatest({0}, {1})", "nullif({0}, {1})",
)  # fmt: skip
_ARRAYS = {"text": "text[]", "integer": "integer[]", "date": "date[]"}
_POLYMORPHIC = {
    "anyelement": 0, "anyarray": 1, "anynonarray": 0,
    "anycompatible": 0, "anycompatiblearray": 1, "anycompatiblenonarray": 0,
}  # fmt: skip
# Constants could make them fill the memory of the oracle.
_LARGE = {"repeat", "lpad", "rpad", "array_fill", "generate_series", "factorial"}

_CALLS = """
select
    quote_ident(p.proname), p.prorettype::regtype::text,
    array(select t::oid::regtype::text from unnest(p.proargtypes) with ordinality as a (t, n) order by n),
    false
from pg_proc as p
where p.pronamespace = 'pg_catalog'::regnamespace and p.prokind = 'f' and not p.proretset
    and p.provariadic = 0 and p.pronargs > 0
union all
select
    o.oprname, o.oprresult::regtype::text,
    case when o.oprleft = 0 then array[o.oprright::regtype::text]
    else array[o.oprleft::regtype::text, o.oprright::regtype::text] end,
    true
from pg_operator as o
where o.oprnamespace = 'pg_catalog'::regnamespace and o.oprresult <> 0
order by 1, 2, 3
"""
_COLUMNS = """
select attname::text, format_type(case when typtype = 'd' then typbasetype else atttypid end, null)
from pg_attribute inner join pg_type as t on t.oid = atttypid
where attrelid = %s::regclass and attnum > 0 order by attnum
"""
_CASTS = "select castsource::regtype::text, casttarget::regtype::text from pg_cast order by 1, 2"


@dataclass
class Catalog:
    """What gives a type: calls and casts, by it."""

    calls: dict[str, list[tuple[str, list[str], bool]]] = field(default_factory=dict)
    casts: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, lab: Lab) -> Catalog:
        made = cls({name: [] for name in TYPES}, {name: ["text"] for name in TYPES})
        for name, result, arguments, is_operator in lab.execute(_CALLS):
            if name in _LARGE or name.startswith(("pg_", "has_", "txid_", "lo_", "inet_")):
                continue
            for element, array in _ARRAYS.items():
                pair = (element, array)
                types = [pair[_POLYMORPHIC[a]] if a in _POLYMORPHIC else a for a in arguments]
                gives = pair[_POLYMORPHIC[result]] if result in _POLYMORPHIC else result
                call = (name, types, is_operator)
                if {*types, gives} <= TYPES.keys() and call not in made.calls[gives]:
                    made.calls[gives].append(call)
        for source, target in lab.execute(_CASTS):
            if {source, target} <= TYPES.keys():
                made.casts[target].append(source)
        made.casts["text"] = [name for name in TYPES if name != "text"]
        return made


Scope = list[tuple[str, str]]
"""Columns that an expression may name, each with its type."""


class Queries:
    """Makes queries."""

    def __init__(self, lab: Lab, rng: Random) -> None:
        self.rng = rng
        self.catalog = Catalog.of(lab)
        self.tables = {
            name: [
                (quoted(column), type_) for column, type_ in lab.execute(_COLUMNS, f"lab.{name}")
            ]
            for name in VALUES
        }

    def query(self) -> tuple[str, dict[str, Any]]:
        """Return a query and the options of its model."""
        rng = self.rng
        options: dict[str, Any] = {}
        if rng.random() < 0.5:
            options["timezone"] = rng.choice(("Europe/Berlin", "Asia/Kathmandu", "America/Havana"))
        ctes, source, scope = self._from()
        keys = [self._key(scope) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
        totals = [
            self._total(scope, rng.choice((0, 0, 1, 2))) for _ in range(rng.choice((1, 1, 2, 4)))
        ]
        if keys and rng.random() < 0.05:
            totals = []
        listed = [f"{key} as k{n}" for n, key in enumerate(keys, 1)]
        if keys and rng.random() < 0.3:
            listed += [f"{rng.choice(_OF_KEYS).format(rng.choice(keys))} as e{n}" for n in (1, 2)]
        listed += [f"{total} as t{n}" for n, total in enumerate(totals, 1)]
        rest = f" where {self._expression('boolean', 2, scope)}" if rng.random() < 0.4 else ""
        if keys:
            rest += " group by " + ", ".join(keys)
        text = f"select {', '.join(listed)} from {source}{rest}"
        if rng.random() < 0.1:
            ctes.append(f"final as ({text})")
            text = "select * from final"
        if ctes:
            text = f"with {', '.join(ctes)} {text}"
        read = [table for table in sorted(self.tables) if f"{{{table}}}" in text]
        if rng.random() < 0.3:
            options["ignore_deletes"] = [f"lab.{rng.choice(read)}"]
        return text, options

    def _from(self) -> tuple[list[str], str, Scope]:
        rng = self.rng
        ctes: list[str] = []
        kind = rng.random()
        if kind < 0.35:
            table = rng.choice(sorted(self.tables))
            source, scope = f"{{{table}}} as s", self._named("s", self.tables[table])
        elif kind < 0.55:
            source, scope = self._arm()
            source = f"({source}) as s"
        elif kind < 0.65:
            text, scope = self._arm()
            ctes = [f"c as {rng.choice(('', 'materialized ', ''))}({text})"]
            source = "c as s"
        else:
            types = [rng.choice(list(TYPES)) for _ in range(rng.randint(1, 4))]
            arms = [self._arm(types)[0] for _ in range(rng.choice((2, 2, 3)))]
            source = f"({' union all '.join(arms)}) as s"
            scope = [(f"s.c{n}", type_) for n, type_ in enumerate(types, 1)]
        if rng.random() < 0.2:
            element, array = rng.choice(list(_ARRAYS.items()))
            join = rng.choice(("cross join", "left join", "join"))
            source += (
                f" {join} lateral unnest({self._expression(array, 1, scope)}) as u (x)"
                f"{'' if join == 'cross join' else ' on ' + rng.choice(('true', 'x is not null'))}"
            )
            scope = [*scope, ("u.x", element)]
        if rng.random() < 0.1:
            source += f" join (values (1, 'a'), (2, null), (2, 'b')) as v (i, t) on {rng.choice(('true', 'v.i = 2'))}"
            scope = [*scope, ("v.i", "integer"), ("v.t", "text")]
        return ctes, source, scope

    def _arm(self, types: list[str] | None = None) -> tuple[str, Scope]:
        rng = self.rng
        types = types or [rng.choice(list(TYPES)) for _ in range(rng.randint(1, 5))]
        table = rng.choice(sorted(self.tables))
        inner = self._named("r", self.tables[table])
        listed = [
            f"{self._expression(type_, rng.choice((0, 0, 1)), inner)}::{type_} as c{n}"
            for n, type_ in enumerate(types, 1)
        ]
        if rng.random() < 0.03:
            # Aggregates of the rows around a sub-select.
            listed = [
                f"(select max({rng.choice([name for name, _ in inner])}::text))::{type_} as c{n}"
                for n, type_ in enumerate(types, 1)
            ]
        where = f" where {self._expression('boolean', 1, inner)}" if rng.random() < 0.3 else ""
        return (
            f"select {', '.join(listed)} from {{{table}}} as r{where}",
            [(f"s.c{n}", type_) for n, type_ in enumerate(types, 1)],
        )

    @staticmethod
    def _named(alias: str, columns: Scope) -> Scope:
        return [(f"{alias}.{name}", type_) for name, type_ in columns]

    def _key(self, scope: Scope) -> str:
        if self.rng.random() < 0.5:
            name, type_ = self.rng.choice(scope)
            return name if self.rng.random() < 0.6 else f"{name}::text"
        type_ = self.rng.choice(list(TYPES))
        made = self._expression(type_, 2, scope)
        return made if self.rng.random() < 0.7 else f"({made})::text"

    def _total(self, scope: Scope, depth: int) -> str:
        rng = self.rng
        if depth:
            one, other = self._total(scope, depth - 1), self._total(scope, 0)
            return rng.choice(_OF_TOTALS).format(one, other)
        number = rng.choice(("smallint", "integer", "bigint", "numeric", "numeric"))
        made = rng.choice(_TOTALS).format(
            self._expression(number, 1, scope),
            self._expression(rng.choice(list(TYPES)), 1, scope),
            self._expression("text", 1, scope),
        )
        if rng.random() < 0.3:
            made += f" filter (where {self._expression('boolean', 1, scope)})"
        return made

    def _expression(self, type_: str, depth: int, scope: Scope) -> str:
        rng = self.rng
        columns = [name for name, own in scope if own == type_]
        if depth <= 0 or rng.random() < 0.15:
            if columns and rng.random() < 0.8:
                return rng.choice(columns)
            if rng.random() < 0.7:
                near = [
                    f"{name}::{type_}" for name, own in scope if own in self.catalog.casts[type_]
                ]
                if near:
                    return rng.choice(near)
            value = rng.choice(TYPES[type_])
            return value if rng.random() < 0.3 else f"{value}::{type_}"
        kind = rng.random()
        if kind < 0.6 and (calls := self.catalog.calls[type_]):
            return self._call(*rng.choice(calls), depth, scope)
        if kind < 0.7:
            source = rng.choice(self.catalog.casts[type_])
            return f"({self._expression(source, depth - 1, scope)})::{type_}"
        one = self._expression(type_, depth - 1, scope)
        other = self._expression(type_, depth - 1, scope)
        test = self._expression("boolean", depth - 1, scope)
        made = [shape.format(one, other, test) for shape in _OF_TWO]
        if type_ in _ARRAYS:
            array = self._expression(_ARRAYS[type_], depth - 1, scope)
            made += [
                f"(select max(e) from unnest({array}) as e)",
                f"({array})[1]",
                f"(select e from unnest({array}) as e order by 1 limit 1)",
            ]
        if type_ == "boolean":
            of = rng.choice(list(TYPES))
            value = self._expression(of, depth - 1, scope)
            made += [
                f"({one} and {other})",
                f"({one} or not {other})",
                f"({value}) is null",
                f"({value}) is distinct from {self._expression(of, depth - 1, scope)}",
                f"({value}) in ({', '.join(rng.sample(TYPES[of], min(2, len(TYPES[of]))))})",
                f"exists (select from unnest({self._expression('text[]', 0, scope)}) as e where e = 'a')",
            ]
        if type_ == "text":
            moods = [name for name, own in scope if own == "lab.mood"]
            made += [f"{mood}::text" for mood in moods] * 2
            value = self._expression(rng.choice(list(TYPES)), depth - 1, scope)
            made += [f"concat({one}, {value})", f"{self._expression('jsonb', 0, scope)} ->> 'k'"]
        return rng.choice(made)

    def _call(
        self, name: str, types: list[str], is_operator: bool, depth: int, scope: Scope
    ) -> str:
        arguments = []
        for type_ in types:
            made = self._expression(type_, depth - 1, scope)
            arguments.append(made if self.rng.random() < 0.5 else f"({made})::{type_}")
        if not is_operator:
            return f"{name}({', '.join(arguments)})"
        if len(arguments) == 1:
            return f"({name} ({arguments[0]}))"
        return f"(({arguments[0]}) {name} ({arguments[1]}))"


@dataclass
class Outcome:
    """What became of a query."""

    kind: str
    """invalid for PostgreSQL, refused, kept, stopped (its totals overflow), or wrong."""
    query: str
    options: dict[str, Any]
    reason: str = ""


Kept = TypeVar("Kept")


class Trial(Generic[Kept]):
    """Keeps several queries through one history."""

    width: int
    queries: Queries

    def __init__(self, lab: Lab, seed: int) -> None:
        self.lab, self.rng = lab, Random(seed)
        self.followed = self.filled = 0

    def outcomes(self, count: int) -> Iterator[Outcome]:
        """Yield what became of each of so many queries."""
        left = count
        while left > 0:
            models: list[tuple[Kept, Outcome]] = []
            self.clear()
            while left > 0 and len(models) < self.width:
                left -= 1
                made = self._begin(f"m{left}", *self.queries.query())
                if isinstance(made, Outcome):
                    yield made
                else:
                    models.append(made)
            self.live(models)
            for _, outcome in models:
                yield outcome

    def _begin(
        self, name: str, query: str, options: dict[str, Any]
    ) -> Outcome | tuple[Kept, Outcome]:
        text = query
        for known in self.queries.tables:
            text = text.replace(f"{{{known}}}", f"lab.{known}")
        try:
            # Not read: a "char" in the plan may be no text of the database's encoding.
            with (
                self.lab.zone(options.get("timezone", "UTC")),
                self.lab.connection.cursor() as cursor,
            ):
                cursor.execute(f"explain {text}")
        except psycopg2.Error as error:
            return Outcome("invalid", query, options, said(error))
        try:
            model = self.model(name, query, options)
        except psycopg2.Error as error:
            # PostgreSQL makes no table with two columns of one name.
            kind = {"WL003": "refused", "42701": "invalid"}.get(error.pgcode or "", "wrong")
            return Outcome(kind, query, options, said(error))
        return model, Outcome("kept", query, options)

    def clear(self) -> None:
        """Forget the models of before."""
        raise NotImplementedError

    def model(self, name: str, query: str, options: dict[str, Any]) -> Kept:
        """Install a model. Raises psycopg2.Error."""
        raise NotImplementedError

    def live(self, models: list[tuple[Kept, Outcome]]) -> None:
        """Let them follow a history."""
        raise NotImplementedError


class FactTrial(Trial[Model]):
    """Over the odd tables."""

    width = 8

    def __init__(self, lab: Lab, seed: int) -> None:
        super().__init__(lab, seed)
        self.queries = Queries(lab, self.rng)

    def clear(self) -> None:
        self.lab.clear()

    def model(self, name: str, query: str, options: dict[str, Any]) -> Model:
        return Model(self.lab, name, query, self.rng, **options)

    def live(self, models: list[tuple[Model, Outcome]]) -> None:
        writer = Writer(self.lab, self.rng)
        for _ in range(6):
            writer.write(self.rng.choice((1, 3, 10, 20)))
            for model, outcome in models:
                if outcome.kind == "kept":
                    self._follow(model, outcome)

    def _follow(self, model: Model, outcome: Outcome) -> None:
        failed = None
        # Totals that overflow between two batches are none of the query's.
        model.has_parts = False
        try:
            model.catch_up(is_cut=False)
        except psycopg2.Error as error:
            failed = error
        try:
            differences = model.differences()
        except psycopg2.Error as error:
            # Rows that the query can take alone, but not together.
            outcome.kind, outcome.reason = "stopped", said(failed or error)
            return
        if failed:
            # An expression of totals fails in the query too. A row that makes PostgreSQL's own function
            # ask for too much memory (XX000) is not told from a fault of the server: the model stops.
            is_known = failed.pgcode == "XX000" or model.fails()
            outcome.kind = "stopped" if is_known else "wrong"
            outcome.reason = f"the step: {said(failed)}"
        elif differences and model.differences(digits=15):
            outcome.kind, outcome.reason = "wrong", f"differs: {differences[:4]}"
        else:
            self.followed += 1


def said(error: psycopg2.Error) -> str:
    return f"{error.pgcode} {(error.diag.message_primary or str(error)).strip()}"


def begin(dsn: str, seed: int) -> FactTrial:
    lab = Lab.following(dsn, OWN_TYPES + TABLES)
    lab.execute("set statement_timeout to '20s'")
    return FactTrial(lab, seed)


def main(begun: Callable[[str, int], Trial[Any]]) -> None:
    """Run so many queries, and print what became of them."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shown", default="wrong,stopped alone", help="print these kinds")
    asked = parser.parse_args()
    counted: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    with Server({"fsync": "off"}) as server, suppress(KeyboardInterrupt):
        trial = begun(server.dsn(), asked.seed)
        for outcome in trial.outcomes(asked.count):
            counted[outcome.kind] += 1
            for line in outcome.reason.splitlines():
                reasons[f"{outcome.kind}: {line}"] += 1
            if outcome.kind in asked.shown.split(","):
                print(
                    f"\n{outcome.kind} {outcome.reason}\n  {outcome.query}\n  {outcome.options}",
                    flush=True,
                )
            if counted.total() % 200 == 0:
                print(dict(counted), trial.followed, "equal,", trial.filled, "filled", flush=True)
    print("\n".join(f"{count:6} {line}" for line, count in reasons.most_common(80)))
    print(dict(counted))


if __name__ == "__main__":
    main(begin)
