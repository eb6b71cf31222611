"""Models over models on a slot, seeded over empty tables, for the tests of their life."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from testkit.queries import QuerySystem
from testkit.servers import connect
from waltally.database import Connection

TABLES = """
create schema lab;
create table lab.sale (id int primary key, shop_id int, amount int, note text);
create table lab.shop (id int primary key, name varchar(6));
alter table lab.sale replica identity full;
alter table lab.shop replica identity full;
"""
WAIT = """
create function lab.wait() returns trigger language plpgsql set lock_timeout = 0 as $$
begin
    perform pg_advisory_xact_lock_shared(1);
    return new;
end
$$;
"""
"""What a trigger waits for in the session that fires it, for the lock 1."""
FILL = "select from cdc.apply(%s, part => 'catching up')"
JOINED = "from {sales} as a inner join {shops} as s on s.id = a.shop_id"
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "sales": ("select shop_id, count(*) as n, sum(amount) as amount from {sale} group by 1", {}),
    "shops": ("select id, name from {shop}", {}),
    "named": (f"select s.name, sum(a.amount) as amount, sum(a.n) as n {JOINED} group by 1", {}),
    "narrow": (f"select s.name, sum(a.amount)::integer as amount {JOINED} group by 1", {}),
    "halved": (f"select 10 / s.id as part, count(*) as n {JOINED} group by 1", {}),
    "most": ("select max(amount) as most, count(distinct n) as sizes from {named}", {}),
}
DEPENDENTS = ("named", "narrow", "halved", "most")


class Life(QuerySystem):
    """The models, seeded over empty tables."""

    def begin(self) -> None:
        self.source.execute(TABLES + WAIT)
        self.keep(MODELS)
        self.target.take_baseline()
        self.as_begun = self.models

    def is_as_begun(self) -> bool:
        """Whether a test has left the models as they were, and each follows."""
        is_there = self.target.value("select to_regnamespace('cdc') is not null")
        if not is_there or self.models != self.as_begun:
            return False
        states = self.target.execute("select model_name, state from cdc.model_state")
        return dict(states) == dict.fromkeys(MODELS, "follows")

    def fill(self) -> None:
        """Let the tables have their first rows."""
        self.source.execute(
            "truncate lab.sale, lab.shop;"
            " insert into lab.shop select n, 'shop ' || n % 3 from generate_series(1, 6) as n;"
            " insert into lab.sale select n, 1 + n % 7, n, 'x' from generate_series(1, 40) as n"
        )
        self.must_be_exact()

    @contextmanager
    def other_session(self) -> Iterator[Connection]:
        """Give a session of somebody else, in a transaction."""
        with closing(connect(self.target.cluster.dsn(self.target.name))) as other:
            other.autocommit = False
            yield other

    def state(self, name: str) -> tuple[str, str, str]:
        ((state, reason, remedy),) = self.target.execute(
            "select state, reason, remedy from cdc.model_state where model_name = %s", name
        )
        return state, reason or "", remedy or ""

    def must_say(self, name: str, state: str, reason: str = "", remedy: str = "") -> None:
        """See that a model is in a state, for this reason, and what helps, in these words."""
        found = self.state(name)
        assert found[0] == state and reason in found[1] and remedy in found[2], found

    def try_again(self) -> None:
        """Let no model wait with its next try, and apply."""
        self.target.execute(
            "update cdc.dependent_model set retry_at = null where retry_at is not null;"
            " update cdc.installed_model set retry_at = null where retry_at is not null"
        )
        self.catch_up()

    def differing(self, *models: str) -> dict[str, list[tuple[Any, ...]]]:
        found = {}
        for name in models or DEPENDENTS:
            columns = self.target.value(
                "select string_agg(format('%%I', one.name), ', ') from cdc.dependent_model as own"
                " cross join cdc.list_columns(own.declaration) as one"
                " where own.model_name = %s and one.is_shown",
                name,
            )
            query = self.models[name][0].replace('"db".', "")
            found[name] = self.compare(
                f"select {columns} from analytics.{name}", f"select {columns} from ({query}) as q"
            )
        return {name: rows for name, rows in found.items() if rows}

    def must_be_exact(self, *models: str) -> None:
        self.catch_up()
        for name in models or DEPENDENTS:
            assert self.state(name) == ("follows", "", "")
        assert self.differing(*models) == {}
