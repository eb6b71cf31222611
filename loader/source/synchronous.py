"""Whether synchronous_standby_names takes the loader for a standby that commits wait for. Pure.

A walsender of logical replication counts like one of a standby: only its application_name decides.
Source: PostgreSQL documentation, "synchronous_standby_names"; src/backend/replication/syncrep.c.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loader.source.remedies import RELOAD
from waltally.errors import SynchronousStandby
from waltally.tables import literal, quoted

if TYPE_CHECKING:
    from waltally.database import Connection

_HEAD = re.compile(r"\s*(?:(first|any)\s+)?(\d+)\s*\((.*)\)\s*", re.IGNORECASE | re.DOTALL)
_NAME = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^\s,"]+))\s*(?:,|$)')

# The names are only known to roles that see the statistics; psql runs what this prints.
_FOR_PSQL = (
    "as a superuser in psql: select format('alter system set synchronous_standby_names = %%L', "
    "'%s ' || least(%d, count(distinct application_name)) || ' (' || "
    "string_agg(distinct quote_ident(application_name), ', ') || ')') "
    "from pg_stat_replication where sync_priority > 0 and pid not in (select active_pid from "
    "pg_replication_slots where slot_type = 'logical' and active) \\gexec \\\\ " + RELOAD
)


@dataclass(frozen=True)
class StandbyNames:
    """A value of synchronous_standby_names."""

    method: str
    """FIRST or ANY."""
    number: int
    names: tuple[str, ...]

    def with_names(self, names: Sequence[str]) -> str:
        """Return the setting's text with other names."""
        if not names:
            return ""
        listed = ", ".join(map(quoted, names))
        return f"{self.method} {min(self.number, len(names))} ({listed})"


def parse(setting: str) -> StandbyNames:
    """Return what the setting says; no names where it is empty."""
    head = _HEAD.fullmatch(setting)
    method, number, listed = head.groups() if head else (None, "1", setting)
    names = [in_quotes.replace('""', '"') or plain for in_quotes, plain in _NAME.findall(listed)]
    return StandbyNames((method or "first").upper(), int(number), tuple(names))


def matches(name: str, application_name: str) -> bool:
    """Say whether a name of the list means a walsender of this application_name."""
    return name == "*" or name.lower() == application_name.lower()


def judge(
    setting: str, application_name: str, standbys: Sequence[str] | None
) -> SynchronousStandby | None:
    """Return why the loader may not stream now, None where no commit would wait for it.

    `standbys` are the physical standbys that the setting matches now, None where the role may
    not see them.
    """
    value = parse(setting)
    left = [name for name in value.names if not matches(name, application_name)]
    if len(left) == len(value.names):
        return None
    if "*" in value.names and standbys is None:
        remedy = _FOR_PSQL % (value.method, value.number)
    else:
        if "*" in value.names:
            left += [name for name in standbys or () if name not in left]
        text = literal(value.with_names(left))
        remedy = f"alter system set synchronous_standby_names = {text}; {RELOAD}"
        if not left:
            remedy += " -- no standby is connected; name yours when there is one"
    return SynchronousStandby(
        f"The source's synchronous_standby_names = '{setting}' takes the loader "
        f"({application_name}) for a synchronous standby: the application's commits would wait "
        "for it",
        remedy,
    )


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
