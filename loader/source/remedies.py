"""Why a server refuses to make or stream a slot of wal2json, and the remedies. Pure.

On a managed server nobody is a superuser, and each provider has its own way to change a setting.
docs/source.md has the sources.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Provider:
    """A provider, and its own way to change settings and rights."""

    name: str
    administrators: str
    """The role of its administrators. Only servers of this provider have it."""
    parameter: str
    """How a setting is changed."""
    decoding: str
    """How logical decoding is switched on."""
    restart: str = ""
    """The step after a setting that needs a restart; empty where the provider restarts."""
    replication: str = "alter role {role} replication;"


_GROUP = "in the parameter group of the instance (Aurora: of the cluster): "
_FLAG = "as a flag of the instance, which restarts it: "
_AZURE = "as a server parameter: "

PROVIDERS = (
    Provider(
        name="Amazon RDS or Aurora",
        administrators="rds_superuser",
        parameter=_GROUP + "{name} = {value}",
        decoding=_GROUP + "rds.logical_replication = 1",
        restart="then reboot the instance",
        replication="grant rds_replication to {role};",
    ),
    Provider(
        name="Cloud SQL",
        administrators="cloudsqlsuperuser",
        parameter=_FLAG + "{name} = {value}",
        decoding=_FLAG + "cloudsql.logical_decoding = on",
    ),
    Provider(
        name="Azure Database for PostgreSQL",
        administrators="azure_pg_admin",
        parameter=_AZURE + "{name} = {value}",
        decoding=_AZURE + "wal_level = logical",
        restart="then restart the server",
    ),
    Provider(
        name="Neon",
        administrators="neon_superuser",
        parameter="by a request to its support: {name} = {value}",
        decoding="in the project's settings: enable logical replication, which cannot be undone",
    ),
    Provider(
        name="Supabase",
        administrators="supabase_admin",
        parameter="supabase --experimental --project-ref YOUR-PROJECT postgres-config update "
        "--config {name}={value}",
        decoding="by a request to its support: every project there has wal_level = logical",
    ),
)

_ROLES = ", ".join(literal(provider.administrators) for provider in PROVIDERS)

ADMINISTRATORS = f"""
    case when not has_parameter_privilege('wal_level', 'alter system') then (
        select min(rolname::text) from pg_roles where rolname in ({_ROLES})
    ) end
"""
"""SQL for the role that shows the provider; null where we may `alter system`, or without one.

The right comes first: a managed database that was restored elsewhere still has the role.
"""


def find_provider(administrators: str | None) -> Provider | None:
    """Return the provider that ADMINISTRATORS names."""
    return next((p for p in PROVIDERS if p.administrators == administrators), None)


THEN_SEED = ", then `spark-submit spark/seed.py`, then `dbt build`"
RENEW = f"`loader setup --renew`{THEN_SEED}"
"""Replaces a slot that cannot go on."""

STOP_FIRST = "stop the loader, run `loader setup --failover`, start the loader"
"""Lets standbys keep a slot that somebody follows."""

RESTART = "-- then restart the source"
"""Follows a setting that needs a restart."""

RELOAD = "select pg_reload_conf();"
"""Follows a setting that a reload changes."""


def setting_remedy(
    provider: Provider | None, name: str, value: str, needs_restart: bool = False
) -> str:
    """Return how the source's setting is changed: SQL, or the provider's own way."""
    if provider is not None:
        return _at(provider, provider.parameter.format(name=name, value=value), needs_restart)
    return f"alter system set {name} = {value}; {RESTART if needs_restart else RELOAD}"


def decoding_remedy(provider: Provider | None) -> str:
    """Return how logical decoding is switched on."""
    if provider is not None:
        return _at(provider, provider.decoding, needs_restart=True)
    return setting_remedy(None, "wal_level", "'logical'", needs_restart=True)


def _at(provider: Provider, change: str, needs_restart: bool) -> str:
    restart = f", {provider.restart}" if needs_restart and provider.restart else ""
    return f"on {provider.name}, {change}{restart}"


def replication_remedy(role: str | None, provider: Provider | None = None) -> str:
    """Return the SQL that lets the role make and stream slots; None: not known."""
    if role is None:
        return "`loader setup --check` says which right it lacks"
    if provider is not None:
        grant = provider.replication.format(role=quoted(role))
        return f"{grant} -- on {provider.name}, as a member of {provider.administrators}"
    return f"alter role {quoted(role)} replication; -- as a superuser"


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


# ALTER SYSTEM accepts no expression, so psql executes the text that this statement returns.
_ADD_TO_PRESENT = r"""select 'alter system set output_plugin_libraries = ' \
|| string_agg(quote_literal(name), ', ') from (select coalesce(replace(m[1], '""', '"'), m[2]) \
as name from regexp_matches(current_setting('output_plugin_libraries'), \
'"((?:[^"]|"")*)"|([^[:space:],"]+)', 'g') as m union all select 'wal2json') as listed \gexec \\ \
select pg_reload_conf(); -- in psql, as a superuser""".replace("\\\n", "")


def plugin_remedy(listed: str | None, provider: Provider | None = None) -> str:
    """Return how wal2json is added to the plugins that are allowed already.

    `listed` is the present setting. Where this role may not read it, it is None, and the statement
    reads it. Each name is a string of its own: one string with commas would be one name.
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
    return setting_remedy(provider, "max_replication_slots", str(limit + 5), needs_restart=True)


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
    """Return why the server does not make or stream the slot; None for any other error.

    `slot` is empty while the slot is being made. Where they are known, the remedies name `role`,
    which made the request, `major`, the server's version, and `provider`, which manages it.
    """
    message, code = error.message, error.sqlstate
    if code == "55006" and slot:
        return SlotInUse(
            f"The slot {slot} is in use: {message}",
            "stop the other loader; after a crash the server frees it by wal_sender_timeout",
        )
    if "output_plugin_libraries" in error.text:
        return PluginNotAllowed(
            f"The source does not allow wal2json: {message}", plugin_remedy(None, provider)
        )
    if code == "58P01" and "wal2json" in message:
        return plugin_missing(major)
    if code == "55000" and "wal_level" in message:
        return WalLevelTooLow(f"The source cannot decode: {message}", decoding_remedy(provider))
    if code == "53400":
        return NoFreeSlot(
            f"The source has no free slot: {message}", slots_remedy(provider=provider)
        )
    if "max_wal_senders" in message:
        return NoFreeSlot("The source has no free WAL sender", senders_remedy(provider=provider))
    # This error comes during the login, where no driver gives a code.
    if code == "42501" or re.search("start (walsender|WAL sender)", message):
        return MissingRight(
            f"The source denies a right: {message}", replication_remedy(role, provider)
        )
    return None
