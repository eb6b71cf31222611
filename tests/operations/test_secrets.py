"""A password shows in no command line, log, error, session, file or table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.commands import sentence
from testkit.hostile import SECRET
from testkit.system import System
from tests.operations.roles import (
    DBT_ROLE,
    LOADER_ROLE,
    SPARK_ROLE,
    grant_rights,
    own_server,
    set_passwords,
)
from tests.operations.secret_watch import SecretWatch, files_with

ACCESS = """
local all postgres trust
host all postgres 127.0.0.1/32 trust
host all all 127.0.0.1/32 scram-sha-256
"""
TALKATIVE = {
    "log_statement": "all",
    "log_connections": "on",
    "log_replication_commands": "on",
}

# Whoever may use a table of ours may read this.
TABLES = """
select c.oid::regclass::text
from pg_class as c
inner join pg_namespace as n on n.oid = c.relnamespace
where n.nspname in ('cdc', 'analytics', 'public') and c.relkind in ('r', 'p', 'v')
"""


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A server that wants passwords and logs all it is told."""
    with own_server(tmp_path_factory.mktemp("secrets"), ACCESS, settings=TALKATIVE) as made:
        grant_rights(made)
        set_passwords(made, SECRET)
        yield made


@pytest.mark.slow
def test_no_program_shows_its_password(locked: System, tmp_path: Path) -> None:
    said, dsn = [], locked.source.cluster.dsn(locked.source.name)
    locked.has_processes = True
    conf = (
        *("spark.eventLog.enabled=true", "spark.eventLog.compress=false"),
        *(f"spark.eventLog.dir=file://{tmp_path}", f"spark.local.dir={tmp_path}"),
    )
    seed = ["spark-submit", *(word for each in conf for word in ("--conf", each)), "spark/seed.py"]
    with SecretWatch(SECRET, dsn, tmp_path) as watch:
        said.append(locked.do("loader", "setup", PGPASSWORD=SECRET))
        grant_rights(locked)
        locked.source.fill_many()
        said.append(locked.by(SPARK_ROLE).do(*seed, PGPASSWORD=SECRET))
        locked.source.insert(3)
        said.append(locked.do("loader", "run", "--once", "--build", "--verbose", PGPASSWORD=SECRET))
        build = ("dbt", "--debug", "build", "--exclude-resource-type", "unit_test")
        said.append(locked.by(DBT_ROLE).do(*build, PGPASSWORD=SECRET))
        said.append(locked.by(DBT_ROLE).do("dbt", "debug", PGPASSWORD=SECRET))
        said.append(locked.do("loader", "status", "--json", PGPASSWORD=SECRET))
    assert watch.found == set()
    for program in ("loader setup", "loader run", "java", "pyspark.daemon", "dbt --debug build"):
        assert any(program in words for words in watch.holders), (program, watch.holders)

    assert SECRET not in "".join(said)
    assert list(tmp_path.glob("*local-*")), "Spark has written what its UI would show"
    assert {file.name for file in locked.home.rglob("*")} >= {"manifest.json", "dbt.log"}
    assert files_with(locked.home, SECRET) == set()
    assert "START_REPLICATION" in locked.source.cluster.log.read_text()
    assert SECRET not in locked.source.cluster.log.read_text()
    for (table,) in locked.source.execute(TABLES):
        whole_row = f"select count(*) from {table} as t where strpos(t::text, %s) > 0"
        assert locked.source.value(whole_row, SECRET) == 0, table


@pytest.mark.parametrize(
    ("dsn", "code"),
    [
        (f"host=127.0.0.1 user={LOADER_ROLE} password=not{SECRET}", 45),
        (f"host=127.0.0.1 port=1 user={LOADER_ROLE} password={SECRET}", 10),
        (f"host=127.0.0.1 dbname=nowhere user={LOADER_ROLE} password={SECRET}", 45),
        (f"postgresql://{LOADER_ROLE}:{SECRET}/2@127.0.0.1/warehouse", 2),
        (f"postgresql://{LOADER_ROLE}:{SECRET}@127.0.0.1/warehouse?nonsense=1", 2),
    ],
)
def test_an_error_repeats_no_password(locked: System, dsn: str, code: int) -> None:
    done = locked.call("loader", "status", LOADER_SOURCE_DSN=dsn)
    assert done.returncode == code, done.stderr
    assert SECRET not in sentence(done.stderr)


def test_a_build_with_the_wrong_password_repeats_none(locked: System) -> None:
    done = locked.by(DBT_ROLE).call("dbt", "--debug", "run", PGPASSWORD=f"not{SECRET}")
    assert done.returncode != 0
    assert "password authentication failed" in done.stdout
    assert SECRET not in done.stdout + done.stderr
