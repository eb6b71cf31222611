"""The record of the source's server. Pure."""

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
    """The role that shows which provider manages the server; None where we may `alter system`."""
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
    """hot_standby_feedback: whether a standby tells its primary which rows it needs."""
    primary_slot: str
    """primary_slot_name: the slot of its primary that a standby streams from; empty: none."""
    names_database: bool | None = None
    """Whether primary_conninfo names one; None where this role may not read it."""
    copies_slots: bool | None = None
    """sync_replication_slots; None before PostgreSQL 17."""
    waits_for: Sequence[str] = ()
    """synchronized_standby_slots: the standbys that the loader must not get ahead of."""
    standby_slots: Sequence[str] = ()
    """All physical slots, those of backups included."""
    streaming: Sequence[str] = ()
    """Physical slots that somebody streams from."""
    encoding: str = "UTF8"
    idle_timeout: str | None = None
    """idle_replication_slot_timeout; None where it is off or the server has no such setting."""
    synchronous_names: str = ""
    """synchronous_standby_names; empty on a standby, where nothing is committed."""
    application_name: str = ""
    """The name of our sessions; synchronous_standby_names may contain it."""
    synchronous_standbys: Sequence[str] | None = None
    """Connected standbys that synchronous_standby_names matches; None where not visible."""

    @property
    def provider(self) -> Provider | None:
        """Who manages the server; None where settings are changed by SQL."""
        return find_provider(self.administrators)
