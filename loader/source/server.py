"""The records of the source's server. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from loader.source.remedies import Provider, find_provider
from loader.source.standbys.info import StandbyInfo
from loader.source.standbys.timelines import Timeline


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
    encoding: str = "UTF8"
    idle_timeout: str | None = None
    """idle_replication_slot_timeout; None where it is off or the server has no such setting."""
    standbys: StandbyInfo = field(default_factory=StandbyInfo)

    @property
    def provider(self) -> Provider | None:
        """Who manages the server; None where settings are changed by SQL."""
        return find_provider(self.administrators)


@dataclass(frozen=True)
class Server:
    """The source's cluster, database and position, and whether it only replays a primary."""

    system_identifier: str
    database: str
    wal_end: int
    """While it replays a primary, the end of what it has replayed or received."""
    in_recovery: bool = False
    timeline: Timeline | None = None
    """None where only a replication connection would tell it."""

    @property
    def known_timeline(self) -> Timeline:
        """The timeline, where a replication connection was asked, which always knows it."""
        assert self.timeline is not None
        return self.timeline
