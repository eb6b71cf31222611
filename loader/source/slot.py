"""Records of a slot and its server, and why a slot cannot be followed from the record. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from loader.source.remedies import RELOAD, RESTART_PRIMARY
from loader.staging.records import SlotPosition
from waltally import lsn
from waltally.errors import (
    AnotherCluster,
    Interrupted,
    IsStandby,
    LoaderError,
    SlotLost,
    SlotMoved,
    SourceBehind,
)

_REASONS = {
    "wal_removed": ("the WAL that it needed was removed (max_slot_wal_keep_size)", ""),
    "rows_removed": (
        "rows of the catalog that it needed were removed by vacuum on the primary (rows_removed)",
        "on the standby: alter system set hot_standby_feedback = on; and see that "
        "primary_slot_name names a slot of the primary; then ",
    ),
    "wal_level_insufficient": (
        "the primary ran with a wal_level below logical (wal_level_insufficient)",
        f"on the primary: alter system set wal_level = 'logical'; {RESTART_PRIMARY}; then ",
    ),
    "idle_timeout": (
        "nobody followed it for longer than idle_replication_slot_timeout (idle_timeout)",
        f"alter system set idle_replication_slot_timeout = 0; {RELOAD} -- on the source; then ",
    ),
    "conflict": (
        "it conflicted with what the standby replayed (conflicting)",
        "on the standby: alter system set hot_standby_feedback = on; on the primary: wal_level = "
        "logical; then ",
    ),
}
"""By the server's reason for giving a slot up: a sentence, and the steps before a new slot."""

_THEN_SEED = ", then `spark-submit spark/seed.py`, then `dbt build`"
RENEW = f"`loader setup --renew`{_THEN_SEED}"


@dataclass(frozen=True)
class Server:
    """The source's cluster, database and position, and whether it is a standby."""

    system_identifier: str
    database: str
    wal_end: int
    """On a standby, the end of what it has replayed or received."""
    in_recovery: bool = False
    timeline: Timeline | None = None
    """None on a standby, where only a replication connection tells it."""

    @property
    def known_timeline(self) -> Timeline:
        """The timeline, where a replication connection was asked, which always knows it."""
        assert self.timeline is not None
        return self.timeline


@dataclass(frozen=True)
class SlotState:
    """A row of pg_replication_slots; a column that an older server lacks is None or False."""

    plugin: str | None
    database: str | None
    active_pid: int | None
    wal_status: str | None
    confirmed_flush_lsn: int | None
    restart_lsn: int | None
    safe_wal_size: int | None
    invalidation_reason: str | None = None
    """The server's word for why the slot is lost; on 16 `conflict` for all but missing WAL."""
    inactive_seconds: float | None = None
    """How long nobody has followed it; None while somebody does."""
    idle_timeout_seconds: float | None = None
    """The server's idle_replication_slot_timeout; 0 for none."""
    is_failover: bool = False
    """Whether standbys may keep a copy of it."""
    is_temporary: bool = False
    is_copy: bool = False
    """Whether it is a standby's copy, which nobody can follow before a promotion."""

    def wal_held(self, wal_end: int) -> int | None:
        """Return how many bytes of WAL the server keeps for it; None where it keeps none."""
        return None if self.restart_lsn is None else max(0, wal_end - self.restart_lsn)


def why_not_followable(
    name: str, server: Server, slot: SlotState | None, record: SlotPosition
) -> LoaderError | None:
    """Return why the slot cannot be followed from the record, None where it can.

    The server sends only changes from the slot's confirmed position on. Where that is beyond the
    record, the changes between the two are lost.
    """
    safe = _stored(record)
    cluster = (record.system_identifier, record.source_database)
    if (server.system_identifier, server.database) != cluster:
        return AnotherCluster(
            f"The source is database {server.database} of cluster {server.system_identifier}, but "
            f"the change log is of {record.source_database} of {record.system_identifier}",
            "name the right source; if the cluster was replaced for good: "
            f"`loader setup --renew --source-is-gone`{_THEN_SEED}",
            safe,
        )
    if server.in_recovery and (slot is None or slot.is_copy):
        return standby_finding(name, slot, safe)
    if slot is None:
        return SlotLost(
            f"The slot {name} no longer exists",
            RENEW,
            f"{safe}, what came after it may be lost",
        )
    if slot.plugin != "wal2json" or slot.database != record.source_database:
        return SlotMoved(
            f"The slot {name} is now of plugin {slot.plugin} in database {slot.database}: "
            "somebody made it again",
            f"if nobody needs it: `psql -c \"select pg_drop_replication_slot('{name}')\"` at the "
            f"source, then {RENEW}",
            safe,
        )
    if slot.wal_status == "lost" or slot.confirmed_flush_lsn is None:
        # Older servers give no reason: they give up a slot only because of its WAL.
        reason = slot.invalidation_reason or "wal_removed"
        what, remedy = _REASONS.get(reason, (f"the server says {reason}", ""))
        return SlotLost(
            f"The server has given up the slot {name}: {what}",
            f"{remedy}{RENEW}",
            f"{safe}, what came after it is lost",
        )
    if slot.confirmed_flush_lsn > record.position_lsn:
        return SlotMoved(
            f"The slot {name} is at {lsn.show(slot.confirmed_flush_lsn)}, beyond the position of "
            "record: it was moved or made again, or the target was restored",
            RENEW,
            f"{safe}, changes between are lost",
        )
    return lost_commits(server, record)


def another_name(name: str, database: str) -> str:
    """Return another name for a slot; slots of all databases of a server share their names."""
    plain = re.sub(r"[^a-z0-9_]", "_", database.lower())
    return f"{name[:31]}_{plain[:31]}"


def standby_finding(name: str, slot: SlotState | None, safe: str = "") -> IsStandby:
    """Return the error for a standby that lacks the slot, or has only a copy of it."""
    if slot is None:
        return IsStandby(
            f"The source is a standby that does not have the slot {name}",
            "name the primary in LOADER_SOURCE_DSN; after a failover, run again once it is "
            f"promoted; to decode on this standby from now on: {RENEW}",
            safe,
        )
    return IsStandby(
        f"The source is a standby, and its slot {name} is a copy of the primary's",
        "name the primary in LOADER_SOURCE_DSN; after a failover, run again once it is promoted: "
        "the copy then goes on",
        safe,
    )


def _stored(record: SlotPosition) -> str:
    return f"everything before {lsn.show(record.position_lsn)} is stored"


def lost_commits(server: Server, record: SlotPosition) -> LoaderError | None:
    """Return why the log or a baseline may hold commits that the source does not have."""
    safe = _stored(record)
    also = f"{safe}, also changes that the source no longer has"
    reached, what = record.position_lsn, "the position of record"
    if (record.baseline_lsn or 0) > reached:
        reached, what = record.baseline_lsn or 0, "the newest baseline"
    shared = None
    if server.timeline is not None and record.timeline is not None:
        shared = server.timeline.shared_with(record.timeline, record.timeline_began_lsn)
    if shared == 0:
        return SourceBehind(
            f"The source's WAL does not continue timeline {record.timeline}, which was followed: "
            "it is a former primary, or was restored",
            f"name the present primary in LOADER_SOURCE_DSN; if this is it: {RENEW}",
            also,
        )
    if shared is not None and shared < reached:
        return SourceBehind(
            f"The source was promoted or restored at {lsn.show(shared)}, before {what} "
            f"{lsn.show(reached)}: commits between are lost",
            RENEW,
            also,
        )
    if server.wal_end >= record.position_lsn:
        return None
    if server.in_recovery:
        return Interrupted(
            f"The standby has replayed up to {lsn.show(server.wal_end)}, the position of record is "
            f"{lsn.show(record.position_lsn)}",
            "nothing, if the standby still replays; the loader waits for it",
            safe,
        )
    return SourceBehind(
        f"The source's WAL ends at {lsn.show(server.wal_end)}, before the position of record "
        f"{lsn.show(record.position_lsn)}: it was restored or failed over with loss",
        RENEW,
        also,
    )


@dataclass(frozen=True)
class Timeline:
    """A server's timeline, and the positions where it left the former ones."""

    number: int
    left_at: Mapping[int, int] = field(default_factory=dict)
    """Empty for the first timeline, and where the history was not read."""

    @property
    def began_at(self) -> int | None:
        """Where it left the former timeline; None for the first one or without a history."""
        return self._began_at(self.number)

    def shared_with(self, number: int, began_at: int | None) -> int | None:
        """Return the position up to which this server has the WAL of timeline `number`.

        None means all of it: the server is on that timeline. 0 means that it never was. `began_at`
        is where that timeline left the former one: where two standbys of a server are promoted,
        both begin a timeline of the same number.
        """
        if number != self.number and number not in self.left_at:
            return 0
        here = self._began_at(number)
        if began_at is not None and here is not None and here != began_at:
            return min(here, began_at)
        return None if number == self.number else self.left_at[number]

    def _began_at(self, number: int) -> int | None:
        former = [earlier for earlier in self.left_at if earlier < number]
        return self.left_at[max(former)] if former else None


def read_timeline(number: int, ask: Callable[[str], Sequence[object]]) -> Timeline:
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


@dataclass(frozen=True)
class SlotInfo:
    """A slot, its record and its server; no record where the slot is not set up."""

    name: str
    state: SlotState | None
    record: SlotPosition | None
    server: Server

    @property
    def is_copy_of_primary(self) -> bool:
        """Whether the server is a standby that lacks the slot, or has only a copy of it."""
        is_elsewhere = self.state is None or self.state.is_copy
        return self.server.in_recovery and self.record is not None and is_elsewhere

    @property
    def is_of_another_source(self) -> bool:
        """Whether the record is of another cluster or database, where its slot is too."""
        here = (self.server.system_identifier, self.server.database)
        record = self.record
        return record is not None and (record.system_identifier, record.source_database) != here

    @property
    def is_left_elsewhere(self) -> bool:
        """Whether another server has the record's slot: of another source, a standby, a primary."""
        if self.record is None or self.is_of_another_source:
            return self.is_of_another_source
        is_here = self.state is not None and not self.state.is_copy
        return not is_here and self.record.on_standby != self.server.in_recovery

    @property
    def finding(self) -> LoaderError | None:
        """Why the slot cannot be followed from the record; None where it can, or there is none."""
        if self.record is None:
            return None
        return why_not_followable(self.name, self.server, self.state, self.record)
