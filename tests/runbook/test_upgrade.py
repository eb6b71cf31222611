"""PostgreSQL or waltally itself becomes a newer one."""

from __future__ import annotations

import shlex
import string
from collections.abc import Iterator

import pytest

from loader.staging import migrate as staging_schema
from testkit.databases import Database
from testkit.fixtures import MakePipeline
from testkit.pipeline import Pipeline
from testkit.servers import Cluster, Server
from tests.runbook.conftest import Operating


@pytest.fixture
def servers() -> Iterator[tuple[Cluster, Cluster]]:
    """A server that runs, and the empty one that it is to become."""
    # pg_upgrade wants a new cluster without a database of anybody.
    with Server({"fsync": "off"}) as old, Cluster({"fsync": "off"}) as new:
        new.stop()
        yield old, new


@pytest.mark.slow
def test_a_major_upgrade_ends_with_renew(
    servers: tuple[Cluster, Cluster], make_pipeline: MakePipeline, operating: Operating
) -> None:
    old, new = servers
    pipeline = make_pipeline(old)
    operator = operating(pipeline, "full")
    operator.start()
    operator.write()

    def stop_writing(command: str) -> None:
        operator.pause()
        operator.stop()
        pipeline.source.insert(3)  # what only a loader that runs once more can stage

    def upgrade(command: str) -> None:
        variables = {
            "OLD_BIN": str(programs_of(old)),
            "NEW_BIN": str(programs_of(new)),
            "OLD_DATA": str(old.data),
            "NEW_DATA": str(new.data),
        }
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


def programs_of(cluster: Cluster) -> str:
    """Return where the server's programs are; both are of the one version that tests have."""
    return cluster.run("pg_config", "--bindir").strip()


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
