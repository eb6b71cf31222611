"""A transaction-pooling proxy before the source or the target is refused: pgbouncer itself."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from testkit.commands import sentence, wait_until
from testkit.databases import Database
from testkit.servers import free_port

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
    source.must("setup")
    with pooled(source, more) as dsn:
        for words in (("setup", "--check"), ("setup",), ("run", "--once"), ("status",)):
            done = source.loader(*words, **{f"LOADER_{place.upper()}_DSN": dsn})
            assert done.returncode == 45, (words, done.stderr)
            said = sentence(done.stderr)
            assert f"The {place} is reached through a pooling proxy: " in said
            assert "name the server itself" in said
