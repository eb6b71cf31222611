"""A transaction-pooling proxy before the source or the target is refused.

pgbouncer itself where the machine has it, and everywhere one of the test kit's, which drops the
settings that come with a login.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from loader.staging.change_log import ChangeLog
from testkit.commands import sentence, wait_until
from testkit.databases import Database
from testkit.pipeline import Pipeline
from testkit.pooler import Pooler
from testkit.servers import free_port
from waltally.errors import LoginRefused
from waltally.settings import SlotSettings

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
CONFIGURATION = """
[databases]
* = host=127.0.0.1 port={server} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
{more}
"""


@contextmanager
def pooled(database: Database, more: str) -> Iterator[str]:
    """Yield how to reach the database through pgbouncer; `more` is for its configuration."""
    if PGBOUNCER is None:
        pytest.skip("no pgbouncer on this machine")
    port, server = free_port(), database.cluster.port
    with tempfile.NamedTemporaryFile("w", suffix=".ini") as file:
        file.write(CONFIGURATION.format(server=server, port=port, more=more))
        file.flush()
        # Root may not run it, so the user postgres does, and reads the file.
        Path(file.name).chmod(0o644)
        user = ["-u", "postgres"] if os.geteuid() == 0 else []
        process = subprocess.Popen(
            [PGBOUNCER, *user, file.name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            wait_until(lambda: process.poll() is not None or listens(port), "pgbouncer listens")
            assert process.poll() is None
            yield f"host=127.0.0.1 port={port} dbname={database.name} user=postgres"
        finally:
            process.terminate()
            process.wait()


def listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


@pytest.mark.parametrize("place", ["source", "target"])
@pytest.mark.parametrize(
    "more",
    # The second is what many have, so that JDBC can connect.
    ["", "ignore_startup_parameters = options, extra_float_digits, replication"],
)
def test_a_pooling_proxy_is_refused(source: Database, place: str, more: str) -> None:
    source.execute(f"alter database {source.name} set row_security = off")
    source.must("setup")
    with pooled(source, more) as dsn:
        for words in (("setup", "--check"), ("setup",), ("run", "--once"), ("status",)):
            done = source.loader(*words, **{f"LOADER_{place.upper()}_DSN": dsn})
            assert done.returncode == 45, (words, done.stderr)
            said = sentence(done.stderr)
            assert f"The {place} is reached through a pooling proxy: " in said
            assert "name the server itself" in said


@pytest.mark.parametrize("place", ["source", "target"])
def test_a_proxy_is_refused_whatever_the_role_s_own_settings_are(
    pipeline: Pipeline, place: str
) -> None:
    """Its sessions have what a role or a database sets, and what another client has left."""
    pipeline.source.execute(
        f"alter database {pipeline.source.name} set row_security = off;"
        f"alter database {pipeline.source.name} set search_path = pg_catalog, pg_temp"
    )
    pipeline.must("setup")
    with Pooler(pipeline.source.cluster.port) as pooler:
        dsn = f"host=127.0.0.1 port={pooler.port} dbname={pipeline.source.name} user=postgres"
        through = dict.fromkeys(("LOADER_SOURCE_DSN", "LOADER_TARGET_DSN"), pipeline.dsns[0])
        through[f"LOADER_{place.upper()}_DSN"] = dsn
        for words in (("setup", "--check"), ("setup",), ("run", "--once"), ("status",), ("wait",)):
            done = pipeline.loader(*words, **through)
            assert done.returncode == 45, (words, done.stderr)
            assert f"The {place} is reached through a pooling proxy: " in sentence(done.stderr)
        with pytest.raises(LoginRefused, match="pooling proxy"):
            pipeline.spark_job("spark-submit spark/seed.py", **through)


def test_nothing_is_confirmed_by_a_session_that_lost_its_settings(source: Database) -> None:
    """Where a proxy lends another session from some moment on."""
    source.must("setup")
    source.insert(1)
    settings = SlotSettings(source.cluster.dsn(source.name), source.slot, "cdc")
    with closing(ChangeLog(settings)) as log:
        position = log.record().position_lsn
        log.connection.ask("set synchronous_commit to off")
        with pytest.raises(LoginRefused, match="pooling proxy"):
            log.commit_position(position, position + 1, 0)
        assert log.record().position_lsn == position
