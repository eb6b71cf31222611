"""The target is restored, without its schema, or denies a right."""

from __future__ import annotations

import re

from testkit.databases import Database
from testkit.pipeline import Pipeline
from testkit.servers import administer


def test_a_right_that_is_taken_away_and_a_schema_that_is_dropped(apart: Pipeline) -> None:
    apart.begin()
    apart.target.execute("create role writer login")
    apart.target.execute(
        "grant usage on schema cdc to writer; "
        "grant select, insert, update on all tables in schema cdc to writer"
    )
    dsn = apart.target.cluster.dsn(apart.target.name, "writer")
    # The writer may make no partition: one with room is made before.
    apart.source.begin_block()
    apart.source.insert(1)
    apart.must("run", "--once")
    try:
        with apart.follow(LOADER_TARGET_DSN=dsn) as running:
            apart.source.insert(1)
            apart.wait_for_staged(7)
            apart.target.execute("revoke insert on cdc.change_log from writer")
            apart.source.insert(2)
            code, said = running.refuses()
        assert code == 15
        assert "permission denied for table change_log" in said
        assert re.search(r"everything before \S+ is stored", said)
        assert "docs/roles.md" in said
        apart.target.execute("grant insert on cdc.change_log to writer")
        apart.goes_on()
    finally:
        apart.target.execute("drop owned by writer; drop role writer")
    with apart.follow() as running:
        apart.target.execute("drop schema cdc cascade")
        apart.source.insert(3)
        code, said = running.refuses()
    assert code == 20
    # Which one depends on whether the batch or a look at the record comes first.
    assert re.search(r"the slot still holds what was not stored|everything before \S+ is st", said)
    # Only who knows that no other target follows the slot may say so.
    apart.must("setup", "--take-slot")
    apart.recovers_from(said)


def test_a_target_restored_from_an_older_backup(apart: Pipeline) -> None:
    apart.begin()
    backup(apart.target)
    apart.source.insert(3)
    apart.must("run", "--once")
    restore(apart)
    position = apart.position()
    for command in (("run",), ("setup",)):
        said = apart.refused_with(22, "the target was restored", *command)
        assert f"everything before {position} is stored, changes between are lost" in said
    apart.recovers_from(said)


def backup(target: Database) -> None:
    """Copy the target's database as it is."""
    administer(
        target.cluster,
        f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{target.name}'",
        f"create database backup template {target.name}",
    )


def restore(pipeline: Pipeline) -> None:
    """Put the copy in the target's place."""
    name = pipeline.target.name
    administer(
        pipeline.target.cluster,
        f"drop database {name} with (force)",
        f"alter database backup rename to {name}",
    )
    pipeline.target = pipeline.target.reconnect()
