"""A server that demands TLS and passwords: every program verifies it, and shows no password."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict
from waltally_jobs.common import arrow, connections
from waltally_jobs.common.errors import ReadFailed
from waltally_jobs.evaluation import snapshot

from loader.capture import handshake
from testkit.hostile import SECRET
from testkit.servers import Cluster
from testkit.system import System
from tests.operations import roles
from tests.operations.certificates import Authority, give_to_server
from tests.operations.secret_watch import SecretWatch, files_with
from waltally.database import connect
from waltally.errors import LoginRefused

ACCESS = """
local all postgres trust
hostssl all postgres 127.0.0.1/32 trust
hostssl all with_certificate 127.0.0.1/32 cert
hostssl all all 127.0.0.1/32 scram-sha-256
"""
SERVER = {
    **{"ssl": "on", "ssl_cert_file": "'server.crt'", "ssl_key_file": "'server.key'"},
    **{"ssl_ca_file": "'root.crt'", "log_statement": "all", "log_connections": "on"},
    "log_replication_commands": "on",
}
"""It also logs all it is told."""


@dataclass(frozen=True)
class Guarded:
    """The commands on the server, and what a client needs to be let in."""

    commands: System
    authority: Authority
    stranger: Authority

    @property
    def words(self) -> dict[str, str]:
        """What a connection string says besides where and who."""
        root = str(self.authority.root)
        secure = {"sslmode": "verify-full", "sslrootcert": root}
        return {"host": "localhost", "password": SECRET, **secure}

    def dsn(self, user: str, **more: str) -> str:
        """A connection string that says everything itself."""
        source = self.commands.source
        return source.cluster.dsn(source.name, user, **{**self.words, **more})

    @property
    def variables(self) -> dict[str, str]:
        """The same by libpq's variables, for whichever user."""
        return {f"PG{word.upper()}": value for word, value in self.words.items()}

    def certificate(self) -> dict[str, str]:
        """The words of a client that has one."""
        certificate, key = self.authority.issue("with_certificate")
        return {"sslcert": str(certificate), "sslkey": str(key)}

    def both(self, user: str, **more: str) -> dict[str, str]:
        """The loader's settings; libpq's variables name nothing that exists."""
        dsn = self.dsn(user, **more)
        return {"LOADER_SOURCE_DSN": dsn, "LOADER_TARGET_DSN": dsn, "PGHOST": "nowhere.invalid"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    home = tmp_path_factory.mktemp("tls")
    authority, stranger = Authority(home / "authority"), Authority(home / "stranger")

    def prepare(cluster: Cluster) -> None:
        certificate, key = authority.issue("localhost", "localhost")
        give_to_server(certificate, cluster.data / "server.crt")
        give_to_server(key, cluster.data / "server.key")
        give_to_server(authority.root, cluster.data / "root.crt")

    with roles.own_server(home, ACCESS, SERVER, prepare) as made:
        roles.grant_rights(made)
        # Without a word in the server's log.
        made.source.execute("set log_statement to 'none'")
        for role in roles.ALL:
            made.source.execute(f"alter role {role} password %s", SECRET)
        made.source.execute("reset log_statement; delete from notifications")
        guarded = Guarded(made, authority, stranger)
        made.do("loader", "setup", **guarded.both(roles.LOADER))
        roles.grant_rights(made)
        made.by(roles.DBT).do("dbt", "run", **guarded.variables)
        made.source.take_baseline()
        made.by(roles.DBT).do("dbt", "run", **guarded.variables)
        yield guarded


def test_everything_runs_over_verified_tls_and_a_client_certificate_is_enough(
    guarded: Guarded,
) -> None:
    made = guarded.commands
    made.do("loader", "status", **guarded.both(roles.LOADER))
    made.do("loader", "run", "--once", **guarded.variables)
    made.source.execute(f"create role with_certificate login replication in role {roles.LOADER}")
    words = guarded.certificate()
    made.source.insert(2)
    made.do("loader", "run", "--once", "--build", **guarded.both("with_certificate", **words))
    assert made.differences() == []

    made.refused_with(15, "certificate", "run", "--once", **guarded.both("with_certificate"))


STRANGE = "another authority"
BROKEN = {
    STRANGE: ({}, "certificate verify failed"),
    # As with `::1 localhost` in /etc/hosts, where the server listens on 127.0.0.1 alone.
    f"{STRANGE}'s second address": ({"host": "127.0.0.3,localhost"}, "certificate verify failed"),
    "another host's certificate": ({"host": "127.0.0.1"}, "does not match host name"),
    "no encryption": ({"sslmode": "disable"}, "no encryption"),
    "no authority": ({"sslrootcert": "/nonexistent/root.crt"}, "does not exist"),
}


def test_each_driver_verifies_for_itself(guarded: Guarded) -> None:
    """Replication connections of loader and seed, psycopg2 in both, and ADBC in executors."""
    for case, (more, why) in BROKEN.items():
        strange = {"sslrootcert": str(guarded.stranger.root)} if case.startswith(STRANGE) else {}
        dsn = guarded.dsn(roles.SPARK, **more, **strange)
        for way in (
            handshake.connect_replication,
            snapshot.connect_replication,
            lambda dsn: connect(dsn, "source"),
            lambda dsn: connections.connect(dsn, "source"),
        ):
            with pytest.raises(LoginRefused, match=why) as caught:
                way(dsn)
            assert "\n" not in str(caught.value)
        with pytest.raises(ReadFailed, match=why):
            next(arrow.batches(dsn, "select 1"))


def test_loader_and_dbt_end_at_once_where_the_server_cannot_be_verified(guarded: Guarded) -> None:
    made, stranger = guarded.commands, str(guarded.stranger.root)
    for verb in ("setup", "run"):
        strange = guarded.both(roles.LOADER, sslrootcert=stranger)
        made.refused_with(15, "certificate verify failed", verb, **strange)
    variables = {**guarded.variables, "PGSSLROOTCERT": stranger}
    done = made.by(roles.DBT).call("dbt", "run", **variables)
    assert (done.returncode, "certificate verify failed" in done.stdout) == (1, True)


def test_what_a_session_was_told_reaches_spark_s_executors(guarded: Guarded) -> None:
    told = {**guarded.certificate(), "channel_binding": "require"}
    with closing(connections.connect(guarded.dsn(roles.SPARK, **told), "source")) as connection:
        passed_on = conninfo_to_dict(connections.resolved(connection))
    wanted = {**told, "sslmode": "verify-full", "sslrootcert": str(guarded.authority.root)}
    assert {word: passed_on.get(word) for word in wanted} == wanted


def test_an_error_repeats_no_password(guarded: Guarded) -> None:
    secret = f"{roles.LOADER}:{SECRET}"
    for dsn, code in {
        f"host=127.0.0.1 user={roles.LOADER} password=not{SECRET}": 15,
        f"host=127.0.0.1 port=1 user={roles.LOADER} password={SECRET}": 10,
        f"postgresql://{secret}/2@127.0.0.1/warehouse": 2,
        f"postgresql://{secret}@127.0.0.1/warehouse?nonsense=1": 2,
    }.items():
        # What it says has no password.
        assert guarded.commands.refused("status", LOADER_SOURCE_DSN=dsn)[0] == code


# Whoever may use a table of ours may read this.
TABLES = """
select c.oid::regclass::text
from pg_class as c
inner join pg_namespace as n on n.oid = c.relnamespace
where n.nspname in ('cdc', 'analytics', 'public') and c.relkind in ('r', 'p', 'v')
"""


@pytest.mark.slow
def test_no_program_shows_its_password(guarded: Guarded, tmp_path: Path) -> None:
    """And a seed runs over verified TLS."""
    made, as_loader = guarded.commands.by(roles.LOADER), guarded.both(roles.LOADER)
    source, cluster = made.source, made.source.cluster
    said = []
    made.has_processes = True
    # It needs no loader.
    local = ("--conf", f"spark.local.dir={tmp_path}")
    seed = ("spark-submit", *local, "spark/seed.py", "--forget-purged")
    with SecretWatch(SECRET, cluster.dsn(source.name), tmp_path) as watch:
        said.append(made.do("loader", "setup", **as_loader))
        roles.grant_rights(made)
        said.append(made.by(roles.DBT).do("dbt", "run", **guarded.variables))
        roles.grant_rights(made)
        source.fill_many()
        said.append(made.by(roles.SPARK).do(*seed, **guarded.both(roles.SPARK)))
        source.insert(3)
        said.append(made.do("loader", "run", "--once", "--build", "--verbose", **as_loader))
        build = ("dbt", "--debug", "build", "--exclude-resource-type", "unit_test")
        said.append(made.by(roles.DBT).do(*build, **guarded.variables))
        said.append(made.by(roles.DBT).do("dbt", "debug", **guarded.variables))
        said.append(made.do("loader", "status", "--json", **as_loader))
    assert watch.found == set()
    for program in ("loader setup", "loader run", "java", "pyspark.daemon", "dbt --debug build"):
        assert any(program in words for words in watch.holders), (program, watch.holders)

    assert SECRET not in "".join(said)
    assert {file.name for file in made.home.rglob("*")} >= {"manifest.json", "dbt.log"}
    assert files_with(made.home, SECRET) == set()
    log = cluster.log.read_text()
    assert "START_REPLICATION" in log and SECRET not in log
    for (table,) in source.execute(TABLES):
        whole_row = f"select count(*) from {table} as t where strpos(t::text, %s) > 0"
        assert source.value(whole_row, SECRET) == 0, table
    assert made.differences() == []
