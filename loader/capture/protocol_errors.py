"""What a failure of the replication connection means, with its remedy."""

from __future__ import annotations

from loader.capture.protocol import ProtocolError
from loader.source.remedies import RENEW, slot_finding
from waltally.errors import LoaderError, RowTooLarge, SlotLost
from waltally.server_errors import (
    ServerError,
    connection_lost,
    disk_full,
    is_disk_full,
    is_too_large,
    login_error,
)

_UNDECODABLE = "could not map filenode"
"""The server's decoder lost track of a table's file, and fails at the same place at each try.

Seen right after a slot was made amid TRUNCATEs. Internal errors are never translated. Source:
PostgreSQL, src/backend/replication/logical/reorderbuffer.c.
"""


def protocol_error(error: ProtocolError, slot: str) -> LoaderError:
    """Return the LoaderError for a failure of the replication connection.

    `slot` is empty while the connection logs in.
    """
    message = " ".join(str(error).split()).removeprefix("ERROR: ")
    server_error = ServerError(message, error.sqlstate, text=str(error))
    finding = slot_finding(server_error, slot, major=error.major)
    if finding is not None:
        return finding
    if slot and server_error.sqlstate in ("42704", "55000", "58P01"):
        return SlotLost(
            f"The slot {slot} cannot be read: {server_error.message}", "`loader status` says more"
        )
    if _UNDECODABLE in server_error.message:
        return SlotLost(
            f"The source cannot decode the WAL of {slot}: {server_error.message}", RENEW
        )
    if is_disk_full(server_error):
        # It decodes a large transaction on its disk.
        return disk_full(server_error.message, "source")
    if is_too_large(server_error):
        return RowTooLarge(f"The source cannot send a row: {server_error.message}")
    failed = connection_lost if slot else login_error
    return failed(server_error.message, "source")
