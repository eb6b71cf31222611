"""Asks the source for what the checks need to know, in plain SQL."""

from __future__ import annotations

from collections.abc import Sequence

from loader.source.server_facts import SERVER, ServerFacts
from loader.source.synchronous import judge
from loader.source.table_facts import TableFacts, table_facts, table_query
from waltally.database import Connection
from waltally.errors import SynchronousStandby
from waltally.facts import Fact
from waltally.tables import Table


def ask_server(connection: Connection, slot: str) -> ServerFacts:
    """Return the server's facts. Raises LoaderError."""
    (row,) = connection.ask(SERVER, (slot,))
    return ServerFacts(*row)


def ask_table(
    connection: Connection,
    table: Table,
    facts: Sequence[Fact],
    root: Table | None = None,
) -> TableFacts:
    """Return what there is to know of a table that the facts need, or of a leaf of their `root`.

    Raises LoaderError.
    """
    rows = connection.ask(table_query(table, facts, root))
    return table_facts(table, rows[0] if rows else None)


# The names are null for a role that may not see them.
_STANDBYS = """
select
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


def synchronous_finding(connection: Connection) -> SynchronousStandby | None:
    """Return why a loader with this connection's application_name may not stream now.

    None where no commit of the source would wait for it. Raises LoaderError.
    """
    (row,) = connection.ask(_STANDBYS)
    return judge(*row)
