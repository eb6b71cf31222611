"""What the source says of synchronous replication, asked in plain SQL."""

from __future__ import annotations

from psycopg2 import extensions

from loader.preflight.synchronous import judge
from waltally.database import explained
from waltally.errors import SynchronousStandby

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


def synchronous_finding(connection: extensions.connection) -> SynchronousStandby | None:
    """Return why a loader with this connection's application_name may not stream now.

    None where no commit of the source would wait for it. Raises LoaderError.
    """
    with explained("source"), connection, connection.cursor() as cursor:
        cursor.execute(_STANDBYS)
        row = cursor.fetchone()
    assert row is not None
    return judge(*row)
