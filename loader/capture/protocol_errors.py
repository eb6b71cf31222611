"""What the server's errors on the replication connection mean."""

from __future__ import annotations

from loader.capture.protocol import ProtocolError
from loader.preflight.checks import plugin_missing, senders_remedy
from waltally.database import connection_error, is_too_large
from waltally.errors import (
    LoaderError,
    MissingRight,
    NoFreeSlot,
    PluginNotAllowed,
    RowTooLarge,
    SlotInUse,
    SlotLost,
)


def protocol_error(error: ProtocolError, slot: str) -> LoaderError:
    """Return the LoaderError for a failure of the replication connection.

    Told by SQLSTATE; where one means several things, by what no language translates: the names of
    settings and of the plugin.
    """
    said = " ".join(str(error).split())
    code = error.sqlstate
    if code == "55006":
        return SlotInUse(
            f"The slot {slot} is in use: {said}",
            "stop the other loader; after a crash the server frees it by wal_sender_timeout",
        )
    if "output_plugin_libraries" in said:
        return PluginNotAllowed(f"The source does not allow wal2json: {said}", "`loader setup`")
    if code == "58P01" and "wal2json" in said:
        return plugin_missing(error.major)
    if slot and code in ("42704", "55000", "58P01"):
        return SlotLost(f"The slot {slot} cannot be read: {said}", "`loader status` says more")
    if code == "53300" and "max_wal_senders" in said:
        return NoFreeSlot(
            "The source has no free WAL sender",
            senders_remedy(),
        )
    if code == "42501":
        return MissingRight(
            f"The role may not replicate: {said}",
            "`loader setup --check` says which right it lacks",
        )
    if is_too_large(code, said):
        return RowTooLarge(f"The source cannot send a row: {said}")
    # Once the login has passed, no code means that it is refused.
    return connection_error(said, "source", None if slot else code)
