"""The warehouse moves, and a password changes, while the application writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.cluster import Cluster
from tests.conftest import connect
from tests.runbook.conftest import Operating
from tests.trouble.conftest import WAREHOUSE, Staging, new
from tests.trouble.scene import Scene

ROLE = "waltally_loader"


@pytest.fixture
def without_roles(rough: Cluster) -> Iterator[Cluster]:
    """A server to move to; the roles that were made there go in the end."""
    yield rough
    admin = connect(rough.dsn())
    for role in ("loader", "dbt", "spark", "reader"):
        admin.cursor().execute(f"drop role waltally_{role}")
    admin.close()


def test_the_warehouse_moves_to_another_server(
    apart: Scene, without_roles: Cluster, operating: Operating
) -> None:
    rough = without_roles
    operator = operating(apart, "full")
    operator.start()
    operator.write()
    left = apart.target
    with new(rough, WAREHOUSE) as place:

        def edit(command: str) -> None:
            apart.target = place

        operator.instead = {"$EDITOR /etc/waltally/environment": edit}
        operator.variables = {"NEW_TARGET_DSN": rough.dsn(place.name)}
        operator.carry_out("Move the warehouse")
        operator.write()
        operator.ends_exact()
        assert apart.staged() > left.staged()
        dsn = left.cluster.dsn(left.name)
        assert apart.loader("run", LOADER_TARGET_DSN=dsn).returncode == 22


@pytest.fixture
def demanding(rough: Cluster) -> Iterator[Cluster]:
    """A server that asks one role for its password."""
    rules = rough.data / "pg_hba.conf"
    usual = rules.read_text()
    rules.write_text(f"host all {ROLE} 127.0.0.1/32 scram-sha-256\n{usual}")
    try:
        yield rough
    finally:
        rules.write_text(usual)


def test_a_password_is_rotated(
    demanding: Cluster, staging: Staging, operating: Operating, tmp_path: Path
) -> None:
    scene = staging(demanding)
    operator = operating(scene)
    scene.source.execute("select pg_reload_conf()")
    scene.source.execute(f"create role {ROLE} login superuser password 'first'")
    known = tmp_path / "pgpass"
    known.touch(mode=0o600)
    known.write_text(f"*:*:*:{ROLE}:first\n")
    dsn = demanding.dsn(scene.source.name, ROLE)
    operator.settings = {
        "LOADER_SOURCE_DSN": dsn,
        "LOADER_TARGET_DSN": dsn,
        "PGPASSFILE": str(known),
    }
    operator.start()

    def change(command: str) -> None:
        scene.source.execute(f"alter role {ROLE} password 'second'")
        staged = scene.staged()
        scene.source.insert(3)
        scene.wait_for_staged(staged + 3)
        scene.source.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where usename = %s", ROLE
        )
        assert operator.running is not None
        code, said = operator.running.refuses()
        assert (code, "refuses the login" in said) == (10, True)
        scene.source.insert(4)

    def edit(command: str) -> None:
        known.write_text(f"*:*:*:{ROLE}:second\n")

    operator.instead = {
        """psql "$LOADER_TARGET_DSN" -c '\\password""": change,
        "$EDITOR /etc/waltally/pgpass": edit,
    }
    try:
        staged = scene.staged()
        operator.carry_out("Rotate a password")
        scene.wait_for_staged(staged + 7)
        operator.ends_exact()
    finally:
        operator.close()
        scene.source.execute(f"reassign owned by {ROLE} to postgres; drop role {ROLE}")
