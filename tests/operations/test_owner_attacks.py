"""Whoever owns a table that is followed has no code of theirs run by a session of ours."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from loader.setup.dbt_project import read_manifest
from testkit.databases import Database
from testkit.queries import QuerySystem
from testkit.servers import Server, administer
from tests.operations import roles
from waltally.errors import MissingRight

OWNER = "application"
PLANNED = {"predicate", "index", "statistics"}
"""What whoever plans a query on the table calls: there a role without rights helps."""

_SPY = "create function spies.{name}({takes}) returns {gives} language plpgsql immutable as {body};"
_BODY = "$$begin raise log 'spied: {name} by %', current_user; return {value}; end$$"


def spy(name: str, takes: str, gives: str, value: str) -> str:
    """Return SQL: a function that the server's log tells of."""
    body = _BODY.format(name=name, value=value)
    return _SPY.format(name=name, takes=takes, gives=gives, body=body)


CASTS = [
    (taken, given, way)
    for taken in ("mood", "pair")
    for given, way in (
        *(("text", "implicit"), ("varchar", "assignment"), ("name", "implicit")),
        *(("json", "assignment"), ("jsonb", "implicit"), ("integer", "explicit")),
    )
]
HOSTILE = """lab."; select spies.predicate(1); --'%s {x}" """
OWNED = "\n".join(
    [
        "create schema spies; create schema lab;",
        "grant usage on schema spies to public;",
        *(
            spy(name, "integer", "integer", "$1")
            for name in (*PLANNED, "of_default", "of_rule", "of_policy", "of_check", "generated")
        ),
        "create type lab.mood as enum ('sad', 'ok'); create type lab.pair as (a integer, b text);",
        *(
            spy(f"{given}_of_{taken}", f"lab.{taken}", given, "null")
            + f"create cast (lab.{taken} as {given}) with function spies.{given}_of_{taken}"
            + {"explicit": ";"}.get(way, f" as {way};")
            for taken, given, way in CASTS
        ),
        spy("mood_of_text", "text", "lab.mood", "'sad'"),
        "create cast (text as lab.mood) with function spies.mood_of_text as implicit;",
        *(
            spy(f"compare_{other}", f"lab.mood, {other}", "boolean", "true")
            + f"create operator lab.= (leftarg = lab.mood, rightarg = {other},"
            + f" function = spies.compare_{other});"
            for other in ("text", "name")
        ),
        "create domain lab.feeling as lab.mood check (spies.of_check(1) = 1);",
        "create domain lab.amount as numeric(12, 2) check (spies.of_check(1) = 1);",
        "create table lab.a (id bigint primary key, mood lab.mood, feeling lab.feeling,",
        " pair lab.pair, moods lab.mood[], amount lab.amount, n int default spies.of_default(1),",
        " twice int generated always as (spies.generated(n)) stored);",
        "alter table lab.a replica identity full;",
        f"create table {HOSTILE} (id int primary key, "
        """"mood""; select spies.index(1)" lab.mood);""",
        f"alter table {HOSTILE} replica identity full;",
        "create index on lab.a (id) where spies.predicate(1) = 1;",
        "create index on lab.a ((spies.index(1)));",
        "create statistics lab.s on (spies.statistics(1)), n from lab.a;",
        "create rule told as on update to lab.a do also select spies.of_rule(1);",
        "create policy seen on lab.a using (spies.of_policy(1) = 1);",
        "create function spies.triggered() returns trigger language plpgsql as",
        "$$begin raise log 'spied: trigger by %', current_user; return new; end$$;",
        "create trigger touched before insert or update on lab.a",
        "for each row execute function spies.triggered();",
    ]
)
QUERIES = {
    "moods": "select mood, feeling, sum(amount) as amount, count(*) as n from {a} group by 1, 2",
    "labels": "select mood, count(*) as n from {a} where mood = 'sad' and n > 0 group by 1",
    "pairs": "select pair::text as pair, count(*) as n from {a} group by 1",
    "parts": "select unnest(moods) as one, count(*) as n from {a} group by 1",
    "kept": "select id, mood, feeling, moods, n from {a}",
    "named": 'select "mood""; select spies.index(1)" as mood, count(*) as n from {'
    f"{HOSTILE.strip()[5:-1]}}} group by 1",
}
CHANGES = (
    "insert into lab.a (id, mood, feeling, pair, moods, amount)"
    " select i, 'sad', 'ok', '(1,b)', '{sad,ok}', i from generate_series(%s, %s) as i",
    "update lab.a set mood = 'ok' where id %% 3 = 0 and id between %s and %s",
    "delete from lab.a where id %% 5 = 0 and id between %s and %s",
)


class Owned(QuerySystem):
    """Tables of the application's own role, and models over them."""

    def change(self, first: int, last: int) -> None:
        """Change the tables as their owner."""
        with closing(self.session(OWNER)) as session:
            for change in CHANGES:
                session.ask(change, (first, last))
            session.ask(f"insert into {HOSTILE.replace('%', '%%')} values (%s, 'sad')", (first,))

    def install_as(self, role: str) -> None:
        """Install the models, as dbt does."""
        read = {query.name: query for query in read_manifest(self.source.manifest).queries}
        with closing(self.session(role)) as session:
            session.ask("set search_path = pg_catalog")
            for name, (text, config) in self.models.items():
                tables = [{"relation": place, "table": str(at)} for place, at in read[name].sources]
                session.ask(
                    "select cdc.install_query(%s, 'analytics', %s, %s, %s, %s, %s,"
                    " 'analytics.rejected_changes', false)",
                    (self.slot, name, name, text, json.dumps(tables), json.dumps(config)),
                )

    def spied(self) -> set[tuple[str, str]]:
        """Return which functions of the owner were called by whom else."""
        log = self.source.cluster.log.read_text()
        called = re.findall(r"spied: (\w+) by (\w+)", log)
        return {(name, role) for name, role in called if role != OWNER}


@pytest.fixture
def owned(tmp_path: Path) -> Iterator[Owned]:
    """Rows in tables whose owner has left a function of theirs wherever one can be."""
    with Server({"fsync": "off"}) as cluster:
        administer(cluster, "create database owned", f"create role {OWNER} login")
        administer(cluster, f"grant create on database owned to {OWNER}")
        with Database(cluster, "owned") as database:
            made = Owned(database, tmp_path)
            with closing(made.session(OWNER)) as session:
                session.ask(OWNED)
            made.declare({name: (query, {}) for name, query in QUERIES.items()})
            made.change(1, 50)
            yield made


def test_nothing_of_the_owner_runs_as_one_of_our_roles(owned: Owned) -> None:
    roles.grant_rights(owned)
    owned.source.execute(f"grant usage on schema lab to {roles.LOADER}")
    loader, spark = owned.by(roles.LOADER), owned.by(roles.SPARK)
    loader.must("setup")
    roles.grant_rights(owned)
    owned.install_as(roles.DBT)
    roles.grant_rights(owned)
    with loader.follow("--build"):
        spark.spark_job(roles.SEED)
        owned.change(51, 100)
        loader.must("wait")
        spark.spark_job("spark-submit spark/audit.py")
        for command in (("setup", "--check"), ("status",), ("prune",)):
            loader.must(*command)
        owned.by(roles.READER).must("stats", "moods")
        for job in (roles.SEED, "spark-submit spark/audit.py"):
            with pytest.raises(MissingRight, match="belongs to application, which is none"):
                owned.spark_job(job)
    assert set(owned.states().values()) == {"follows"}
    assert owned.spied() <= {(name, roles.SPARK) for name in PLANNED}


def test_nothing_of_the_owner_runs_as_a_superuser(owned: Owned) -> None:
    owned.must("setup")
    owned.source.execute("create schema analytics")
    owned.install_as("postgres")
    owned.must("run", "--once", "--build")
    owned.change(51, 100)
    owned.must("run", "--once", "--build")
    owned.loader("status")
    assert owned.spied() == set()
