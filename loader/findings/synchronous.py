"""Whether synchronous_standby_names makes commits wait for the loader. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loader.source.remedies import RELOAD
from loader.source.server import StandbyInfo
from loader.source.state import State
from waltally.errors import LoaderError, SynchronousStandby
from waltally.tables import literal, quoted

_HEAD = re.compile(r"\s*(?:(first|any)\s+)?(\d+)\s*\((.*)\)\s*", re.IGNORECASE | re.DOTALL)


_NAME = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^\s,"]+))\s*(?:,|$)')


# Only roles that may read the statistics know the names; psql executes what this prints.
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


def parse_standby_names(setting: str) -> StandbyNames:
    """Return the parts of the setting; no names where it is empty."""
    head = _HEAD.fullmatch(setting)
    method, number, listed = head.groups() if head else (None, "1", setting)
    names = [in_quotes.replace('""', '"') or plain for in_quotes, plain in _NAME.findall(listed)]
    return StandbyNames((method or "first").upper(), int(number), tuple(names))


def judge_standby_names(
    setting: str, application_name: str, standbys: Sequence[str] | None
) -> SynchronousStandby | None:
    """Return why the loader may not stream now, None where no commit would wait for it.

    `standbys` are the connected standbys that the setting matches; None where the role may not see
    them.
    """
    value = parse_standby_names(setting)
    left = [name for name in value.names if name.lower() not in ("*", application_name.lower())]
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


def why_commits_wait(info: StandbyInfo) -> SynchronousStandby | None:
    """Return why the loader may not stream now, None where no commit of the source waits for it."""
    return judge_standby_names(info.synchronous_names, info.application_name, info.synchronous)


def commits_do_not_wait(state: State) -> Iterator[LoaderError]:
    """The application's commits must not wait for the loader."""
    yield from filter(None, [why_commits_wait(state.server.standbys)])
