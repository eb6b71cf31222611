"""Refuses a password in Spark's properties: command line, web UI and event log show them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from waltally.errors import SettingError
from waltally.settings import parse_conninfo

_VARIABLE = re.compile(
    r"spark\.(?:executorEnv|yarn\.appMasterEnv|kubernetes\.driverEnv)\.(PGPASSWORD|LOADER_\w+_DSN)"
)
"""A property that sets an environment variable of the driver or of the executors."""


def refuse(properties: Iterable[tuple[str, str]]) -> None:
    """Raise SettingError where a property gives a variable that has a password."""
    for name, value in properties:
        variable = _VARIABLE.fullmatch(name)
        if variable is None:
            continue
        if variable[1] == "PGPASSWORD" or any(
            "password" in word for word in parse_conninfo(value, name)
        ):
            raise SettingError(
                f"{name} has a password, and Spark's properties show in its UI and command lines",
                "leave the property out, change the password, and give the driver a password file"
                " or a Kubernetes secret, as docs/spark.md says",
            )
