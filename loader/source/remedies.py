"""Why a server does not make or stream a slot of wal2json, and the SQL that lets it. Pure."""

from __future__ import annotations

import re

from loader.source.providers import Provider
from waltally.errors import (
    LoaderError,
    MissingRight,
    NoFreeSlot,
    PluginMissing,
    PluginNotAllowed,
    SlotInUse,
    WalLevelTooLow,
)
from waltally.server_errors import ServerError
from waltally.tables import literal, quoted

RESTART = "-- then restart the source"
"""After a setting that a reload does not change."""

RESTART_PRIMARY = "-- then restart the primary"
RESTART_STANDBY = "-- then restart the standby"

RELOAD = "select pg_reload_conf();"
"""After a setting that a reload changes."""


def setting_remedy(
    provider: Provider | None, name: str, value: str, needs_restart: bool = False
) -> str:
    """Return how the source's setting is changed: SQL, or the provider's own way."""
    if provider is not None:
        return provider.setting_remedy(name, value, needs_restart)
    return f"alter system set {name} = {value}; {RESTART if needs_restart else RELOAD}"


def decoding_remedy(provider: Provider | None) -> str:
    """Return how logical decoding is switched on."""
    if provider is not None:
        return provider.decoding_remedy()
    return setting_remedy(None, "wal_level", "'logical'", needs_restart=True)


def replication_remedy(role: str | None, provider: Provider | None = None) -> str:
    """Return the SQL that lets the role make and stream slots; None: not known."""
    if role is None:
        return "`loader setup --check` says which right it lacks"
    if provider is not None:
        return provider.replication_remedy(role)
    return f"alter role {quoted(role)} replication; -- as a superuser"


def physical_slot(name: str) -> str:
    """Return the SQL that makes a slot for a standby, holding WAL from now on."""
    return f"select pg_create_physical_replication_slot({literal(name)}, true);"


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


def plugin_remedy(listed: str | None, provider: Provider | None = None) -> str:
    """Return how wal2json is allowed and what other programs need in the list is kept.

    `listed` is the present setting, None where this role may not read it: the statement then
    reads it itself. Each name is a separate string: one string with commas would be one name.
    """
    if provider is not None:
        there = "what is there and" if listed is None else ",".join(plugin_names(listed)) + ","
        return setting_remedy(provider, "output_plugin_libraries", f"{there} wal2json")
    if listed is None:
        return _ADD_TO_PRESENT
    names = ", ".join(map(literal, [*plugin_names(listed), "wal2json"]))
    return f"alter system set output_plugin_libraries = {names}; {RELOAD} -- as a superuser"


def slots_remedy(limit: int = 15, provider: Provider | None = None) -> str:
    """Return how the server gets more replication slots."""
    more = setting_remedy(provider, "max_replication_slots", str(limit + 5), needs_restart=True)
    return f"{more}; or drop a slot that nobody needs"


def senders_remedy(limit: int = 15, provider: Provider | None = None) -> str:
    """Return how the server gets more WAL senders."""
    return setting_remedy(provider, "max_wal_senders", str(limit + 5), needs_restart=True)


def slot_finding(
    error: ServerError,
    slot: str,
    role: str | None = None,
    major: int | None = None,
    provider: Provider | None = None,
) -> LoaderError | None:
    """Return why the server does not make or stream the slot, None where the reason is another.

    `slot` is empty for one that is only being made. The remedies name `role`, who asked,
    `major`, the server's version, and `provider`, who manages it, where these are known.
    """
    said, code = error.message, error.sqlstate
    if code == "55006" and slot:
        return SlotInUse(
            f"The slot {slot} is in use: {said}",
            "stop the other loader; after a crash the server frees it by wal_sender_timeout",
        )
    if "output_plugin_libraries" in error.text:
        return PluginNotAllowed(
            f"The source does not allow wal2json: {said}", plugin_remedy(None, provider)
        )
    if code == "58P01" and "wal2json" in said:
        return plugin_missing(major)
    if code == "55000" and "wal_level" in said:
        # A standby's own wal_level is checked before.
        return WalLevelTooLow(
            f"The standby cannot decode: {said}",
            f"on the primary: alter system set wal_level = 'logical'; {RESTART_PRIMARY}",
        )
    if code == "53400":
        return NoFreeSlot(f"The source has no free slot: {said}", slots_remedy(provider=provider))
    if "max_wal_senders" in said:
        return NoFreeSlot("The source has no free WAL sender", senders_remedy(provider=provider))
    # The server answers so while the connection logs in, so no driver has a code.
    if code == "42501" or re.search("start (walsender|WAL sender)", said):
        return MissingRight(
            f"The source denies a right: {said}", replication_remedy(role, provider)
        )
    return None
