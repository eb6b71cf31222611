"""What the checks need to know of the source's server, asked in plain SQL. Pure: no driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loader.source.remedies import ADMINISTRATORS, Provider, find_provider

if TYPE_CHECKING:
    from waltally.database import Connection

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

    @property
    def provider(self) -> Provider | None:
        """Who manages the server; None where settings are changed by SQL."""
        return find_provider(self.administrators)


SERVER = f"""
select
    current_user::text,
    pg_is_in_recovery(),
    current_setting('wal_level'),
    (select rolsuper or rolreplication from pg_roles where rolname = current_user)
        or exists (
            select 1 from pg_roles
            where rolname = 'rds_replication'
            and pg_has_role(current_user, oid, 'usage')
        ),
    {ADMINISTRATORS},
    -- No row for a role that may not read it, where current_setting() would raise.
    (select setting from pg_settings where name = 'output_plugin_libraries'),
    (select count(*) from pg_replication_slots),
    current_setting('max_replication_slots')::int,
    exists (select 1 from pg_replication_slots where slot_name = %s),
    (select count(*) from pg_stat_replication),
    current_setting('max_wal_senders')::int,
    current_setting('server_version_num')::int,
    current_setting('hot_standby_feedback')::boolean,
    current_setting('primary_slot_name'),
    (select setting ~ 'dbname *=' from pg_settings where name = 'primary_conninfo'),
    current_setting('sync_replication_slots', true)::boolean,
    array(
        select trim(both ' "' from name)
        from regexp_split_to_table(current_setting('synchronized_standby_slots', true), ',') as name
        where trim(name) <> ''
    ),
    array(
        select slot_name::text from pg_replication_slots
        where slot_type = 'physical' and not temporary
        order by slot_name
    ),
    array(
        select slot_name::text from pg_replication_slots
        where slot_type = 'physical' and active
    )
"""
"""Gives the fields of ServerInfo; takes the slot's name."""


def ask_server(connection: Connection, slot: str) -> ServerInfo:
    """Return what the server says of itself. Raises LoaderError."""
    (row,) = connection.ask(SERVER, (slot,))
    return ServerInfo(*row)
