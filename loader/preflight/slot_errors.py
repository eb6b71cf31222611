"""What it means when the server does not make or stream a slot. Pure: for whatever driver."""

from __future__ import annotations

import re

from loader.preflight.remedies import (
    RESTART_PRIMARY,
    plugin_missing,
    plugin_remedy,
    replication_remedy,
    senders_remedy,
    slots_remedy,
)
from waltally.errors import (
    LoaderError,
    MissingRight,
    NoFreeSlot,
    PluginNotAllowed,
    SlotInUse,
    WalLevelTooLow,
)
from waltally.server_errors import ServerError


def slot_finding(
    error: ServerError, slot: str, role: str | None = None, major: int | None = None
) -> LoaderError | None:
    """Return why the server does not make or stream the slot, None where the reason is another.

    `slot` is empty for one that is only being made. The remedies name `role`, who asked, and
    `major`, the server's version, where these are known.
    """
    said, code = error.message, error.sqlstate
    if code == "55006" and slot:
        return SlotInUse(
            f"The slot {slot} is in use: {said}",
            "stop the other loader; after a crash the server frees it by wal_sender_timeout",
        )
    if "output_plugin_libraries" in error.text:
        return PluginNotAllowed(f"The source does not allow wal2json: {said}", plugin_remedy(None))
    if code == "58P01" and "wal2json" in said:
        return plugin_missing(major)
    if code == "55000" and "wal_level" in said:
        # A standby's own wal_level is checked before.
        return WalLevelTooLow(
            f"The standby cannot decode: {said}",
            f"on the primary: alter system set wal_level = 'logical'; {RESTART_PRIMARY}",
        )
    if code == "53400":
        return NoFreeSlot(f"The source has no free slot: {said}", slots_remedy())
    if "max_wal_senders" in said:
        return NoFreeSlot("The source has no free WAL sender", senders_remedy())
    # The server answers so while the connection logs in, so no driver has a code.
    if code == "42501" or re.search("start (walsender|WAL sender)", said):
        return MissingRight(f"The source denies a right: {said}", replication_remedy(role))
    return None
