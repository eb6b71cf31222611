"""libpq's two dialects: the keywords of a connection string and the PG* variables.

dbt reads variables only, so `loader run --build` turns the target's string into variables. The
source's string must not change its meaning with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from waltally.errors import SettingError

if TYPE_CHECKING:
    from psycopg2 import extensions

VARIABLES = {
    "host": "PGHOST",
    "hostaddr": "PGHOSTADDR",
    "port": "PGPORT",
    "dbname": "PGDATABASE",
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "passfile": "PGPASSFILE",
    "options": "PGOPTIONS",
    "channel_binding": "PGCHANNELBINDING",
    "require_auth": "PGREQUIREAUTH",
    "requirepeer": "PGREQUIREPEER",
    "sslmode": "PGSSLMODE",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcrl": "PGSSLCRL",
    "sslcrldir": "PGSSLCRLDIR",
    "sslsni": "PGSSLSNI",
    "ssl_min_protocol_version": "PGSSLMINPROTOCOLVERSION",
    "ssl_max_protocol_version": "PGSSLMAXPROTOCOLVERSION",
    "gssencmode": "PGGSSENCMODE",
    "krbsrvname": "PGKRBSRVNAME",
    "target_session_attrs": "PGTARGETSESSIONATTRS",
}
"""By keyword: what names a server and what secures the connection. The rest is each program's."""


def environment(connection: extensions.connection, dsn: str) -> dict[str, str]:
    """Return the variables that make another program connect where this connection is.

    `dsn` is what it was opened with. Raises SettingError for what no variable can say.
    """
    words = conninfo_to_dict(dsn)
    if "sslpassword" in words:
        raise SettingError(
            "LOADER_TARGET_DSN has an sslpassword, which cannot be handed to dbt",
            "use a key without a password that only this user may read, or run dbt by itself",
        )
    info = connection.info
    # The string may name several hosts: this is the one that answered.
    effective = {**info.dsn_parameters, "host": info.host, "port": str(info.port)}
    effective["password"] = info.password or ""
    if "," in info.dsn_parameters.get("host", ""):
        effective.pop("hostaddr", None)
    return {VARIABLES[word]: effective[word] for word in _set_by(words) if word in effective}


def with_environment(dsn: str, other: str) -> str:
    """Return the string, completed with the variables that exporting `other` would change."""
    words = conninfo_to_dict(dsn)
    if "service" in words:
        return dsn
    present = {
        option.keyword.decode(): option.val.decode() if option.val is not None else ""
        for option in pq.Conninfo.get_defaults()
    }
    left = {word: present[word] for word in _set_by(conninfo_to_dict(other))}
    return make_conninfo("", **{**left, **words})


def _set_by(words: Mapping[str, object]) -> list[str]:
    """Return the keywords that a string sets; a service may set any of them.

    The first four are always among them: a program may not have libpq's defaults for them.
    """
    first = ("host", "port", "dbname", "user")
    return [word for word in VARIABLES if word in first or word in words or "service" in words]
