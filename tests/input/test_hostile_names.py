"""Whoever names tables and columns makes nobody run what the names say, and is counted exactly."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

import pytest

from loader.setup.dbt_text import described, rendered, source_call
from loader.setup.project import write_project
from testkit.databases import Database, paste
from testkit.hostile import ATTACK, NAMES, SECRET
from testkit.system import System
from waltally.tables import Table, format_names, quoted

STAGING = f'c"d\\ {{{{ 7 * 7 }}}} $a$; {ATTACK}; --'
MARTS = "2024.x\\ {{ 7 * 7 }} $a$ 100% %s; --"
"""The schemas of the change log and of the models; dbt's own query for docs takes no ' in them."""
BLANK = "'', '', '', ''"
"""The values of the texts after the first."""


class Counted:
    """A table, and a model of it; schema, table and columns have hostile names."""

    def __init__(self, *names: str) -> None:
        def numbered(name: str, number: int) -> str:
            return name.encode()[:60].decode(errors="ignore") + f" {number}"

        roles = [numbered(name, 1) for name in names[:4]]
        # `dbt docs` would run what comes after a ' in the name of a source: init refuses that.
        self.schema, self.name = (role.replace("'", "") for role in roles[:2])
        self.amount, self.moment = roles[2:]
        self.texts = [numbered(name, 2) for name in names]
        self.table = f"{quoted(self.schema)}.{quoted(self.name)}"
        self.model = f"ft_{sha256(self.table.encode()).hexdigest()[:8]}"


@pytest.fixture
def tables(database: Database) -> list[Counted]:
    """Tables of a role that may do nothing else."""
    database.execute("create role names_things")
    # Each name is that of a column of text, and one of a schema, a table, a number or a moment.
    made = [Counted(*(NAMES * 2)[place : place + 5]) for place in range(4, len(NAMES) + 4, 5)]
    for each in made:
        schema, texts = quoted(each.schema), [f"{quoted(text)} text" for text in each.texts]
        database.execute(
            f"create schema {schema}; grant all on schema {schema} to names_things;"
            "set role names_things;"
            f"create table {each.table} (id bigint primary key, {', '.join(texts)},"
            f" {quoted(each.amount)} numeric, {quoted(each.moment)} timestamptz);"
            f"insert into {each.table} values (1, 'a', {BLANK}, 1, '2026-01-01 12:00Z'),"
            f" (2, null, {BLANK}, 2, '2026-01-02 12:00Z'), (3, 'b', {BLANK}, 3, null);"
            # A superuser seeds no table of a role that is none.
            f"reset role; alter table {each.table} owner to session_user"
        )
    return made


def test_names_that_would_be_code_are_counted_and_not_executed(
    database: Database, tables: list[Counted], tmp_path: Path
) -> None:
    project = tmp_path / "project"
    system = System(database, tmp_path)
    for each in tables:
        write_model(project, each)
    system.given = {"LOADER_MANIFEST": "", "LOADER_SCHEMA": STAGING, "DBT_SCHEMA": MARTS}
    system.given |= dict.fromkeys(("DBT_PROJECT_DIR", "DBT_PROFILES_DIR"), str(project))
    system.given["PGPASSWORD"] = SECRET
    # dbt's own macros take these for the same schema.
    database.execute(f"create schema {quoted(MARTS.swapcase())}")
    remedies = re.findall(
        "^Try: (alter table .*)$", system.refused("setup", "--check")[1], re.MULTILINE
    )
    assert len(remedies) == len(tables), remedies
    for remedy in remedies:
        paste(database.cluster, database.name, remedy)
    system.must("setup")
    for each in tables:
        database.execute(
            f"insert into {each.table} values (4, 'c', {BLANK}, 4.5, null), "
            f"(5, null, {BLANK}, 5, '2026-01-02');"
            f"update {each.table} set {quoted(each.texts[0])} = 'd' where id = 1;"
            f"delete from {each.table} where id = 3"
        )
    system.do("dbt", "run")
    system.must("run", "--once")
    system.spark_job("spark-submit spark/seed.py")
    for each in tables:
        database.execute(f"update {each.table} set {quoted(each.amount)} = 7 where id = 5")
    system.do("dbt", "run")
    with system.follow("--build"):
        system.spark_job("spark-submit spark/audit.py")
        system.must("wait")
        system.must("status")
        assert {each["state"] for each in system.status()["models"]} == {"follows"}
        prunes(system, tables)
    system.do("dbt", "test")
    system.do("dbt", "docs", "generate")
    for each in tables:
        first, *_ = each.texts
        keys = f"{quoted(first)}, day::text, row_count, {quoted(each.amount)}::float"
        table = f"{quoted(MARTS)}.{each.model}"
        counted = database.execute(f"select {keys} from {table} order by row_count, 1")
        assert counted == [
            *(("c", None, 1, 4.5), ("d", "2026-01-01", 1, 1)),
            (None, "2026-01-02", 2, 9),
        ]
        asked = ("--by", format_names([*each.texts, "day"]), "--", each.model, f"{first}=d")
        line = system.must("stats", *asked).splitlines()[4].split()
        assert (line[0], sorted(line[1:])) == ("d", ["1", "1", "2026-01-01"])
    assert database.execute("select rolname from pg_roles where rolname = 'evil'") == []
    assert not list(tmp_path.rglob("pwned")) and not Path("pwned").exists()
    for file in (*project.rglob("target/*.json"), *project.rglob("*.yml")):
        assert SECRET not in file.read_text(), file
    described = "select count(*) from pg_description where strpos(description, %s) > 0"
    assert database.value(described, SECRET) == 0


def write_model(project: Path, counted: Counted) -> None:
    """Write a model of the table as `loader init` writes files."""
    table = Table(counted.schema, counted.name)
    amount, moment = (rendered(quoted(name)) for name in (counted.amount, counted.moment))
    listed = [
        *(rendered(quoted(text)) for text in counted.texts),
        f"({moment} at time zone 'UTC')::date as day",
        f"count(*) as row_count, sum({amount}) as {amount}",
    ]
    keys = ", ".join(str(place + 1) for place in range(len(counted.texts) + 1))
    sql = "{{ config(materialized='waltally') }}\nselect " + ", ".join(listed)
    sql += f" from {{{{ {source_call(table)} }}}} group by {keys}"
    texts = {"sql": sql, "yml": described(counted.model, "a model", {counted.amount: "a sum"})}
    files = {f"models/{counted.model}.{kind}": text for kind, text in texts.items()}
    write_project(project, files, [table])


def prunes(system: System, tables: list[Counted]) -> None:
    """Prune while the loader runs."""
    database = system.source
    database.begin_block()
    database.execute(f"update {tables[0].table} set {quoted(tables[0].amount)} = 7 where id = 5")
    system.must("wait")
    # One, or two where the WAL came to the end of its 16 MB in between.
    assert "\nDropped " in system.must("prune", "--keep", "0s")
