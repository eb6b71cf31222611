"""What is asked of standbys, and written and done because of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from psycopg2.extensions import make_dsn

from loader.source.server import STANDBYS, Server, StandbyInfo, Timeline
from loader.source.slot import SlotState
from loader.source.standbys import findings, names
from waltally import lsn
from waltally.database import Connection, Target, replication_command
from waltally.errors import LoaderError, SlotInUse
from waltally.settings import Settings

log = logging.getLogger("loader")

_CHECK = "check each standby with: loader setup --check --failover --source STANDBY"

_WRITE = """
update {}.slot_position
set timeline = %(timeline)s, timeline_began_lsn = %(began_at)s, on_standby = %(on_standby)s
where
    slot_name = %(slot)s
    and (timeline, timeline_began_lsn, on_standby)
    is distinct from (%(timeline)s::bigint, %(began_at)s::pg_lsn, %(on_standby)s)
"""


HAS_WAITS = "current_setting('synchronous_standby_names') <> ''"
"""SQL: whether commits of the server wait for any standby."""


def read_wait(source: Connection) -> LoaderError | None:
    """Return why commits of the source wait for the loader; None where they do not."""
    ((row,),) = source.ask(f"select {STANDBYS}")
    return names.finding(StandbyInfo(**row))


def require_able(in_recovery: bool, version: int) -> None:
    """Raise IsStandby for a standby that is too old to decode."""
    for finding in findings.too_old(in_recovery, version):
        raise finding


def write_source(target: Target, server: Server) -> None:
    """Write down which timeline the position is of, and whether its slot is on a standby.

    In a transaction that the caller ends.
    """
    timeline = server.timeline
    began_at = None if timeline is None else timeline.began_at
    values = {
        "slot": target.slot,
        "timeline": None if timeline is None else timeline.number,
        "began_at": None if began_at is None else lsn.show(began_at),
        "on_standby": server.in_recovery,
    }
    target.ask_staging(_WRITE, values)


def read_history(number: int, ask: Callable[[str], Sequence[object]]) -> Timeline:
    """Return the timeline that the server is on, with where it left the former ones.

    `ask` executes a command of the replication protocol and returns its row; its errors pass.
    """
    # The first timeline has no history.
    if number == 1:
        return Timeline(number)
    _, history = ask(f"TIMELINE_HISTORY {number}")
    return Timeline(number, parse_history(str(history)))


def parse_history(text: str) -> dict[int, int]:
    """Return the former timelines of a history file, and where each was left."""
    lines = [line.split("#")[0].split() for line in text.splitlines()]
    return {int(line[0]): lsn.parse(line[1]) for line in lines if line}


class History:
    """Which timeline a source is on while it is followed.

    That of a standby may change: it is promoted, or its primary was. One thread asks, another
    writes.
    """

    def __init__(self, server: Server) -> None:
        """`server` has the timeline that it was on when the stream began."""
        self.can_change = server.in_recovery
        """Whether the server was a standby when the stream began."""
        self._server = server
        self._timeline = self._written = server.known_timeline

    def dsn(self, dsn: str) -> str:
        """Return how to connect so that `ask` works: over a replication connection."""
        return make_dsn(dsn, replication="database") if self.can_change else dsn

    def ask(self, connection: Connection) -> None:
        """Ask a source that streams our slot; another server's timeline says nothing of it."""
        if not self.can_change:
            return
        ((_, number, *_),) = connection.ask("IDENTIFY_SYSTEM")
        if int(number) != self._timeline.number:
            self._timeline = read_history(int(number), lambda command: connection.ask(command)[0])

    @property
    def has_changed(self) -> bool:
        """Whether the timeline is another than the one that is written down."""
        return self._timeline.number != self._written.number

    def write(self, target: Target) -> None:
        """Write the timeline down, in a transaction that the caller ends.

        Everything that was sent is in its history, so the position is on it too. With the former
        one, the next session would refuse the position.
        """
        timeline = self._timeline
        write_source(target, replace(self._server, timeline=timeline))
        self._written = timeline


def announce_wait(server: Server) -> None:
    """Say what the making of a slot waits for on a standby."""
    if server.in_recovery:
        log.warning(
            "The standby makes the slot once its primary has logged which transactions run. At "
            "once, if you run on the primary: %s",
            findings.SNAPSHOT,
        )


def made_note() -> str:
    """Return what to say of a new slot that standbys may copy."""
    return f"standbys may keep a copy of the slot; {_CHECK}"


def keep_on_standbys(settings: Settings, state: SlotState | None) -> list[str]:
    """Let standbys keep a slot that they do not keep yet; return what to say. Raises SlotInUse."""
    if state is None or state.has_copies:
        return []
    if state.active_pid is not None:
        # The server would wait until nobody follows it, without a limit.
        raise SlotInUse(
            f"The slot {settings.slot} is in use by pid {state.active_pid}, and --failover cannot "
            "change it meanwhile",
            findings.STOP_FIRST,
        )
    command = f'ALTER_REPLICATION_SLOT "{settings.slot}" (FAILOVER true)'
    replication_command(settings.source, command)
    return [f"standbys may keep a copy of the slot {settings.slot} from now on; {_CHECK}"]
