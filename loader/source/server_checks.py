"""Why a slot cannot be made or followed at a server: one check per function. Pure.

A check returns a LoaderError with its remedy, or None. The remedies are SQL to paste: the loader
never changes the application's tables or the server's settings by itself.
"""

from __future__ import annotations

from collections.abc import Callable

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


def wal_level(server: ServerInfo) -> LoaderError | None:
    """Logical decoding needs wal_level = logical; PostgreSQL 19 raises it from replica itself."""
    raises_itself = server.version >= 190_000 and server.wal_level == "replica"
    if server.wal_level == "logical" or raises_itself:
        return None
    return WalLevelTooLow(
        f"The source runs with wal_level = {server.wal_level}, logical decoding needs logical",
        decoding_remedy(server.provider),
    )


def replication_right(server: ServerInfo) -> LoaderError | None:
    """Making and streaming a slot needs the role attribute REPLICATION."""
    if server.may_replicate:
        return None
    return MissingRight(
        f"The role {server.role} lacks REPLICATION at the source",
        replication_remedy(server.role, server.provider),
    )


def plugin_allowed(server: ServerInfo) -> LoaderError | None:
    """From the minor releases of autumn 2026, a plugin that is not built in must be listed."""
    if server.allowed_plugins is None or "wal2json" in plugin_names(server.allowed_plugins):
        return None
    remedy = plugin_remedy(server.allowed_plugins, server.provider)
    return PluginNotAllowed(
        "The source does not allow wal2json: output_plugin_libraries does not list it",
        remedy,
        sql=() if server.provider else remedy.partition(RELOAD)[:2],
    )


def free_slot(server: ServerInfo) -> LoaderError | None:
    """A new slot needs a free one of max_replication_slots."""
    if server.slot_exists or server.slots_used < server.slots_limit:
        return None
    return NoFreeSlot(
        f"All {server.slots_limit} replication slots of the source are in use",
        slots_remedy(server.slots_limit, server.provider),
    )


def free_sender(server: ServerInfo) -> LoaderError | None:
    """Following a slot occupies a WAL sender."""
    if server.senders_used < server.senders_limit:
        return None
    return NoFreeSlot(
        f"All {server.senders_limit} WAL senders of the source are in use",
        senders_remedy(server.senders_limit, server.provider),
    )


SERVER_CHECKS: tuple[Callable[[ServerInfo], LoaderError | None], ...] = (
    wal_level,
    replication_right,
    plugin_allowed,
    free_slot,
    free_sender,
)


def server_findings(server: ServerInfo) -> list[LoaderError]:
    """Return everything wrong with the server, the most fundamental first."""
    return [finding for check in SERVER_CHECKS if (finding := check(server))]
