"""What is asked of a source because of its standbys, and written and done."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loader.source.remedies import STOP_FIRST
from loader.source.server import STANDBYS, Server, StandbyInfo, Timeline
from loader.source.slot import SlotState
from waltally import lsn
from waltally.database import Connection, Target, replication_command
from waltally.errors import SlotInUse
from waltally.settings import Settings

_WRITE = """
update {}.slot_position
set timeline = %(timeline)s, timeline_began_lsn = %(began_at)s, broken = null
where
    slot_name = %(slot)s
    and (timeline, timeline_began_lsn, broken)
    is distinct from (%(timeline)s::bigint, %(began_at)s::pg_lsn, null)
"""


HAS_WAITS = "current_setting('synchronous_standby_names') <> ''"
"""SQL: whether commits of the server wait for any standby."""


def read_standbys(source: Connection) -> StandbyInfo:
    """Return the settings about the source's standbys. Raises LoaderError."""
    ((row,),) = source.ask(f"select {STANDBYS}")
    return StandbyInfo(**row)


def write_source(target: Target, server: Server) -> None:
    """Write down which timeline the position is of.

    In a transaction that the caller ends.
    """
    timeline = server.timeline
    began_at = None if timeline is None else timeline.began_at
    values = {
        "slot": target.slot,
        "timeline": None if timeline is None else timeline.number,
        "began_at": None if began_at is None else lsn.show(began_at),
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


def keep_on_standbys(settings: Settings, state: SlotState | None) -> list[str]:
    """Let standbys keep a slot that they do not keep yet; return what to say. Raises SlotInUse."""
    if state is None or state.has_copies:
        return []
    if state.active_pid is not None:
        # The server would wait until nobody follows it, without a limit.
        raise SlotInUse(
            f"The slot {settings.slot} is in use by pid {state.active_pid}, and --failover cannot "
            "change it meanwhile",
            STOP_FIRST,
        )
    command = f'ALTER_REPLICATION_SLOT "{settings.slot}" (FAILOVER true)'
    replication_command(settings.source, command)
    return [f"standbys may keep a copy of the slot {settings.slot} from now on"]
