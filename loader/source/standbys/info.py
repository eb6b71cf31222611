"""What a server says of itself as a standby, and of its standbys. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

COLUMNS = """
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
    ),
    -- On a standby nothing is committed.
    case when pg_is_in_recovery() then '' else current_setting('synchronous_standby_names') end,
    current_setting('application_name'),
    case when pg_has_role(current_user, 'pg_read_all_stats', 'usage') then array(
        select distinct application_name
        from pg_stat_replication
        where sync_priority > 0
        and pid not in (
            select active_pid from pg_replication_slots where slot_type = 'logical' and active
        )
        order by application_name
    ) end
"""
"""Gives the fields of StandbyInfo."""


@dataclass(frozen=True)
class StandbyInfo:
    """Settings of a standby, and of a primary about its standbys."""

    sends_feedback: bool = False
    """hot_standby_feedback: whether a standby tells its primary which rows it needs."""
    primary_slot: str = ""
    """primary_slot_name: the slot of its primary that a standby streams from; empty: none."""
    names_database: bool | None = None
    """Whether primary_conninfo names one; None where this role may not read it."""
    copies_slots: bool | None = None
    """sync_replication_slots; None before PostgreSQL 17."""
    waits_for: Sequence[str] = ()
    """synchronized_standby_slots: the standbys that the loader must not get ahead of."""
    slots: Sequence[str] = ()
    """All physical slots, those of backups included."""
    streaming: Sequence[str] = ()
    """Physical slots that somebody streams from."""
    synchronous_names: str = ""
    """synchronous_standby_names; empty on a standby, where nothing is committed."""
    application_name: str = ""
    """The name of our sessions; synchronous_standby_names may contain it."""
    synchronous: Sequence[str] | None = None
    """Connected standbys that synchronous_standby_names matches; None where not visible."""
