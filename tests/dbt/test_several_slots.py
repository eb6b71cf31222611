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

from testkit.commands import ROOT, wait_until
from testkit.databases import empty_database
from testkit.fixtures import WAREHOUSE
from testkit.project import host_project
from testkit.servers import Cluster, connect
from testkit.system import System
from tests.dbt.shop import differences
from tests.spark.support import run_command

KEPT = "{{ config(materialized='waltally') }}\n"
PAGE = (ROOT / "docs" / "models.md").read_text()
TABLES = {
    "staff": (
        *("name text, team_id int, is_active boolean", "'m' || n, n % 5, n % 4 > 0"),
        "name = name || '!', is_active = not is_active, team_id = {key} % 6",
    ),
    "teams": (
        *("name text, is_archived boolean not null default false", "'t' || n, n = 7"),
        "name = name || '!', is_archived = not is_archived",
    ),
    "grants": (
        "team_id int, project text, role text",
        "n % 6, 'p' || n % 4, (array['read', 'write'])[1 + n % 2]",
        "team_id = {key} % 6, role = 'read', project = 'p{some}'",
    ),
}
"""By rows model, and the source that it is of: columns of the table `entry`, a row, an update."""
INSERT = "insert into entry select n, {row} from generate_series({key}, {key} + {more}) as n"
CHANGES = {
    INSERT + " on conflict do nothing": 3,
    "update entry set {update} where id % {some} = 0": 4,
    "delete from entry where id = {key}": 2,
    "truncate entry": 0.2,
}
DEPENDENTS = {
    "may_see": PAGE.partition("-- may_see.sql\n")[2].partition("```")[0],
    "projects": "select project, count(distinct member_id) as member_count, max(name) as last_name"
    " from {{ ref('may_see') }} group by 1",
    "crews": "select t.name, count(*) as member_count from {{ ref('teams') }} as t"
    " join {{ ref('staff') }} as m on m.team_id = t.id group by 1",
}
ROWS = {name: f"select * from {{{{ source('{name}', 'entry') }}}}" for name in TABLES}


class Lab:
    """Three sources, a target, and one dbt project, whose sources name their slots."""

    def __init__(self, systems: dict[str, System]) -> None:
        self.systems = systems
        one = systems["staff"]
        self.target = one.target
        models = {name: KEPT + text for name, text in (ROWS | DEPENDENTS).items()}
        self.project = host_project(one.home, models)
        sources = []
        for name, system in systems.items():
            columns, row, _ = TABLES[name]
            system.source.execute(f"create table entry (id int primary key, {columns})")
            system.source.execute(INSERT.format(row=row, key=0, more=20))
            system.project = self.project
            system.given["DBT_USE_COLORS"] = "false"
            named = {"name": name, "schema": "public", "tables": [{"name": "entry"}]}
            sources.append({**named, "config": {"meta": {"slot": system.slot}}})
        path = self.project / "models" / "sources.yml"
        path.write_text(json.dumps({"sources": sources}))
        # Each setup would parse the project again.
        one.do("dbt", "compile")
        (manifest,) = one.home.glob("**/manifest.json")
        for system in systems.values():
            system.given["LOADER_MANIFEST"] = str(manifest)
        self.said = "".join(system.must("setup") for system in systems.values())
        """What setup and dbt said when they made the models."""
        self.said += one.do("dbt", "run")
        for system in systems.values():
            system.spark_job("spark-submit spark/seed.py")
        self.catch_up()

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
            self.systems[name].catch_up()

    def write(self, dice: Random) -> None:
        for name in dice.choices(list(TABLES), k=4):
            _, row, update = TABLES[name]
            change = "; ".join(dice.choices(list(CHANGES), list(CHANGES.values()), k=2))
            change = change.replace("{row}", row).replace("{update}", update)
            given = {"key": dice.randint(1, 25), "some": dice.randint(2, 6), "more": 2}
            self.systems[name].source.execute(f"begin; {change.format(**given)}; commit")

    def is_exact(self) -> bool:
        """Whether the rows models hold their tables, and their dependents equal their queries."""
        for name, system in self.systems.items():
            held = self.target.execute(f"select * from analytics.{name} order by id")
            assert system.source.execute("table entry order by id") == held, name
        home = self.project.parent
        assert [row for name in DEPENDENTS for row in differences(self.target, home, name)] == []
        return True


@pytest.fixture(scope="module")
def lab(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    home = tmp_path_factory.mktemp("several")
    with ExitStack() as databases:
        target = databases.enter_context(empty_database(cluster, WAREHOUSE))
        made = {name: databases.enter_context(empty_database(cluster)) for name in TABLES}
        yield Lab({name: System(source, home, target) for name, source in made.items()})


def test_each_slot_has_its_own_models_and_dependents_are_in_each(lab: Lab) -> None:
    assert lab.is_exact()
    found = lab.target.execute("select model_name, slot_name from cdc.registered_model")
    assert dict(found) == {name: system.slot for name, system in lab.systems.items()}
    follows = ("follows", None, None)
    assert lab.states("may_see") == dict.fromkeys(TABLES, follows)
    assert lab.states("crews") == dict.fromkeys(("staff", "teams"), follows)
    for name, system in lab.systems.items():
        assert "forgot" not in system.must("setup")
        assert "crews" in system.must("stats") or name == "grants"
        status = system.must("status")
        for model, kind in (
            ("may_see", "fact over models: grants x teams x staff, found by team_id"),
            ("projects", "roll-up of may_see"),
            ("crews", "fact over models: teams x staff, found by team_id"),
        ):
            assert f"analytics.{model}: {kind}\n" in lab.said
            assert re.split(": | of ", kind)[0] in status or (name, model) == ("grants", "crews")
    assert "staff is to be made by `dbt build`: rows of public.entry" in lab.said


def test_an_audit_compares_models_over_models_of_several_slots(lab: Lab) -> None:
    def audited(*flags: str, code: int = 0) -> tuple[dict[str, Any], str]:
        given = lab.systems["staff"].environment()
        found, out, err = run_command("audit", ("--json", *flags), given)
        assert found == code, out + err
        return json.loads(out)["over_models"], err

    with lab.systems["staff"].follow("--build"):
        over, _ = audited()
        assert {name: each["difference_count"] for name, each in over.items()} == dict.fromkeys(
            DEPENDENTS, 0
        )
        assert all(each["group_count"] > 2 for each in over.values())
        status = json.loads(lab.systems["teams"].must("status", "--json"))
        assert {each["name"] for each in status["models"] if each["audited_at"]} >= set(DEPENDENTS)
    to_fill = "insert into cdc.to_fill values ('analytics.{}', 'a test asks for it')"
    lab.target.execute("update analytics.crews set member_count = member_count + 1")
    lab.target.execute(to_fill.format("projects"))
    over, said = audited("--model", "crews", "--model", "projects", code=42)
    assert {each["column"] for each in over["crews"]["differences"]} == {"member_count"}
    assert "`dbt build --full-refresh --select crews`" in said
    assert "analytics.projects was not compared: it is to be filled" in said
    lab.target.execute(to_fill.format("crews"))
    lab.target.execute("select from cdc.apply(%s)", lab.systems["staff"].slot)
    assert lab.is_exact()


def test_two_slots_that_apply_at_once_wait_for_each_other(lab: Lab) -> None:
    lab.systems["staff"].source.execute("insert into entry values (500, 'one', 1, true)")
    lab.systems["teams"].source.execute(
        "update entry set name = 'two'; delete from entry where id = 2"
    )
    for system in lab.systems.values():
        system.must("run", "--once")
    dsn = lab.target.cluster.dsn(lab.target.name)
    with closing(connect(dsn)) as one, closing(connect(dsn)) as other:
        one.autocommit = False
        one.ask("select from cdc.apply(%s)", (lab.systems["staff"].slot,))
        other.ask("set statement_timeout to '20s'")
        other.ask("select from cdc.apply(%s)", (lab.systems["teams"].slot,))
        # Longer than a second: the dependents are left out, the slot's own models are not.
        assert lab.target.value("select count(*) from cdc.to_fill") == 3
        why = "it is to be filled from its inputs: another session kept it locked for a second"
        waits = ("waits", why, "`loader run --build` or `dbt build`")
        assert lab.states("may_see") == dict.fromkeys(TABLES, waits)
        assert lab.states("teams")["teams"][0] == "follows"
        one.commit()
    lab.catch_up()
    assert lab.is_exact()
    assert {state for state, *_ in lab.states("projects").values()} == {"follows"}


def test_where_an_input_of_one_slot_fails_the_others_changes_are_added(lab: Lab) -> None:
    staff, teams = lab.systems["staff"], lab.systems["teams"]
    lab.target.execute(
        "alter table analytics.teams add constraint calm check (name !~ '[?]$') not valid"
    )
    teams.source.execute("update entry set name = name || '?'")
    lab.catch_up("teams")
    staff.source.execute("insert into entry values (99, 'late', 1, true)")
    lab.catch_up("staff")
    assert lab.target.value("select count(*) from analytics.may_see where member_id = 99")
    state, reason, remedy = lab.states("may_see")["teams"]
    assert state == "waits"
    assert reason is not None and reason.startswith("analytics.teams, which it reads, failed: ")
    assert remedy == lab.states("teams")["teams"][2]
    assert lab.states("may_see")["staff"][0] == "follows"
    assert "teams failed: " in teams.loader("status").stdout
    assert "teams failed: " not in staff.loader("status").stdout
    held = (
        "select cdc.wait_for(slot_name, position_lsn, '100ms', '{may_see}')"
        " from cdc.slot_position where slot_name = %s"
    )
    assert lab.target.value(held, staff.slot) and not lab.target.value(held, teams.slot)
    lab.target.execute("alter table analytics.teams drop constraint calm")
    lab.target.execute("update cdc.installed_model set retry_at = null")
    lab.catch_up()
    assert lab.is_exact()
    assert lab.states("may_see")["teams"][0] == "follows"


def test_a_query_over_sources_of_two_slots_is_refused(lab: Lab) -> None:
    path = lab.project / "models" / "wrong.sql"
    path.write_text(
        KEPT + "select name, count(*) as n from (select name from {{ source('staff', 'entry') }}"
        " union all select name from {{ source('teams', 'entry') }}) as e group by 1"
    )
    slots = ", ".join(sorted(lab.systems[place].slot for place in ("staff", "teams")))
    sentence = f"The query reads sources of several slots: {slots}."
    try:
        _, here = lab.systems["staff"].refused("setup", LOADER_MANIFEST="")
        done = lab.systems["staff"].call("dbt", "run", "--select", "wrong")
    finally:
        path.unlink()
    assert f"wrong: {sentence.rstrip('.')}" in here
    assert "a model for each slot, and a query over these models by ref()" in here
    assert done.returncode and sentence in " ".join(done.stdout.split())


def test_a_model_may_read_what_another_slot_s_model_is_to_get(lab: Lab) -> None:
    teams, crews = (lab.project / "models" / f"{name}.sql" for name in ("teams", "crews"))
    named = teams.read_text(), crews.read_text()
    teams.write_text(named[0].replace("*", "*, upper(name) as label"))
    crews.write_text(named[1].replace("t.name", "t.label"))
    try:
        lab.systems["staff"].must("setup", "--check", LOADER_MANIFEST="")
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
        for name in DEPENDENTS:
            assert {state for state, *_ in lab.states(name).values()} == {"follows"}
    said = "".join(path.read_text() for path in lab.project.parent.glob("*.log"))
    assert "deadlock" not in said and "could not be locked" not in said, said
