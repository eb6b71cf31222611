"""PostgreSQL servers made from a ready data directory, which is faster than initdb."""

from __future__ import annotations

import atexit
import secrets
import shutil
import subprocess
from collections.abc import Iterable
from contextlib import closing
from functools import cache
from pathlib import Path

import psycopg2

from demo.cluster import Cluster
from tests.support.commands import ROOT
from waltally.database import Connection

APPLICATION = "application_template"
"""A database with the application's tables and no notification, which others are copied from."""

PLUGINS = "output_plugin_libraries"
"""A setting of newer minor releases: the plugins that a slot may use."""


class Server(Cluster):
    """A cluster with the database APPLICATION, and with a system identifier of its own."""

    def create(self) -> None:
        """Copy the ready data directory."""
        ready = _ready_cluster()
        subprocess.run(["cp", "-a", str(ready.data), str(self.data)], check=True)
        _renew_identifier(self.data / "global" / "pg_control")
        # The WAL has the identifier too, and the server compares.
        self.run("pg_resetwal", "-D", str(self.data))
        if PLUGINS in ready.settings:
            self.settings.setdefault(PLUGINS, ready.settings[PLUGINS])
        self.configure({})


def connect(dsn: str) -> Connection:
    """Open a session in autocommit mode."""
    connection = psycopg2.connect(dsn, connection_factory=Connection)
    connection.autocommit = True
    return connection


def administer(cluster: Cluster, *statements: str) -> None:
    """Execute the statements, each in a transaction of its own, in the database postgres."""
    with closing(connect(cluster.dsn())) as admin, admin.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def load_application(dsn: str, identity: str = "full") -> None:
    """Make the application's tables under this replica identity, with services and templates."""
    with closing(connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute((ROOT / "demo" / "notify.sql").read_text())
        for table in ("notifications", "notification_history"):
            cursor.execute(f"alter table {table} replica identity {identity}")
        cursor.execute(
            "insert into services (name) select 'service ' || n from generate_series(1, 3) as n;"
            "insert into templates (service_id, template_type, name) "
            "select id, 'email', 'template of ' || name from services"
        )


@cache
def _ready_cluster() -> Cluster:
    """Make the data directory that servers are copied from, once per test process."""
    made = Cluster({"fsync": "off"})
    atexit.register(shutil.rmtree, made.home, ignore_errors=True)
    made.create()
    made.start()
    administer(made, f"create database {APPLICATION}")
    load_application(made.dsn(APPLICATION))
    made.stop()
    return made


def _renew_identifier(control: Path) -> None:
    """Write another system identifier, as initdb would; the loader tells servers apart by it."""
    content = bytearray(control.read_bytes())
    # The checksum stands behind what it is for; where that is depends on the server's version.
    for place in range(8, len(content) - 4, 4):
        if _crc32c(content[:place]) == int.from_bytes(content[place : place + 4], "little"):
            break
    else:
        raise AssertionError(f"{control} has no checksum")
    content[:8] = (secrets.randbits(62) | 1).to_bytes(8, "little")
    content[place : place + 4] = _crc32c(content[:place]).to_bytes(4, "little")
    control.write_bytes(content)


def _crc32c(data: Iterable[int]) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
