"""The SQL that lets a server make and stream a slot of wal2json. Pure."""

from __future__ import annotations

import re

from waltally.errors import PluginMissing
from waltally.tables import literal, quoted

RESTART = "-- then restart the source"
"""After a setting that a reload does not change."""

RESTART_PRIMARY = "-- then restart the primary"
RESTART_STANDBY = "-- then restart the standby"

RELOAD = "select pg_reload_conf();"
"""After a setting that a reload changes."""


def replication_remedy(role: str | None, has_rds_replication: bool | None = None) -> str:
    """Return the SQL that lets the role make and stream slots; None: not known."""
    if role is None:
        return "`loader setup --check` says which right it lacks"
    if has_rds_replication:
        return f"grant rds_replication to {quoted(role)}; -- as an administrator"
    otherwise = f"; on Amazon RDS: grant rds_replication to {quoted(role)};"
    return f"alter role {quoted(role)} replication; -- as a superuser" + (
        otherwise if has_rds_replication is None else ""
    )


def plugin_missing(major: int | None) -> PluginMissing:
    """Return the error for a server of this version that has no wal2json."""
    package = f"postgresql-{major or '<version>'}-wal2json"
    return PluginMissing(
        "wal2json is not installed on the source",
        f"apt-get install {package}  # on the source, or your provider's way",
    )


def plugin_names(setting: str) -> list[str]:
    """Return the names in output_plugin_libraries, a list of identifiers."""
    return [
        in_quotes.replace('""', '"') or plain
        for in_quotes, plain in re.findall(r'"((?:[^"]|"")*)"|([^\s,"]+)', setting)
    ]


# ALTER SYSTEM takes no expression, so psql runs what this statement returns.
_ADD_TO_PRESENT = r"""select 'alter system set output_plugin_libraries = ' \
|| string_agg(quote_literal(name), ', ') from (select coalesce(replace(m[1], '""', '"'), m[2]) \
as name from regexp_matches(current_setting('output_plugin_libraries'), \
'"((?:[^"]|"")*)"|([^[:space:],"]+)', 'g') as m union all select 'wal2json') as listed \gexec \\ \
select pg_reload_conf(); -- in psql, as a superuser""".replace("\\\n", "")


def plugin_remedy(listed: str | None) -> str:
    """Return the SQL that allows wal2json and keeps what other programs need in the list.

    `listed` is the present setting, None where this role may not read it: the statement then
    reads it itself. Each name is a separate string: one string with commas would be one name.
    """
    if listed is None:
        return _ADD_TO_PRESENT
    names = ", ".join(map(literal, [*plugin_names(listed), "wal2json"]))
    return f"alter system set output_plugin_libraries = {names}; {RELOAD} -- as a superuser"


def slots_remedy(limit: int = 15) -> str:
    """Return the SQL that gives the server more replication slots."""
    return (
        f"alter system set max_replication_slots = {limit + 5}; {RESTART}; "
        "or drop a slot that nobody needs"
    )


def senders_remedy(limit: int = 15) -> str:
    """Return the SQL that gives the server more WAL senders."""
    return f"alter system set max_wal_senders = {limit + 5}; {RESTART}"
