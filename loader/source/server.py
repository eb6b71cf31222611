"""What the checks need to know of the source's server. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loader.source.remedies import Provider, find_provider

STANDBYS_DECODE_SINCE = 160_000
"""The first version, as server_version_num has it, whose standbys have logical slots."""


@dataclass(frozen=True)
class ServerInfo:
    """Settings and rights that decide whether a slot can be made and followed."""

    role: str
    in_recovery: bool
    wal_level: str
    may_replicate: bool
    administrators: str | None
    """The role that tells which provider manages the server; None where `alter system` is ours."""
    allowed_plugins: str | None
    """The setting output_plugin_libraries; None where it is missing or may not be read."""
    slots_used: int
    slots_limit: int
    slot_exists: bool
    senders_used: int
    senders_limit: int
    version: int
    """As server_version_num has it."""
    sends_feedback: bool
    """Whether it tells its primary, where it has one, which rows it needs: hot_standby_feedback."""
    primary_slot: str
    """The slot of its primary that it streams from; empty where none is set."""
    names_database: bool | None = None
    """Whether primary_conninfo names one; None where this role may not read it."""
    copies_slots: bool | None = None
    """sync_replication_slots; None before PostgreSQL 17."""
    waits_for: Sequence[str] = ()
    """synchronized_standby_slots: the standbys that the loader must not get ahead of."""
    standby_slots: Sequence[str] = ()
    """The physical slots there are; also of backups."""
    streaming: Sequence[str] = ()
    """Those that somebody streams from."""
    encoding: str = "UTF8"
    idle_timeout: str | None = None
    """idle_replication_slot_timeout; None where the server gives up no slot for that."""
    synchronous_names: str = ""
    """synchronous_standby_names; empty on a standby, where nothing is committed."""
    application_name: str = ""
    """That of our sessions, by which the setting may take us for a standby."""
    synchronous_standbys: Sequence[str] | None = None
    """The physical standbys that the setting matches; None where this role may not see them."""

    @property
    def provider(self) -> Provider | None:
        """Who manages the server; None where settings are changed by SQL."""
        return find_provider(self.administrators)
