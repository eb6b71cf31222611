"""Private PostgreSQL servers, each in a temporary directory and on a free port of this machine."""

from __future__ import annotations

import atexit
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

import psycopg2
from psycopg.conninfo import make_conninfo

from waltally import database
from waltally.database import Connection, Target
from waltally.settings import SlotSettings

_HERE = Path(__file__).parent
_FOUND = subprocess.run([_HERE.parent / "ops" / "find-postgres"], capture_output=True, text=True)
BIN = Path(_FOUND.stdout.strip())
"""Where the server's programs are: PG_BIN, pg_config's folder or the newest packaged version."""

LOGICAL = {"wal_level": "logical", "max_wal_senders": "10", "max_replication_slots": "10"}
"""What logical decoding needs; the server's default is `wal_level = replica`."""


class ClusterError(RuntimeError):
    """A server program failed; the message has its output."""


def free_port() -> int:
    """Return a TCP port that nothing listens on, below those that the kernel gives to clients.

    Another run or test process gets another one, also before a server listens and while it is
    stopped: a name of the kernel's, without a file, keeps the port until this process ends.
    """
    while True:
        port = random.randrange(15_000, 30_000)
        with socket.socket() as probe, socket.socket(socket.AF_UNIX) as name:
            try:
                probe.bind(("127.0.0.1", port))
                name.bind(f"\0waltally port {port}")
            except OSError:
                continue
            os.dup(name.fileno())
            return port


class Cluster:
    """One server: `start`, `stop`, `kill`, `dsn`. As a context manager it removes itself.

    The server refuses to run as root, so root runs it as the user postgres. Raises ClusterError
    where the machine has no server, or root no user postgres.
    """

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        if _FOUND.returncode:
            raise ClusterError(_FOUND.stderr.strip())
        self.home = Path(tempfile.mkdtemp(prefix="waltally-pg-"))
        self.data = self.home / "data"
        self.log = self.home / "server.log"
        self.port = free_port()
        self.settings = {
            "port": str(self.port),
            "listen_addresses": "'127.0.0.1'",
            # A socket's path has at most 107 bytes, and the temporary folder's may be as long.
            "unix_socket_directories": "''",
            **LOGICAL,
            **(settings or {}),
        }
        if os.geteuid() == 0:
            try:
                shutil.chown(self.home, "postgres")
            except LookupError:
                raise ClusterError(
                    "The server refuses to run as root, and this machine has no user postgres\n"
                    "Try: useradd --system postgres, or run this as another user"
                ) from None

    def run(self, program: str, *arguments: str, check: bool = True) -> str:
        """Run a PostgreSQL program as the server's owner and return its standard output.

        psql runs as the caller: the owner may not read the caller's files, as in a folder of root.
        """
        command = [str(BIN / program), *arguments]
        if os.geteuid() == 0 and program != "psql":
            command = ["runuser", "-u", "postgres", "--", *command]
        done = subprocess.run(command, cwd=self.home, capture_output=True, text=True)
        if check and done.returncode:
            log = self.log.read_text()[-2000:] if self.log.exists() else ""
            raise ClusterError(f"{program} failed: {done.stderr.strip()}\n{log}")
        return done.stdout

    def create(self) -> None:
        """Make the data directory; local connections are trusted."""
        options = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        self.run("initdb", "-D", str(self.data), *options)
        if self.knows(PLUGINS):
            # From the releases of autumn 2026 on; older minors refuse to start with it.
            self.settings.setdefault(PLUGINS, "'pgoutput, test_decoding, wal2json'")
        self.configure({})

    def knows(self, setting: str) -> bool:
        """Say whether this server binary has the setting at all."""
        done = self.run("postgres", "-C", setting, "-D", str(self.data), check=False)
        return bool(done.strip())

    def configure(self, settings: Mapping[str, str]) -> None:
        """Add or replace settings; they take effect at the next start."""
        self.settings.update(settings)
        lines = "".join(f"{name} = {value}\n" for name, value in self.settings.items())
        (self.data / "postgresql.auto.conf").write_text(lines)

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self.run("pg_ctl", "-D", str(self.data), "-l", str(self.log), "-w", "-t", "60", "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop the server: smart, fast or immediate."""
        self.run("pg_ctl", "-D", str(self.data), "-w", "-t", "60", "-m", mode, "stop", check=False)

    def kill(self) -> None:
        """Kill the server's main process, as a crash of the machine would."""
        pid = int((self.data / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)

    def dsn(self, dbname: str = "postgres", user: str = "postgres", **more: str) -> str:
        """Return a libpq connection string for a database of this server."""
        words = {"host": "127.0.0.1", "port": str(self.port), "dbname": dbname, "user": user}
        return make_conninfo("", **words | more)

    def environment(self, dbname: str = "postgres", user: str = "postgres") -> dict[str, str]:
        """Return libpq's environment variables for a database of this server."""
        where = {"PGHOST": "127.0.0.1", "PGPORT": str(self.port)}
        return {**where, "PGDATABASE": dbname, "PGUSER": user}

    def remove(self) -> None:
        """Stop the server if it runs and delete its directory."""
        self.stop("immediate")
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self) -> Cluster:
        try:
            self.create()
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


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
        # As initdb would give it; the loader tells servers apart by it.
        with (self.data / "global" / "pg_control").open("r+b") as control:
            control.write((secrets.randbits(62) | 1).to_bytes(8, "little"))
        # Forced, as the file's checksum is wrong now. The WAL has the identifier too.
        self.run("pg_resetwal", "-f", *AGED, "-D", str(self.data))
        if PLUGINS in ready.settings:
            self.settings.setdefault(PLUGINS, ready.settings[PLUGINS])
        self.configure({})


AGED = ("-l", "00000001000000000000000F", "-o", "3000000000", "-e", "3")
"""For pg_resetwal: the first WAL file, the next oid and the epoch of transactions.

As on a server of some age, positions soon get a digit more, and oids have 32 bits.
"""


def connect(dsn: str) -> Connection:
    """Open a session in autocommit mode."""
    connection = psycopg2.connect(dsn, connection_factory=Connection)
    connection.login = dsn
    connection.autocommit = True
    return connection


def connect_target(dsn: str, slot: str = "any", schema: str = "cdc") -> Target:
    """Open a session at the target as the loader does."""
    return database.connect_target(SlotSettings(dsn, slot, schema))


def administer(cluster: Cluster, *statements: str) -> None:
    """Execute the statements, each in a transaction of its own, in the database postgres."""
    with closing(connect(cluster.dsn())) as admin, admin.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@contextmanager
def configured(cluster: Cluster, **settings: str) -> Iterator[None]:
    """Let a running server have other settings in the block, by a reload."""
    reload = "select pg_reload_conf()"
    changes = (f"alter system set {name} = {value}" for name, value in settings.items())
    administer(cluster, *changes, reload)
    try:
        yield
    finally:
        administer(cluster, *(f"alter system reset {name}" for name in settings), reload)


def load_application(dsn: str) -> None:
    """Make the application's tables under replica identity full, with services and templates."""
    with closing(connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute((_HERE / "notify.sql").read_text())
        for table in ("notifications", "notification_history"):
            cursor.execute(f"alter table {table} replica identity full")
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
