"""What the checks need to know of the source's server, asked in plain SQL."""

from __future__ import annotations

from dataclasses import dataclass

STANDBYS_DECODE_SINCE = 160_000
"""The first version, as server_version_num has it, whose standbys have logical slots."""


@dataclass(frozen=True)
class ServerFacts:
    """Settings and rights that decide whether a slot can be made and followed."""

    role: str
    in_recovery: bool
    wal_level: str
    may_replicate: bool
    has_rds_replication: bool
    """Whether the server gives the right by a role of this name, as Amazon RDS does."""
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


SERVER = """
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
    exists (select 1 from pg_roles where rolname = 'rds_replication'),
    -- No row for a role that may not read it, where current_setting() would raise.
    (select setting from pg_settings where name = 'output_plugin_libraries'),
    (select count(*) from pg_replication_slots),
    current_setting('max_replication_slots')::int,
    exists (select 1 from pg_replication_slots where slot_name = %s),
    (select count(*) from pg_stat_replication),
    current_setting('max_wal_senders')::int,
    current_setting('server_version_num')::int,
    current_setting('hot_standby_feedback')::boolean,
    current_setting('primary_slot_name')
"""

"""ServerFacts, given the slot's name; for whatever driver there is."""

TIMELINE = (
    "case when not pg_is_in_recovery() then "
    "('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint end"
)
"""SQL: the timeline of a primary; null on a standby: only a replication connection tells it."""
