"""The servers of a soak, and the one role without superuser rights that waltally uses on them."""

from __future__ import annotations

from testkit import source
from testkit.commands import ROOT
from testkit.servers import Cluster
from testkit.source import Identity

ROLE = "waltally"

_SOURCE_SETTINGS = {
    # Killed processes lose nothing that they wrote to the kernel; only a dead machine would.
    "fsync": "off",
    "wal_sender_timeout": "3s",
    "checkpoint_timeout": "30s",
    "client_connection_check_interval": "1s",
}
# An operator may set this on a warehouse. A crash then loses the last seconds of every session
# that does not set synchronous_commit by itself, as the loader's sessions do.
_TARGET_SETTINGS = {"fsync": "off", "synchronous_commit": "off", "wal_writer_delay": "10s"}

# The one role of docs/roles.md.
_SOURCE_RIGHTS = f"""
create role {ROLE} login replication;
grant select on notifications, notification_history to {ROLE};
grant execute on function pg_replication_origin_create(text), pg_replication_origin_drop(text),
    pg_replication_origin_oid(text), pg_replication_origin_session_setup(text) to {ROLE};
"""
_TARGET_RIGHTS = f"grant create on database postgres to {ROLE};"
_NOTE_DDL = ROOT / "loader" / "source" / "note_ddl.sql"
_FIRST_SEGMENT = "000000010000000100000001"


def make_source(cluster: Cluster, identity: Identity) -> None:
    """Start the source with the application's empty tables and the role."""
    cluster.create()
    # Beyond the first 4 GB of WAL, so that there can be an older partition to prune.
    cluster.run("pg_resetwal", "-l", _FIRST_SEGMENT, "-D", str(cluster.data))
    cluster.start()
    source.create(cluster.dsn())
    source.set_identity(cluster.dsn(), identity)
    _execute(cluster, _SOURCE_RIGHTS)
    # So that a model waits where DDL changed rows.
    cluster.run(
        *("psql", "-X", "-q", "-d", cluster.dsn(), "-v", f"loader={ROLE}", "-f", str(_NOTE_DDL))
    )


def make_target(cluster: Cluster) -> None:
    """Start a target of its own with the role."""
    cluster.create()
    cluster.start()
    _execute(cluster, f"create role {ROLE} login")


def allow_schemas(cluster: Cluster) -> None:
    """Let the role make its schemas on the target."""
    _execute(cluster, _TARGET_RIGHTS)


def source_cluster() -> Cluster:
    """Return the source's cluster, not yet made."""
    return Cluster(_SOURCE_SETTINGS)


def target_cluster() -> Cluster:
    """Return the cluster of a target of its own, not yet made; it commits asynchronously."""
    return Cluster(_TARGET_SETTINGS)


def dsn_of_role(port: int) -> str:
    """Return the role's connection string at a port of this machine."""
    return f"host=127.0.0.1 port={port} dbname=postgres user={ROLE}"


def _execute(cluster: Cluster, statements: str) -> None:
    with source.transaction(cluster.dsn()) as cursor:
        cursor.execute(statements)
