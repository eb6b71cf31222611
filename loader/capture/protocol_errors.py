"""What the server's errors on the replication connection mean."""

from __future__ import annotations

from loader.capture.protocol import ProtocolError
from loader.preflight.slot_errors import slot_finding
from loader.preflight.slot_state import RENEW
from waltally.errors import LoaderError, RowTooLarge, SlotLost
from waltally.server_errors import ServerError, connection_lost, is_too_large, login_error

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
    said = ServerError(message, error.sqlstate, text=str(error))
    finding = slot_finding(said, slot, major=error.major)
    if finding is not None:
        return finding
    if slot and said.sqlstate in ("42704", "55000", "58P01"):
        return SlotLost(
            f"The slot {slot} cannot be read: {said.message}", "`loader status` says more"
        )
    if _UNDECODABLE in said.message:
        return SlotLost(f"The source cannot decode the WAL of {slot}: {said.message}", RENEW)
    if is_too_large(said):
        return RowTooLarge(f"The source cannot send a row: {said.message}")
    failed = connection_lost if slot else login_error
    return failed(said.message, "source")
