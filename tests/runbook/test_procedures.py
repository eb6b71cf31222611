"""The runbook's procedures, carried out, and whether each is shown by some test."""

from __future__ import annotations

import re
import shlex
import shutil
import string
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from loader.staging import migrate as staging_schema
from testkit import recount
from testkit.commands import ROOT, RunningLoader, wait_until
from testkit.databases import Database, empty_database
from testkit.fixtures import WAREHOUSE, MakePipeline
from testkit.notify_traffic import NO_PURGES, Traffic, inhabit
from testkit.pipeline import Pipeline
from testkit.servers import Cluster, Server, administer, configured
from testkit.source import Identity
from testkit.system import System
from tests.runbook.procedure import RUNBOOK, Block, Operator, blocks

Operating = Callable[..., Operator]


FAST = {"fsync": "off"}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """What is done in the end."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def operating(stack: ExitStack) -> Operating:
    """Give an operator a pipeline that has begun; with an identity, traffic is on its loader."""

    def make(pipeline: Pipeline, identity: Identity | None = None) -> Operator:
        pipeline.begin()
        operator = Operator(pipeline)
        stack.callback(operator.close)
        if identity:
            operator.traffic = Traffic(
                pipeline.dsns[0], sessions=2, rate=100, identity=identity, weights=NO_PURGES
            )
            operator.traffic.start()
            operator.start()
            operator.write()
        return operator

    return make


@pytest.fixture
def operator(make_pipeline: MakePipeline, spare: Cluster, operating: Operating) -> Operator:
    """At work on a server that may be configured, with traffic."""
    return operating(make_pipeline(spare), "full")


def write_wal(database: Database) -> None:
    """Fill 16 files of 16 MB, more than the server would keep by itself."""
    for _ in range(16):
        database.execute("select pg_logical_emit_message(false, 'x', repeat('x', 1000000))")
        database.execute("select pg_switch_wal()")
    database.execute("checkpoint")


def on_disk(database: Database) -> int:
    return int(database.value("select sum(size) from pg_ls_waldir()"))


STATUS = "select max(wal_status) from pg_replication_slots"
"""Of the server's only slot."""


def test_a_stop_that_the_disk_has_room_for(operator: Operator) -> None:
    source = operator.pipeline.source
    with configured(source.cluster, max_slot_wal_keep_size="'1GB'"):
        operator.carry_out("Stop for a week", 0)
        write_wal(source)
        operator.write()
        assert source.value(STATUS) == "extended"
        operator.carry_out("Stop for a week", 1)
        operator.write()
    operator.ends_exact()


@pytest.mark.slow
def test_a_stop_that_gives_the_slot_up_and_wal_that_must_go_at_once(operator: Operator) -> None:
    pipeline, source = operator.pipeline, operator.pipeline.source
    cluster = source.cluster
    operator.carry_out("Stop for a week", 2)
    assert source.value(STATUS) is None
    operator.write()
    operator.carry_out("Renew")
    operator.write()
    operator.stop()
    write_wal(source)
    held = on_disk(source)
    operator.carry_out("The source's disk is full", 0)
    assert on_disk(source) < held / 2
    operator.carry_out("Renew")
    operator.write()
    # Also while the server is down.
    operator.stop()
    write_wal(source)
    held = on_disk(source)
    operator.pause()
    cluster.stop("immediate")

    def remove(command: str) -> None:
        assert '"$PGDATA/pg_replslot/waltally"' in command
        shutil.rmtree(cluster.data / "pg_replslot" / pipeline.slot)

    def start(command: str) -> None:
        cluster.start()
        pipeline.source = pipeline.target = pipeline.source.reconnect()

    operator.instead = {"rm -r": remove, "systemctl start postgresql": start}
    operator.carry_out("The source's disk is full", 1)
    wait_until(lambda: on_disk(pipeline.source) < held / 2, "the server removes the WAL")
    assert pipeline.refused("run")[0] == 21
    operator.resume()
    operator.carry_out("Renew")
    operator.write()
    operator.ends_exact()


IDENTITIES = (
    "select string_agg(distinct relreplident::text, '') from pg_class "
    "where relname in ('notifications', 'notification_history')"
)


def test_the_replica_identity_becomes_an_index_and_full_again(
    pipeline: Pipeline, operating: Operating
) -> None:
    operator, tables = operating(pipeline, "covering"), ("notifications", "notification_history")
    # The runbook points to docs/source.md.
    page = (ROOT / "docs" / "source.md").read_text().partition("### As migrations")[2]
    migrations = page.partition("```sql\n")[2].partition("```")[0].split(";\n")
    for table in tables:
        for statement in filter(str.strip, migrations):
            pipeline.source.execute(statement.replace("notifications", table))
        operator.write()
    assert pipeline.source.value(IDENTITIES) == "i"
    pipeline.must("setup", "--check")
    for table in tables:
        operator.carry_out("Change the replica identity online", table=table)
        operator.write()
    assert pipeline.source.value(IDENTITIES) == "f"
    pipeline.must("setup", "--check")
    operator.ends_exact()
    assert pipeline.rejected() == []


@pytest.mark.slow
def test_a_major_upgrade_ends_with_renew(
    stack: ExitStack, make_pipeline: MakePipeline, operating: Operating
) -> None:
    # pg_upgrade wants a new cluster without a database of anybody.
    old, new = stack.enter_context(Server(FAST)), stack.enter_context(Cluster(FAST))
    new.stop()
    pipeline = make_pipeline(old)
    operator = operating(pipeline, "full")

    def stop_writing(command: str) -> None:
        operator.pause()
        operator.stop()
        pipeline.source.insert(3)  # what only a loader that runs once more can stage

    def upgrade(command: str) -> None:
        # Both are of the one version that tests have.
        programs = old.run("pg_config", "--bindir").strip()
        variables = {"OLD_BIN": programs, "OLD_DATA": str(old.data)}
        variables |= {"NEW_BIN": programs, "NEW_DATA": str(new.data)}
        words = shlex.split(string.Template(command).substitute(variables))
        assert words[:3] == ["sudo", "-u", "postgres"]
        old.run(*words[3:])

    def start(command: str) -> None:
        new.port = old.port
        new.configure({"port": str(old.port)})
        new.start()
        pipeline.source = pipeline.target = Database(new, pipeline.source.name)

    operator.instead = {
        "# the application stops": stop_writing,
        "systemctl stop postgresql": lambda _: old.stop(),
        "sudo -u postgres pg_upgrade": upgrade,
        "systemctl start postgresql": start,
    }
    operator.carry_out("Upgrade PostgreSQL: major")
    assert pipeline.differences() == []
    assert pipeline.refused("run")[0] == 20

    def renew(command: str) -> None:
        pipeline.must(*command.split()[1:])
        operator.resume()

    operator.instead = {"loader setup --renew": renew}
    operator.carry_out("Renew")
    operator.write()
    operator.ends_exact()


def test_an_upgrade_of_waltally_itself(
    pipeline: Pipeline, operating: Operating, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = operating(pipeline)
    known = staging_schema.migrations()
    newest = known[-1][0] + 1
    more = (newest, f"{newest:04}_more.sql", "create table of_the_next_version ();")
    monkeypatch.setattr(staging_schema, "migrations", lambda: [*known, more])
    pipeline.source.insert(3)
    operator.instead = {
        **dict.fromkeys(("git pull", "make install", "systemctl daemon-reload"), str),
        "loader setup": lambda _: pipeline.must("setup"),
    }
    operator.carry_out("Upgrade waltally")
    assert pipeline.target.value("select max(version) from cdc.schema_migration") == newest
    operator.ends_exact()
    assert pipeline.staged() == 5 + 3


ROLE = "waltally_loader"


@pytest.mark.slow
def test_the_warehouse_moves_to_another_server(
    apart: Pipeline, spare: Cluster, operating: Operating, stack: ExitStack
) -> None:
    roles = [
        f"drop role if exists waltally_{role}" for role in ("loader", "dbt", "spark", "reader")
    ]
    stack.callback(administer, spare, *roles)
    place = stack.enter_context(empty_database(spare, WAREHOUSE))
    operator = operating(apart, "full")
    left = apart.target

    def edit(command: str) -> None:
        apart.target = place

    operator.instead = {"$EDITOR /etc/waltally/environment": edit}
    operator.settings = {"NEW_TARGET_DSN": spare.dsn(place.name)}
    operator.carry_out("Move the warehouse")
    operator.write()
    operator.ends_exact()
    assert apart.staged() > left.staged()
    dsn = left.cluster.dsn(left.name)
    assert apart.loader("run", LOADER_TARGET_DSN=dsn).returncode == 21


def test_a_password_is_rotated(
    spare: Cluster, make_pipeline: MakePipeline, operating: Operating, stack: ExitStack
) -> None:
    # The server asks one role for its password.
    rules = spare.data / "pg_hba.conf"
    usual = rules.read_text()
    stack.callback(rules.write_text, usual)
    rules.write_text(f"host all {ROLE} 127.0.0.1/32 scram-sha-256\n{usual}")
    pipeline = make_pipeline(spare)
    operator = operating(pipeline)
    pipeline.source.execute("select pg_reload_conf()")
    pipeline.source.execute(f"create role {ROLE} login superuser password 'first'")
    known = pipeline.home / "pgpass"
    known.touch(mode=0o600)
    known.write_text(f"*:*:*:{ROLE}:first\n")
    dsn = spare.dsn(pipeline.source.name, ROLE)
    operator.settings = {
        "LOADER_SOURCE_DSN": dsn,
        "LOADER_TARGET_DSN": dsn,
        "PGPASSFILE": str(known),
    }
    operator.start()

    staged = pipeline.staged()

    def change(command: str) -> None:
        pipeline.source.execute(f"alter role {ROLE} password 'second'")
        pipeline.source.insert(3)
        pipeline.wait_for_staged(staged + 3)
        pipeline.source.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where usename = %s", ROLE
        )
        assert operator.running is not None
        code, said = operator.running.refuses()
        assert (code, "refuses the login" in said) == (15, True)
        pipeline.source.insert(4)

    def edit(command: str) -> None:
        known.write_text(f"*:*:*:{ROLE}:second\n")

    operator.instead = {
        """psql "$LOADER_TARGET_DSN" -c '\\password""": change,
        "$EDITOR /etc/waltally/pgpass": edit,
    }
    try:
        operator.carry_out("Rotate a password")
        pipeline.wait_for_staged(staged + 7)
        operator.ends_exact()
    finally:
        operator.close()
        pipeline.source.execute(f"reassign owned by {ROLE} to postgres; drop role {ROLE}")


def first_day() -> list[str]:
    (text,) = re.findall(r"^```sh\n(.*?)^```$", DAY_ONE, re.MULTILINE | re.DOTALL)
    return Block("sh", text).commands


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_first_day_ends_with_audited_counts_and_a_wrong_one_is_mended(
    database: Database, tmp_path: Path
) -> None:
    system = System(database, tmp_path)
    system.has_processes = True
    system.given = {"LOADER_MANIFEST": ""}
    inhabit(system.dsns[0], "covering", 5)
    # The loader builds before the seed. The model keeps what is purged between the two, and the
    # recount knows only of the purges since the seed.
    traffic = Traffic(system.dsns[0], sessions=2, rate=15, identity="covering", weights=NO_PURGES)
    loader: RunningLoader | None = None
    traffic.start()
    try:
        for command in first_day():
            if command == "systemctl start waltally-loader":
                loader = system.start("--build")
            else:
                system.do(*command.split())
        assert loader is not None
        assert loader.process.poll() is None
        database.execute(
            "update analytics.ft_service_stats set live_count = live_count + 1, count = count + 1 "
            "where id = (select id from analytics.ft_service_stats order by id limit 1)"
        )
        rebuild, audit = blocks("The audit differs")[0].commands
        assert audit == first_day()[-1], "it has run above; the recount below asks as much"
        system.do(*rebuild.split())
        loader.end()
    finally:
        traffic.stop()
        if loader is not None:
            loader.kill()
    system.do("loader", "run", "--once", "--build")
    assert recount.differences(system.dsns[0], slot=system.slot) == []


_PRODUCTION = (ROOT / "docs" / "production.md").read_text()
DAY_ONE = _PRODUCTION.partition("## The first day\n")[2].partition("\n## ")[0]

SHOWN_BY = {
    "Add a column": "input/test_values.py",
    "Add a status or a type": "input/test_harmless_ddl.py",
    "Seed again": "spark",
    "Upgrade PostgreSQL: minor": "trouble/test_server_stop.py",
    "Prepare for a failover": "integration/test_failover_slots.py",
    "Fail over to a standby": "integration/test_failover_slots.py",
    "Restore the target from a backup": "trouble/test_lost.py",
}
"""What is not carried out word by word, and the tests that show it all the same."""

PROCEDURES = re.findall(r"^### (.+)$", RUNBOOK[RUNBOOK.index("\n## Procedures") :], re.MULTILINE)


def test_every_procedure_is_shown_by_tests_that_are_there() -> None:
    here = (Path(__file__), ROOT / "tests/operations/test_stats.py")
    text = "".join(path.read_text() for path in here)
    carried_out = set(re.findall(r'(?:carry_out|blocks)\("([^"]+)"', text))
    assert carried_out | SHOWN_BY.keys() == set(PROCEDURES)
    assert all((ROOT / "tests" / place).exists() for place in SHOWN_BY.values())
