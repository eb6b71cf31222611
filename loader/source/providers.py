"""Managed PostgreSQL: how each provider does what `alter system` does elsewhere. Pure.

Nobody there is a superuser. docs/managed.md has the sources.
"""

from __future__ import annotations

from dataclasses import dataclass

from waltally.tables import literal, quoted


@dataclass(frozen=True)
class Provider:
    """A provider, and its own way to change settings and rights."""

    name: str
    administrators: str
    """The role of its administrators, by which the server is known to be the provider's."""
    parameter: str
    """How a setting is changed."""
    decoding: str
    """How logical decoding is switched on."""
    restart: str = ""
    """What must follow where the setting needs a restart; empty where the provider does it."""
    replication: str = "alter role {role} replication;"

    def setting_remedy(self, name: str, value: str, needs_restart: bool) -> str:
        """Return how a setting is changed there."""
        return self._said(self.parameter.format(name=name, value=value), needs_restart)

    def decoding_remedy(self) -> str:
        """Return how logical decoding is switched on there."""
        return self._said(self.decoding, needs_restart=True)

    def replication_remedy(self, role: str) -> str:
        """Return the SQL that lets the role make and stream slots there."""
        grant = self.replication.format(role=quoted(role))
        return f"{grant} -- on {self.name}, as a member of {self.administrators}"

    def _said(self, change: str, needs_restart: bool) -> str:
        end = f", {self.restart}" if needs_restart and self.restart else ""
        return f"on {self.name}, {change}{end}"


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

_ROLES = ", ".join(literal(each.administrators) for each in PROVIDERS)

ADMINISTRATORS = f"""
    case when not has_parameter_privilege('wal_level', 'alter system') then (
        select min(rolname::text) from pg_roles where rolname in ({_ROLES})
    ) end
"""
"""SQL: the role that names the provider; null where this role may `alter system`, or none is known.

A copy of a managed database, restored elsewhere, may have such a role too, beside a superuser.
"""


def find_provider(administrators: str | None) -> Provider | None:
    """Return the provider that ADMINISTRATORS names."""
    return next((each for each in PROVIDERS if each.administrators == administrators), None)
