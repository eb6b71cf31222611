"""Each command with one setting that points at something else: refused, or nothing is done."""

from __future__ import annotations

from testkit.databases import Database, application_database, empty_database
from testkit.pipeline import Pipeline
from testkit.servers import Cluster

CODES = {
    ("setup",): (23, 38, 38, 2),
    ("setup", "--renew"): (38, 38, 38, 2),
    ("teardown", "--yes"): (38, 38, 38, 0),
    ("teardown", "--yes", "--drop-data"): (38, 38, 38, 0),
    ("prune", "--keep", "0s"): (0, 20, 20, 0),
    ("wait", "--timeout", "0s", "--lsn", "0/1"): (23, 20, 20, 20),
}
"""By command, its exit code with source, target, schema or slot wrong."""


def test_one_wrong_setting_does_no_harm(apart: Pipeline, cluster: Cluster) -> None:
    """While the loader is stopped for a moment, when the slot is free for whoever takes it."""
    apart.begin(2)
    with application_database(cluster) as source, empty_database(cluster) as target:
        wrong = (
            {"LOADER_SOURCE_DSN": cluster.dsn(source.name)},
            {"LOADER_TARGET_DSN": cluster.dsn(target.name)},
            {"LOADER_SCHEMA": "another"},
            {"LOADER_SLOT": "another"},
        )
        databases = (apart.source, apart.target, source, target)
        before = [made(database) for database in databases]
        for command, codes in CODES.items():
            for code, given in zip(codes, wrong, strict=True):
                done = apart.loader(*command, **given)
                said = done.stdout + done.stderr
                assert done.returncode == code and said, (command, given, said)
                assert [made(database) for database in databases] == before, (command, given)
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
