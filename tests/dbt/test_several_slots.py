"""Models over models whose inputs come from three databases: a recipe of docs/models.md."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing
from random import Random
from typing import Any

import pytest

from testkit.commands import ROOT, run_dbt, wait_until
from testkit.databases import empty_database
from testkit.fixtures import WAREHOUSE
from testkit.project import host_project
from testkit.servers import Cluster, connect
from testkit.system import System
from tests.dbt.shop import above_differs
from tests.spark.support import run_command

TABLES = {
    "people": """
create table member (id int primary key, name text, team_id int, is_active boolean);
insert into member select n, 'm' || n, n % 5, n % 4 > 0 from generate_series(1, 20) as n;
""",
    "org": """
create table team (id int primary key, name text, is_archived boolean not null default false);
insert into team select n, 't' || n from generate_series(0, 5) as n;
""",
    "access": """
create table project_grant (id int primary key, team_id int, project text, role text);
insert into project_grant select n, n % 6, 'p' || n % 4, (array['read', 'write'])[1 + n % 2]
from generate_series(1, 15) as n;
""",
}
"""By database, and the source that stands for it, its tables."""

KEPT = "{{ config(materialized='waltally') }}\n"
PAGE = (ROOT / "docs" / "models.md").read_text()
MODELS = {
    "staff": "select id, name, team_id, is_active from {{ source('people', 'member') }}",
    "teams": "select id, name, is_archived from {{ source('org', 'team') }}",
    "grants": "select id, team_id, project, role from {{ source('access', 'project_grant') }}",
    "may_see": PAGE.partition("-- may_see.sql\n")[2].partition("```")[0],
    "projects": "select project, count(distinct member_id) as member_count, max(name) as last_name"
    " from {{ ref('may_see') }} group by 1",
    "crews": "select t.name, count(*) as member_count from {{ ref('teams') }} as t"
    " join {{ ref('staff') }} as m on m.team_id = t.id group by 1",
}
UPPER = ("may_see", "projects", "crews")
ROWS = {
    "staff": ("people", "member"),
    "teams": ("org", "team"),
    "grants": ("access", "project_grant"),
}
"""By rows model its source and its table."""


class Lab:
    """Three sources, a target, and one dbt project, whose sources name their slots."""

    def __init__(self, systems: dict[str, System]) -> None:
        self.systems = systems
        self.target = systems["people"].target
        one = systems["people"]
        project = host_project(one.home, {name: KEPT + text for name, text in MODELS.items()})
        sources = [
            {
                **{"name": name, "schema": "public", "config": {"meta": {"slot": system.slot}}},
                "tables": [
                    {"name": table} for table in re.findall(r"table (\w+) \(", TABLES[name])
                ],
            }
            for name, system in systems.items()
        ]
        (project / "models" / "sources.yml").write_text(json.dumps({"sources": sources}))
        self.project = project
        for name, system in systems.items():
            system.project = project
            system.source.execute(TABLES[name])
        # Each setup would parse the project again.
        self.must_dbt("compile")
        (manifest,) = one.home.glob("**/manifest.json")
        for system in systems.values():
            system.given["LOADER_MANIFEST"] = str(manifest)
        self.said = "".join(system.must("setup") for system in systems.values())
        """What setup and dbt said when they made the models."""
        self.said += self.must_dbt("run")
        for system in systems.values():
            system.spark_job("spark-submit spark/seed.py")
        self.catch_up()

    def dbt(self, *arguments: str) -> tuple[int, str]:
        place = ("--project-dir", str(self.project), "--no-use-colors")
        done = run_dbt((*arguments, *place), self.systems["people"].dbt_environment())
        return done.returncode, done.stdout + done.stderr

    def must_dbt(self, *arguments: str) -> str:
        code, said = self.dbt(*arguments)
        assert code == 0, said
        return said

    def states(self, name: str) -> dict[str, tuple[str, str | None, str | None]]:
        """Return state, reason and remedy of a model in each slot, by the source's name."""
        slots = {system.slot: name for name, system in self.systems.items()}
        return {
            slots[slot]: (state, reason, remedy)
            for slot, state, reason, remedy in self.target.execute(
                "select slot_name, state, reason, remedy from cdc.model_state"
                " where model_name = %s",
                name,
            )
        }

    def catch_up(self, *names: str) -> None:
        """Stage and apply what the sources of these names, or all, have committed."""
        for name in names or self.systems:
            self.systems[name].must("run", "--once")
            self.systems[name].apply()

    def write(self, dice: Random) -> None:
        for name in dice.choices(list(self.systems), k=4):
            statements = [
                change.format(key=dice.randint(1, 25), some=dice.randint(2, 6))
                for change in dice.choices(CHANGES[name], k=2)
            ]
            self.systems[name].source.execute("begin; " + "; ".join(statements) + "; commit")

    def is_exact(self) -> bool:
        """Whether the rows models hold their tables, and what is above equals its queries."""
        rows = "select * from {} order by id"
        for name, (place, table) in ROWS.items():
            source = self.systems[place].source
            held = self.target.execute(rows.format(f"analytics.{name}"))
            assert source.execute(rows.format(table)) == held, name
        home = self.project.parent
        assert [row for name in UPPER for row in above_differs(self.target, home, name)] == []
        return True


CHANGES = {
    "people": (
        "insert into member values ({key}, 'n{key}', {key} % 6, true)"
        " on conflict (id) do update set team_id = excluded.team_id",
        "update member set name = name || '!', is_active = not is_active where id % {some} = 0",
        "delete from member where id = {key}",
    ),
    "org": (
        "update team set is_archived = not is_archived where id % {some} = 0",
        "insert into team values ({key} % 8, 'new')"
        " on conflict (id) do update set name = excluded.name",
        "delete from team where id = {key} % 8",
    ),
    "access": (
        "insert into project_grant values ({key}, {key} % 6, 'p{some}', 'write')"
        " on conflict (id) do update set project = excluded.project",
        "update project_grant set team_id = {key} % 6, role = 'read' where id % {some} = 0",
        "delete from project_grant where id = {key}",
        "truncate project_grant",
    ),
}


@pytest.fixture(scope="module")
def lab(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    home = tmp_path_factory.mktemp("several")
    with ExitStack() as databases:
        target = databases.enter_context(empty_database(cluster, WAREHOUSE))
        made = {name: databases.enter_context(empty_database(cluster)) for name in TABLES}
        yield Lab({name: System(source, home, target) for name, source in made.items()})


def test_each_slot_has_its_own_models_and_those_above_are_in_each(lab: Lab) -> None:
    assert lab.is_exact()
    found = lab.target.execute("select declared_name, slot_name from cdc.registered_model")
    assert dict(found) == {name: lab.systems[place].slot for name, (place, _) in ROWS.items()}
    follows = ("follows", None, None)
    assert lab.states("may_see") == dict.fromkeys(TABLES, follows)
    assert lab.states("crews") == dict.fromkeys(("people", "org"), follows)
    for name, system in lab.systems.items():
        assert "forgot" not in system.must("setup")
        assert "crews" in system.must("stats") or name == "access"
        status = system.must("status")
        for model, kind in (
            ("may_see", "fact over models: grants x teams x staff, found by team_id"),
            ("projects", "roll-up of may_see"),
            ("crews", "fact over models: teams x staff, found by team_id"),
        ):
            assert f"analytics.{model}: {kind}\n" in lab.said
            assert kind in status or (name, model) == ("access", "crews")
    assert "registered staff, rows of public.member" in lab.said


def test_an_audit_compares_models_over_models_of_several_slots(lab: Lab) -> None:
    def audited(*flags: str, code: int = 0) -> tuple[dict[str, Any], str]:
        given = lab.systems["people"].environment()
        found, out, err = run_command("audit", ("--json", *flags), given)
        assert found == code, out + err
        return json.loads(out)["over_models"], err

    with lab.systems["people"].follow("--build"):
        over, _ = audited()
        assert {name: each["difference_count"] for name, each in over.items()} == dict.fromkeys(
            UPPER, 0
        )
        assert all(each["group_count"] > 2 for each in over.values())
        status = json.loads(lab.systems["org"].must("status", "--json"))
        assert {each["name"] for each in status["models"] if each["audited_at"]} >= set(UPPER)
    to_fill = "insert into cdc.to_fill values ('analytics.{}', 'a test asks for it')"
    lab.target.execute("update analytics.crews set member_count = member_count + 1")
    lab.target.execute(to_fill.format("projects"))
    over, said = audited("--model", "crews", "--model", "projects", code=42)
    assert {each["column"] for each in over["crews"]["differences"]} == {"member_count"}
    assert "`dbt build --full-refresh --select crews`" in said
    assert "analytics.projects was not compared: it is to be filled" in said
    lab.target.execute(to_fill.format("crews"))
    lab.target.execute("select from cdc.apply(%s)", lab.systems["people"].slot)
    assert lab.is_exact()


def test_two_slots_that_apply_at_once_wait_for_each_other(lab: Lab) -> None:
    lab.systems["people"].source.execute("insert into member values (500, 'one', 1, true)")
    lab.systems["org"].source.execute("update team set name = 'two'; delete from team where id = 2")
    for system in lab.systems.values():
        system.must("run", "--once")
    dsn = lab.target.cluster.dsn(lab.target.name)
    with closing(connect(dsn)) as one, closing(connect(dsn)) as other:
        one.autocommit = False
        one.ask("select from cdc.apply(%s)", (lab.systems["people"].slot,))
        other.ask("set statement_timeout to '20s'")
        other.ask("select from cdc.apply(%s)", (lab.systems["org"].slot,))
        # Longer than a second: what is above is left out, the slot's own models are not.
        assert lab.target.value("select count(*) from cdc.to_fill") == 3
        why = "it is to be filled from its inputs: another session kept it locked for a second"
        waits = ("waits", why, "`loader run --build` or `dbt build`")
        assert lab.states("may_see") == dict.fromkeys(TABLES, waits)
        assert lab.states("teams")["org"][0] == "follows"
        one.commit()
    lab.catch_up()
    assert lab.is_exact()
    assert {state for state, *_ in lab.states("projects").values()} == {"follows"}


def test_where_an_input_of_one_slot_fails_the_others_changes_are_added(lab: Lab) -> None:
    people, org = lab.systems["people"], lab.systems["org"]
    lab.target.execute(
        "alter table analytics.teams add constraint calm check (name !~ '[?]$') not valid"
    )
    org.source.execute("update team set name = name || '?'")
    lab.catch_up("org")
    people.source.execute("insert into member values (99, 'late', 1, true)")
    lab.catch_up("people")
    assert lab.target.value("select count(*) from analytics.may_see where member_id = 99")
    state, reason, remedy = lab.states("may_see")["org"]
    assert state == "waits"
    assert reason is not None and reason.startswith("analytics.teams, which it reads, failed: ")
    assert remedy == lab.states("teams")["org"][2]
    assert lab.states("may_see")["people"][0] == "follows"
    assert "teams failed: " in org.loader("status").stdout
    assert "teams failed: " not in people.loader("status").stdout
    held = (
        "select cdc.wait_for(slot_name, position_lsn, '100ms', '{may_see}')"
        " from cdc.slot_position where slot_name = %s"
    )
    assert lab.target.value(held, people.slot) and not lab.target.value(held, org.slot)
    lab.target.execute("alter table analytics.teams drop constraint calm")
    lab.target.execute("update cdc.installed_model set retry_at = null")
    lab.catch_up()
    assert lab.is_exact()
    assert lab.states("may_see")["org"][0] == "follows"


def test_a_query_over_sources_of_two_slots_is_refused(lab: Lab) -> None:
    path = lab.project / "models" / "wrong.sql"
    path.write_text(
        KEPT + "select name, count(*) as n from (select name from {{ source('people', 'member') }}"
        " union all select name from {{ source('org', 'team') }}) as e group by 1"
    )
    slots = ", ".join(sorted(lab.systems[place].slot for place in ("people", "org")))
    sentence = f"The query reads sources of several slots: {slots}."
    try:
        _, here = lab.systems["people"].refused("setup", LOADER_MANIFEST="")
        code, said = lab.dbt("run", "--select", "wrong")
    finally:
        path.unlink()
    assert f"wrong: {sentence.rstrip('.')}" in here
    assert "a model for each slot, and a query over these models by ref()" in here
    assert code and sentence in " ".join(said.split())


def test_a_model_may_read_what_another_slot_s_model_is_to_get(lab: Lab) -> None:
    teams, crews = (lab.project / "models" / f"{name}.sql" for name in ("teams", "crews"))
    named = teams.read_text(), crews.read_text()
    teams.write_text(named[0].replace("name,", "name, upper(name) as label,"))
    crews.write_text(named[1].replace("t.name", "t.label"))
    try:
        lab.systems["people"].must("setup", "--check", LOADER_MANIFEST="")
    finally:
        teams.write_text(named[0])
        crews.write_text(named[1])


def test_loaders_that_build_at_once_and_are_killed_add_each_change_once(lab: Lab) -> None:
    dice = Random(3)
    for failpoint in ("applied:5", "after-commit"):
        victim = dice.choice(list(TABLES))
        with ExitStack() as running:
            for name, system in lab.systems.items():
                if name != victim:
                    running.enter_context(system.follow("--build"))
            killed = running.enter_context(
                lab.systems[victim].start("--build", WALTALLY_KILL_AT=failpoint)
            )

            def is_dead(killed: Any = killed) -> bool:
                lab.write(dice)
                return killed.process.poll() is not None

            wait_until(is_dead, "it is killed")
            assert killed.process.returncode == -signal.SIGKILL, killed.said()
            with lab.systems[victim].follow("--build"):
                for _ in range(8):
                    lab.write(dice)
                for system in lab.systems.values():
                    system.must("wait", "--timeout", "60s")
        assert lab.is_exact()
        for name in UPPER:
            assert {state for state, *_ in lab.states(name).values()} == {"follows"}
    said = "".join(path.read_text() for path in lab.project.parent.glob("*.log"))
    assert "deadlock" not in said and "could not be locked" not in said, said
