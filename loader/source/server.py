"""The records of the source's server, and what is asked for them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from loader.source.remedies import ADMINISTRATORS, Provider, find_provider

STANDBYS = """
json_build_object(
    'waits_for', array(
        select trim(both ' "' from name)
        from regexp_split_to_table(current_setting('synchronized_standby_slots', true), ',') as name
        where trim(name) <> ''
    ),
    'slots', array(
        select slot_name::text from pg_replication_slots
        where slot_type = 'physical' and not temporary
        order by slot_name
    ),
    'streaming', array(
        select slot_name::text from pg_replication_slots
        where slot_type = 'physical' and active
    ),
    'synchronous_names', current_setting('synchronous_standby_names'),
    'application_name', current_setting('application_name'),
    'synchronous', case when pg_has_role(current_user, 'pg_read_all_stats', 'usage') then array(
        select distinct application_name
        from pg_stat_replication
        where sync_priority > 0
        and pid not in (
            select active_pid from pg_replication_slots where slot_type = 'logical' and active
        )
        order by application_name
    ) end
)
"""
"""Gives the fields of StandbyInfo, as JSON."""


@dataclass(frozen=True)
class StandbyInfo:
    """Settings about the server's standbys."""

    waits_for: Sequence[str] = ()
    """synchronized_standby_slots: the standbys that the loader must not get ahead of."""
    slots: Sequence[str] = ()
    """All physical slots, those of backups included."""
    streaming: Sequence[str] = ()
    """Physical slots that somebody streams from."""
    synchronous_names: str = ""
    """synchronous_standby_names."""
    application_name: str = ""
    """The name of our sessions; synchronous_standby_names may contain it."""
    synchronous: Sequence[str] | None = None
    """Connected standbys that synchronous_standby_names matches; None where not visible."""


SERVER = f"""
select json_build_object(
    'role', current_user,
    'wal_level', current_setting('wal_level'),
    'may_replicate', (
        select rolsuper or rolreplication from pg_roles where rolname = current_user
    ) or exists (
        select 1 from pg_roles
        where rolname = 'rds_replication' and pg_has_role(current_user, oid, 'usage')
    ),
    'administrators', {ADMINISTRATORS},
    -- No row for a role that may not read it, where current_setting() would raise.
    'allowed_plugins', (select setting from pg_settings where name = 'output_plugin_libraries'),
    'slots_used', (select count(*) from pg_replication_slots),
    'slots_limit', current_setting('max_replication_slots')::int,
    'slot_exists', exists (select 1 from pg_replication_slots where slot_name = %s),
    'senders_used', (select count(*) from pg_stat_replication),
    'senders_limit', current_setting('max_wal_senders')::int,
    'version', current_setting('server_version_num')::int,
    'encoding', current_setting('server_encoding'),
    'idle_timeout', nullif(current_setting('idle_replication_slot_timeout', true), '0'),
    'standbys', {STANDBYS}
)
"""
"""Gives the fields of ServerInfo, as JSON; takes the slot's name."""


@dataclass(frozen=True)
class ServerInfo:
    """Settings and rights that decide whether a slot can be made and followed."""

    role: str
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
class Timeline:
    """A server's timeline, and the positions where it left the former ones."""

    number: int
    left_at: Mapping[int, int] = field(default_factory=dict)
    """Empty for the first timeline, and where the history was not read."""

    @property
    def began_at(self) -> int | None:
        """Where it left the former timeline; None for the first one or without a history."""
        return self._began_at(self.number)

    def shared_with(self, number: int, began_at: int | None) -> int | None:
        """Return the position up to which this server has the WAL of timeline `number`.

        None means all of it: the server is on that timeline. 0 means that it never was. `began_at`
        is where that timeline left the former one: where two standbys of a server are promoted,
        both begin a timeline of the same number.
        """
        if number != self.number and number not in self.left_at:
            return 0
        here = self._began_at(number)
        if began_at is not None and here is not None and here != began_at:
            return min(here, began_at)
        return None if number == self.number else self.left_at[number]

    def _began_at(self, number: int) -> int | None:
        former = [earlier for earlier in self.left_at if earlier < number]
        return self.left_at[max(former)] if former else None


@dataclass(frozen=True)
class Server:
    """The source's cluster, database and position."""

    system_identifier: str
    database: str
    wal_end: int
    timeline: Timeline | None = None
    """None where its history could not be read."""
