"""The warehouse moves, and a password changes, while the application writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.databases import empty_database
from testkit.fixtures import WAREHOUSE, MakePipeline
from testkit.pipeline import Pipeline
from testkit.servers import Cluster, connect
from tests.runbook.conftest import Operating

ROLE = "waltally_loader"


@pytest.fixture
def without_roles(spare: Cluster) -> Iterator[Cluster]:
    """A server to move to; the roles that were made there go in the end."""
    yield spare
    admin = connect(spare.dsn())
    for role in ("loader", "dbt", "spark", "reader"):
        admin.cursor().execute(f"drop role waltally_{role}")
    admin.close()


@pytest.mark.slow
def test_the_warehouse_moves_to_another_server(
    apart: Pipeline, without_roles: Cluster, operating: Operating
) -> None:
    spare = without_roles
    operator = operating(apart, "full")
    operator.start()
    operator.write()
    left = apart.target
    with empty_database(spare, WAREHOUSE) as place:

        def edit(command: str) -> None:
            apart.target = place

        operator.instead = {"$EDITOR /etc/waltally/environment": edit}
        operator.settings = {"NEW_TARGET_DSN": spare.dsn(place.name)}
        operator.carry_out("Move the warehouse")
        operator.write()
        operator.ends_exact()
        assert apart.staged() > left.staged()
        dsn = left.cluster.dsn(left.name)
        assert apart.loader("run", LOADER_TARGET_DSN=dsn).returncode == 22


@pytest.fixture
def demanding(spare: Cluster) -> Iterator[Cluster]:
    """A server that asks one role for its password."""
    rules = spare.data / "pg_hba.conf"
    usual = rules.read_text()
    rules.write_text(f"host all {ROLE} 127.0.0.1/32 scram-sha-256\n{usual}")
    try:
        yield spare
    finally:
        rules.write_text(usual)


def test_a_password_is_rotated(
    demanding: Cluster, make_pipeline: MakePipeline, operating: Operating, tmp_path: Path
) -> None:
    pipeline = make_pipeline(demanding)
    operator = operating(pipeline)
    pipeline.source.execute("select pg_reload_conf()")
    pipeline.source.execute(f"create role {ROLE} login superuser password 'first'")
    known = tmp_path / "pgpass"
    known.touch(mode=0o600)
    known.write_text(f"*:*:*:{ROLE}:first\n")
    dsn = demanding.dsn(pipeline.source.name, ROLE)
    operator.settings = {
        "LOADER_SOURCE_DSN": dsn,
        "LOADER_TARGET_DSN": dsn,
        "PGPASSFILE": str(known),
    }
    operator.start()

    def change(command: str) -> None:
        pipeline.source.execute(f"alter role {ROLE} password 'second'")
        staged = pipeline.staged()
        pipeline.source.insert(3)
        pipeline.wait_for_staged(staged + 3)
        pipeline.source.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where usename = %s", ROLE
        )
        assert operator.running is not None
        code, said = operator.running.refuses()
        assert (code, "refuses the login" in said) == (45, True)
        pipeline.source.insert(4)

    def edit(command: str) -> None:
        known.write_text(f"*:*:*:{ROLE}:second\n")

    operator.instead = {
        """psql "$LOADER_TARGET_DSN" -c '\\password""": change,
        "$EDITOR /etc/waltally/pgpass": edit,
    }
    try:
        staged = pipeline.staged()
        operator.carry_out("Rotate a password")
        pipeline.wait_for_staged(staged + 7)
        operator.ends_exact()
    finally:
        operator.close()
        pipeline.source.execute(f"reassign owned by {ROLE} to postgres; drop role {ROLE}")
