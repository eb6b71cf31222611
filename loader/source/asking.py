"""Asks a source about its server and its slots; other modules judge the answers."""

from __future__ import annotations

from loader.source.server import SERVER, Server, ServerInfo, StandbyInfo, Timeline
from loader.source.slot import SlotState
from waltally import lsn
from waltally.database import Connection


def ask_server(connection: Connection, slot: str) -> ServerInfo:
    """Return the server's settings and the role's rights. Raises LoaderError."""
    ((row,),) = connection.ask(SERVER, (slot,))
    return ServerInfo(**{**row, "standbys": StandbyInfo(**row["standbys"])})


SLOT_STATE = """
select json_build_object(
    'plugin', plugin,
    'database', database,
    'active_pid', active_pid,
    'wal_status', wal_status,
    'confirmed_flush_lsn', confirmed_flush_lsn - '0/0',
    'restart_lsn', restart_lsn - '0/0',
    'safe_wal_size', safe_wal_size,
    -- Columns that older servers lack are null in the row's JSON.
    'invalidation_reason', coalesce(
        to_jsonb(slot) ->> 'invalidation_reason',
        case when to_jsonb(slot) ->> 'conflicting' = 'true' then 'conflict' end
    ),
    'inactive_seconds', case when active_pid is null then
        extract(epoch from now() - (to_jsonb(slot) ->> 'inactive_since')::timestamptz)
    end,
    'idle_timeout_seconds',
    extract(epoch from current_setting('idle_replication_slot_timeout', true)::interval),
    'has_copies', coalesce(to_jsonb(slot) ->> 'failover' = 'true', false)
)
from pg_replication_slots as slot
where slot_name = """
"""Gives the fields of SlotState, as JSON; a literal or a parameter with the slot's name follows."""


_SERVER = f"""
select
    (select system_identifier::text from pg_control_system()),
    current_database(),
    {lsn.WAL_END},
    ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint
"""


def read_server(source: Connection) -> Server:
    """Return the source's cluster, database and position. Raises LoaderError."""
    ((system, database, wal_end, timeline),) = source.ask(_SERVER)
    return Server(system, database, lsn.parse(wal_end), Timeline(timeline))


def read_slot_state(connection: Connection, slot: str) -> SlotState | None:
    """Return the slot's row, None where there is none. Raises LoaderError."""
    rows = connection.ask(f"{SLOT_STATE} %s", (slot,))
    return SlotState(**rows[0][0]) if rows else None
