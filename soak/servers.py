"""The servers of a soak, and the one role without superuser rights that waltally uses on them."""

from __future__ import annotations

from testkit import source
from testkit.commands import ROOT
from testkit.servers import Cluster, administer
from testkit.source import Identity

ROLE = "waltally"

SOURCE_SETTINGS = {
    # Killed processes lose nothing that they wrote to the kernel; only a dead machine would.
    "fsync": "off",
    "wal_sender_timeout": "3s",
    "checkpoint_timeout": "30s",
    "client_connection_check_interval": "1s",
}
# An operator may set this on a warehouse. A crash then loses the last seconds of every session
# that does not set synchronous_commit by itself, as the loader's sessions do.
TARGET_SETTINGS = {"fsync": "off", "synchronous_commit": "off", "wal_writer_delay": "10s"}

_PAGE = (ROOT / "docs/roles.md").read_text()
ONE_ROLE = _PAGE.partition("## One role\n\n```sql\n")[2].partition("```")[0]
"""What the page says that the role needs."""


def prepare(cluster: Cluster, target: Cluster, identity: Identity) -> None:
    """Make the application's empty tables at the source, and the role with its rights."""
    source.create(cluster.dsn())
    source.set_identity(cluster.dsn(), identity)
    administer(cluster, ONE_ROLE.replace("database notify", "database postgres"))
    if target is not cluster:
        grant = f"grant create on database postgres to {ROLE}"
        administer(target, f"create role {ROLE} login", grant)


def dsn_of_role(port: int) -> str:
    """Return the role's connection string at a port of this machine."""
    return f"host=127.0.0.1 port={port} dbname=postgres user={ROLE}"
