"""Why a slot cannot be made or followed at a server. Pure.

The remedies are SQL to paste: the loader never changes the application's tables or the server's
settings by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from loader.source.remedies import (
    RELOAD,
    decoding_remedy,
    plugin_names,
    plugin_remedy,
    replication_remedy,
    senders_remedy,
    slots_remedy,
)
from loader.source.server import ServerInfo
from waltally.errors import (
    LoaderError,
    MissingRight,
    NoFreeSlot,
    PluginNotAllowed,
    WalLevelTooLow,
)


def server_findings(server: ServerInfo) -> Iterator[LoaderError]:
    """Yield everything wrong with the server, the most fundamental first."""
    # PostgreSQL 19 raises it from replica itself.
    raises_itself = server.version >= 190_000 and server.wal_level == "replica"
    if server.wal_level != "logical" and not raises_itself:
        yield WalLevelTooLow(
            f"The source runs with wal_level = {server.wal_level}, logical decoding needs logical",
            decoding_remedy(server.provider),
        )
    if not server.may_replicate:
        yield MissingRight(
            f"The role {server.role} lacks REPLICATION at the source",
            replication_remedy(server.role, server.provider),
        )
    # From the minor releases of autumn 2026, a plugin that is not built in must be listed.
    allowed = server.allowed_plugins
    if allowed is not None and "wal2json" not in plugin_names(allowed):
        remedy = plugin_remedy(allowed, server.provider)
        yield PluginNotAllowed(
            "The source does not allow wal2json: output_plugin_libraries does not list it",
            remedy,
            sql=() if server.provider else remedy.partition(RELOAD)[:2],
        )
    if not server.slot_exists and server.slots_used >= server.slots_limit:
        yield NoFreeSlot(
            f"All {server.slots_limit} replication slots of the source are in use",
            slots_remedy(server.slots_limit, server.provider),
        )
    if server.senders_used >= server.senders_limit:
        yield NoFreeSlot(
            f"All {server.senders_limit} WAL senders of the source are in use",
            senders_remedy(server.senders_limit, server.provider),
        )
