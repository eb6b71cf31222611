"""The session that holds a lock, as errors name it. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Holder:
    """A session that holds a lock."""

    pid: int
    application: str
    role: str
    state: str | None
    """None where this role may not see it."""

    def __str__(self) -> str:
        said = filter(None, (self.application, f"role {self.role}", self.state))
        return f"session {self.pid} ({', '.join(said)})"

    def remedy(self, side: str) -> str:
        """Return what to do; SQL that can be pasted comes last."""
        end = f"select pg_terminate_backend({self.pid});"
        return f"let that session end, or end it on the {side}: {end}"


HOLDER = (
    "json_build_object('pid', session.pid, 'application', session.application_name, "
    "'role', session.usename, 'state', session.state)"
)
"""SQL: the fields of Holder; `session` is a row of pg_stat_activity."""
