"""Models over models, without a slot: the routines of facts and rows give what changed below."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from random import Random
from typing import Any

import psycopg2

from testkit.comparison import apart
from tests.queries.lab import Lab, Model
from tests.queries.writer import Writer

TABLES = """
create collation lab.loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
create table lab.orders (
    id bigint primary key, placed date, channel text, customer_id integer, hours integer,
    amount numeric, at timestamptz, is_paid boolean, ratio double precision, tags text[], doc jsonb
);
create table lab.customers (
    id integer primary key, name text, region_id integer, since date, is_open boolean, code bigint
);
create table lab.regions (id integer primary key, name text);
create table lab.users (id integer primary key, name text, is_active boolean, note text);
create table lab.memberships (
    id integer primary key, user_id integer, project_id integer, role text, note text
);
create table lab.projects (id integer primary key, owner integer, is_open boolean);
create table lab.weights (a integer, b integer, role text, weight smallint, primary key (a, b));
"""
BELOW = {
    "days": (
        "select placed as day, channel, customer_id, hours, count(*) as order_count, "
        "sum(amount) as amount, round(avg(amount), 2) as average from {orders} "
        "group by 1, 2, 3, 4"
    ),
    "priced": "select id, amount from {orders}",
    "customer": "select id, name, region_id, since from {customers}",
    "region": "select id, name from {regions}",
    "app_user": "select id, name, is_active, note from {users}",
    "membership": (
        'select id, user_id, project_id, role, note, role::"char" as letter, (id % 3)::bit(2) as bits '
        "from {memberships}"
    ),
    "person": "select id, name collate lab.loose as name, note collate lab.loose as note from {users}",
    "project": "select id, owner, is_open from {projects}",
}
_LONG = "select string_agg(md5(n::text), '') from generate_series(1, 100) as n"
_VALUES = {
    "id": tuple(map(str, range(1, 7))),
    "orders.id": tuple(map(str, range(1, 31))),
    "channel": ("null", "'web'", "'Web'", "'shop'", "''", "repeat('long', 60)"),
    "hours": ("null", *map(str, range(1, 9))),
    "amount": ("null", "0", "1.5", "1.50", "7", "-2", "0.001"),
    "name": ("null", "'a'", "'A'", "'B'", "'ä'", "''", "'web'", "repeat('long', 60)"),
    # The last ones are too long for an index, and begin alike.
    "note": ("null", "'a'", f"({_LONG})", f"({_LONG}) || 'x'"),
    "role": ("'lead'", "'member'", "'a'", "null"),
    "code": ("null", "1", "2", "9000000000"),
}
_TIMES = ("2026-01-03", "2026-01-09", "2026-02-01", "2026-03-29 00:30+00", "2026-03-29 01:30+00")


def writer_of(lab: Lab, rng: Random) -> Writer:
    """Return what changes these tables at random."""
    tables = [name for name in lab.sources if f"create table lab.{name} " in TABLES]
    return Writer.of(lab, rng, tables, _VALUES, [f"'{time}'::{{}}" for time in _TIMES])


class Below(Model):
    """A model over tables that updates its dependents."""

    NO_CHANGED_ROWS = "case when cdc.has_dependents('lab.{0}') then array[]::lab.{0}[] end"
    UPDATED = (
        "case when made.is_reset or '{1}' = 'rebuild' then cdc.ask_to_fill_dependents('lab.{0}', 'it was built again')::text "
        "else cdc.update_dependents('lab.{0}', made.before, made.after)::text end"
    )

    def __init__(self, lab: Lab, name: str, query: str, rng: Random, **options: Any) -> None:
        super().__init__(lab, name, query, rng, **options)
        lab.execute(
            "insert into cdc.installed_model (slot_name, relation, model_name, "
            "relation_schema, relation_name, declaration, needed, routine, needs) "
            "values ('lab', %s, %s, 'lab', %s, %s, '{}', '', '[]')",
            *(f"lab.{name}", name, name, json.dumps(self.compiled)),
        )


class Dependent:
    """A model over models."""

    def __init__(self, lab: Lab, name: str, query: str, **options: Any) -> None:
        self.lab, self.name, self.query = lab, name, query
        lab.made += 1
        self.inputs = [
            known
            for (known,) in lab.execute(
                "select model_name from cdc.installed_model union select model_name from cdc.dependent_model order by 1"
            )
            if f"{{{known}}}" in query
        ]
        relations = [
            {
                **{"relation": f'"db"."lab"."{below}"', "model": f"lab.{below}", "name": below},
                **{"schema": "lab", "materialized": "waltally"},
            }
            for below in self.inputs
        ]
        self.compiled: dict[str, Any] = lab.value(
            "select cdc.install_dependent('lab', 'lab', %s, %s, %s, %s, %s, null, false)",
            *(name, name, self._named('"db"."lab"'), json.dumps(relations), json.dumps(options)),
        )
        self.columns = lab.execute(
            "select name, type from cdc.list_columns(%s) where is_shown order by ordinal",
            json.dumps(self.compiled),
        )

    def _named(self, schema: str) -> str:
        text = self.query
        for below in self.inputs:
            text = text.replace(f"{{{below}}}", f'{schema}."{below}"')
        return text

    def differences(self) -> list[tuple[Any, ...]]:
        """Return rows of the model that its query does not give, and the other way round."""
        spelled = dict.fromkeys(("text", "character varying", "json"), '"{}"::text collate "C"')
        # The last digits depend on the order of rows.
        spelled |= dict.fromkeys(
            ("real", "double precision"),
            """to_char(coalesce(nullif("{}", 0), 0), '9.99999999EEEE')""",
        )
        spelled |= dict.fromkeys(self.compiled["collations"], '"{}"')
        names = ", ".join(
            spelled.get(name, spelled.get(type_, '"{}"')).format(name)
            for name, type_ in self.columns
        )
        model = f"select {names} from lab.{self.name}"
        query = f"select {names} from ({self._named('lab')}) as query"
        with self.lab.zone(self.compiled["timezone"]):
            return self.lab.execute(apart(model, query))

    def audited(self) -> list[Any]:
        """Return what an audit says of it: how many values differ, and which."""
        query = self.lab.value(
            "select cdc.write_difference(%s, %s, 9)",
            json.dumps(self.compiled),
            f"lab.{self.name}",
        )
        with self.lab.zone(self.compiled["timezone"]):
            ((_, *found),) = self.lab.execute(query)
        return found


def fill_one(lab: Lab, model: str, routine: str) -> None:
    for step in ("fill", "catch up"):
        lab.execute(f"select {routine}('{step}', null, null::text[], null, null::text[])")
    # The session may find another = first.
    lab.execute("delete from cdc.to_fill where relation operator(pg_catalog.=) %s", model)
    lab.execute("select cdc.ask_to_fill_dependents(%s, 'below')", model)


def fill_beside(lab: Lab, models: list[str], change: Callable[[], object]) -> None:
    """Fill models while their inputs change, as sessions of their own do."""
    snapshots = {}
    routine = "(select routine from cdc.dependent_model where relation operator(pg_catalog.=) %s)"
    with closing(psycopg2.connect(lab.connection.dsn)) as filler, filler.cursor() as cursor:
        for model in models:
            lab.execute("select cdc.ask_to_fill(%s, 'a test asks for it')", model)
            cursor.execute("select pg_advisory_xact_lock(cdc.lock_key('fill', %s))", [model])
        # What changed before the snapshot is queued too.
        change()
        for model in models:
            lab.execute("begin")
            lab.execute(f"select cdc.step_dependent({routine}, 'fill')", model)
            snapshots[model] = lab.value("select current_setting('waltally.snapshot')")
            lab.execute("commit")
        change()
    for model in models:
        lab.execute("begin")
        lab.execute("select set_config('waltally.snapshot', %s, true)", snapshots[model])
        lab.execute(f"select cdc.catch_up(%s, {routine})", model, model)
        # What was asked for meanwhile, as by a TRUNCATE, stays.
        lab.execute(
            "delete from cdc.to_fill where relation operator(pg_catalog.=) %s"
            " and reason operator(pg_catalog.=) 'a test asks for it'",
            model,
        )
        lab.execute("select cdc.ask_to_fill_dependents(%s, 'below')", model)
        lab.execute("commit")


def fill(lab: Lab) -> int:
    """Fill what is to be filled, the lowest first, and return how many there were."""
    count = 0
    while due := lab.execute(
        "select own.relation, left(own.routine, strpos(own.routine, '(') - 1) "
        "from cdc.dependent_model as own where cdc.is_to_be_filled(own.relation) "
        "order by own.level, own.relation limit 1"
    ):
        fill_one(lab, *due[0])
        count += 1
    return count
