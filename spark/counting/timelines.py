"""Whether the server that is read is on the timeline that the loader follows.

A former primary and its standbys have the same system identifier, and may have rows that the
loader's server never had.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from common.connections import Connection, resolved

from counting.snapshot import connect_replication
from loader.source.slot import Timeline, read_timeline
from loader.staging.records import SlotPosition
from waltally import lsn
from waltally.errors import SourceBehind


def check(reader: Connection, slot: SlotPosition, is_standby: bool) -> None:
    """Raise SourceBehind unless all that the server shows now is of the loader's timeline.

    Nothing is known before a loader has followed the slot. Raises NoFreeSlot, MissingRight and
    CannotConnect where the server takes no replication connection.
    """
    if slot.timeline is None:
        return
    here = _of_server(reader)
    if here.shared_with(slot.timeline, slot.timeline_began_lsn) is None:
        return
    ours = _described(slot.timeline, slot.timeline_began_lsn)
    found = f"is on {_described(here.number, here.began_at)}, and the loader follows {ours}"
    if is_standby:
        raise SourceBehind(
            f"the standby {found}: it follows a former primary, or has not replayed a promotion",
            "name a standby of the present primary in --standby; if this is one, run the seed again"
            " once it has replayed the promotion",
        )
    raise SourceBehind(
        f"the source {found}: the source is a former primary, or was promoted since",
        "name the present primary in LOADER_SOURCE_DSN and start `loader run`: it says whether"
        " the log goes on",
    )


def _of_server(reader: Connection) -> Timeline:
    replication = connect_replication(resolved(reader))
    with contextlib.closing(replication), replication.cursor() as cursor:

        def ask(command: str) -> Sequence[object]:
            cursor.execute(command)
            row = cursor.fetchone()
            assert row is not None
            return row

        return read_timeline(int(str(ask("IDENTIFY_SYSTEM")[1])), ask)


def _described(number: int, began_at: int | None) -> str:
    since = "" if began_at is None else f" since {lsn.show(began_at)}"
    return f"timeline {number}{since}"
