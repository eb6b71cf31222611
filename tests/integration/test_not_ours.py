"""What setup did not make stays, and so does what a wrong setting names."""

from __future__ import annotations

from testkit.commands import wait_until
from testkit.databases import Database, application_database, empty_database
from testkit.model import NOTIFY, manifest_of
from testkit.pipeline import Pipeline
from testkit.servers import Cluster
from waltally import locks

DROPS = (("setup", "--renew"), ("teardown", "--drop-data", "--yes"))
OTHERS = (
    "select pg_create_physical_replication_slot(%s)",
    "select pg_create_logical_replication_slot(%s, 'pgoutput')",
    # One that nobody set up.
    "select pg_create_logical_replication_slot(%s, 'wal2json')",
)


def slots(source: Database, name: str) -> int:
    return int(source.value("select count(*) from pg_replication_slots where slot_name = %s", name))


def test_a_slot_of_somebody_else_stays(source: Database) -> None:
    for make in OTHERS:
        source.execute(make, source.slot)
        for arguments in DROPS:
            said = source.refused_with(38, "", *arguments)
            assert slots(source, source.slot) == 1
        source.execute("select pg_drop_replication_slot(%s)", source.slot)
    name = said.split("export LOADER_SLOT=")[1].split()[0]
    source.must("setup", LOADER_SLOT=name)


def test_the_slot_of_another_warehouse_is_not_taken(source: Database) -> None:
    """Its loader is stopped for a moment; what another one confirmed would be lost to it."""
    source.must("setup")
    source.insert(3)
    with empty_database(source.cluster) as other:
        target = {"LOADER_TARGET_DSN": source.cluster.dsn(other.name)}
        said = source.refused_with(38, "another target may have the record", "setup", **target)
        name = said.split("export LOADER_SLOT=")[1].split(";")[0]
        source.must("setup", **target, LOADER_SLOT=name)
    # Nor is it dropped from another database.
    with application_database(source.cluster) as other:
        for arguments in DROPS:
            other.refused_with(38, "", *arguments, LOADER_SLOT=source.slot)
    source.must("run", "--once")
    assert source.staged() == 3
    origin = "select count(*) from pg_replication_origin where roname = %s"
    assert source.value(origin, f"waltally_{source.slot}") == 1
    # Nor where a server with another identifier had it.
    source.execute("update cdc.slot_position set system_identifier = '1'")
    for arguments in DROPS:
        source.refused_with(38, "", *arguments)
    assert slots(source, source.slot) == 1


def test_a_purge_leaves_the_application_s_tables_in_the_schema(source: Database) -> None:
    """LOADER_SCHEMA=public: the application's tables are there too."""
    tables = "select oid from pg_class where relnamespace = 'public'::regnamespace order by 1"
    functions = "select oid from pg_proc where pronamespace = 'public'::regnamespace order by 1"
    source.insert(2)
    # Another program's, with names like ours.
    source.execute(
        "create table change_log_0badcafe (id int);"
        "create table schema_migrations (version int);"
        "create function batch_end(text) returns text language sql return $1"
    )
    before = [source.execute(query) for query in (tables, functions)]
    source.must("setup", LOADER_SCHEMA="public")
    source.insert(2)
    source.must("run", "--once", LOADER_SCHEMA="public")
    said = source.must("teardown", "--drop-data", "--yes", LOADER_SCHEMA="public")
    assert "the schema public was there before and stays" in said
    assert [source.execute(query) for query in (tables, functions)] == before
    assert source.value("select count(*) from notifications") == 4


def test_a_purge_keeps_what_other_slots_have_staged(source: Database) -> None:
    manifest = str(manifest_of({"ft_other": NOTIFY}))
    other = {"LOADER_SLOT": f"{source.slot}_other", "LOADER_MANIFEST": manifest}
    for slot in ({}, other):
        source.must("setup", **slot)
    source.insert(3)
    for slot in ({}, other):
        source.must("run", "--once", **slot)
    # Another program's.
    source.execute("create table cdc.backups as select slot_name from cdc.slot_position")
    source.execute(
        "insert into cdc.model_watermark (relation, slot_name, applied_lsn)"
        " select 'a.b', slot_name, '0/1' from cdc.slot_position"
    )
    said = source.must("teardown", "--drop-data", "--yes")
    assert f"it still holds {other['LOADER_SLOT']}" in said
    assert source.staged() == 3
    for table in ("change_log", "model_watermark", "slot_position", "registered_model"):
        left = source.value(f"select distinct slot_name from cdc.{table}")
        assert left == other["LOADER_SLOT"], table
    assert source.value("select count(*) from cdc.backups") == 2
    source.execute("drop table cdc.backups")
    # As a killed job leaves it.
    source.execute("create table cdc_jobs.moved_0123456789abcdef ()")
    said = source.must("teardown", "--drop-data", "--yes", **other)
    assert said.endswith("dropped the schema cdc\ndropped the schema cdc_jobs\n")


def test_a_purge_drops_nothing_that_others_stand_on(source: Database) -> None:
    source.must("setup")
    source.execute("create view dashboard as select count(*) from cdc.change_log")
    depends = "view public.dashboard depends on table cdc.change_log"
    source.refused_with(38, depends, "teardown", "--drop-data", "--yes")
    assert slots(source, source.slot) == 1
    assert source.value("select count(*) from dashboard") == 1
    source.execute("drop view dashboard")
    source.execute("create table cdc.notes (text text)")
    said = source.must("teardown", "--drop-data", "--yes")
    assert "holds something else and stays" in said
    held = "select tablename from pg_tables where schemaname = 'cdc'"
    assert source.execute(held) == [("notes",)]


def test_a_wrong_source_leaves_a_running_pipeline_as_it_is(
    source: Database, spare: Cluster
) -> None:
    """`--source-is-gone` says that the source is not wrong, and still no loader may run."""
    source.must("setup")
    with application_database(spare) as other, source.follow() as running:
        there = {"LOADER_SOURCE_DSN": spare.dsn(other.name)}
        target = {"LOADER_TARGET_DSN": source.cluster.dsn(source.name)}
        place = f"in database {source.name} of cluster"
        for arguments in DROPS:
            source.refused_with(38, f"set up {place}", *arguments, **there, **target)
            is_gone = (*arguments, "--source-is-gone")
            source.refused_with(24, "stop the loader first", *is_gone, **there, **target)
        source.insert(3)
        wait_until(lambda: source.staged() == 3, "it stages")
        running.end()
        said = source.must("teardown", "--yes", "--source-is-gone", **there, **target)
    assert "deleted the record of the slot" in said
    assert f"the slot {source.slot} is left, {place}" in said
    assert slots(source, source.slot) == 1


def test_a_loader_that_writes_is_not_torn_down(source: Database) -> None:
    """Also where the slot does not show it: of a copy of the source nobody follows the slot."""
    source.must("setup")
    with source.holding("select") as loader:
        locks.hold(loader, "loader", "cdc", source.slot)
        for arguments in DROPS:
            source.refused_with(24, f"pid {loader.info.backend_pid}", *arguments)
    assert slots(source, source.slot) == 1
    said = source.must("teardown", "--yes")
    assert f"dropped the slot {source.slot}" in said
    assert "deleted the record of the slot" in said
    nothing = source.must("teardown", "--yes")
    assert "There was nothing to drop: the source has no slot" in nothing


CODES = {
    ("setup",): (23, 38, 38, 2),
    ("setup", "--renew"): (38, 38, 38, 2),
    ("teardown", "--yes", "--drop-data"): (38, 38, 38, 0),
    ("prune", "--keep", "0s"): (0, 20, 20, 0),
    ("wait", "--timeout", "0s", "--lsn", "0/1"): (23, 20, 20, 20),
}
"""By command, its exit code with source, target, schema or slot wrong."""


def test_one_wrong_setting_does_no_harm(apart: Pipeline, cluster: Cluster) -> None:
    """While the loader is stopped for a moment, when the slot is free for whoever takes it."""
    apart.begin(2)
    with application_database(cluster) as source, empty_database(cluster) as target:
        wrong = {
            **{"LOADER_SOURCE_DSN": cluster.dsn(source.name)},
            **{"LOADER_TARGET_DSN": cluster.dsn(target.name)},
            **dict.fromkeys(("LOADER_SCHEMA", "LOADER_SLOT"), "another"),
        }
        databases = (apart.source, apart.target, source, target)
        before = [made(database) for database in databases]
        for command, codes in CODES.items():
            for code, (name, value) in zip(codes, wrong.items(), strict=True):
                done = apart.loader(*command, **{name: value})
                said = done.stdout + done.stderr
                assert done.returncode == code and said, (command, name, said)
                assert [made(database) for database in databases] == before, (command, name)
        apart.source.insert(3)
        apart.goes_on()


def made(database: Database) -> list[tuple[str, str]]:
    """The slots and origins of a database's server, its schemas, and of which slots it has rows."""
    found = database.execute(
        "select 'slot', slot_name::text from pg_replication_slots where not temporary union all "
        "select 'origin', roname from pg_replication_origin union all "
        "select 'schema', nspname::text from pg_namespace where nspname !~ '^pg_(toast_)?temp_' "
        "order by 1, 2"
    )
    if database.value("select to_regclass('cdc.slot_position')") is None:
        return found
    return found + database.execute(
        "select 'record of', slot_name || ' of ' || system_identifier from cdc.slot_position "
        "union all select 'rows of', slot_name || ' ' || count(*) from cdc.change_log "
        "group by slot_name order by 1, 2"
    )
