"""Nobody waits behind a seed or an audit for more than seconds: it sees who does, and gives way."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from waltally.database import Connection
from waltally.errors import LoaderError
from waltally_jobs.common.connections import connect
from waltally_jobs.common.errors import BeginAgain, SnapshotBlocked
from waltally_jobs.common.progress import print_status

_LOOK_SECONDS = 0.5
_TRIES = 10

# Who waits for a table, or for the end of old snapshots as CREATE INDEX CONCURRENTLY does. A task's
# session that keeps others waiting is cancelled, and reads its range again. One that holds a
# snapshot for others ends.
_WAITING = """
with ours as materialized (
    select pid, pid = %(holder)s or application_name = %(held)s as is_holder from pg_stat_activity
    where application_name in (%(readers)s, %(held)s) or pid = %(holder)s
),

waiting as materialized (
    select distinct lock.pid, blocker.pid as for_pid
    from pg_locks as lock
    cross join unnest(pg_blocking_pids(lock.pid)) as blocker (pid)
    where
        not lock.granted
        and lock.locktype in ('relation', 'virtualxid')
        and lock.pid not in (select pid from ours)
)

select
    waiting.pid,
    activity.query,
    ours.is_holder,
    not ours.is_holder and pg_cancel_backend(waiting.for_pid)
from waiting
inner join ours on ours.pid = waiting.for_pid
left join pg_stat_activity as activity on activity.pid = waiting.pid
order by 1
"""

Result = TypeVar("Result")


class Watch:
    """Who holds the snapshots of a job, and why it has given them up; empty while it has not."""

    gave_up = ""

    def __init__(self, readers: str, holder: Connection) -> None:
        self.readers, self.holders = readers, [holder]

    @property
    def values(self) -> dict[str, object]:
        """What finds the job's sessions, by the application name of its tasks' own."""
        pid = self.holders[0].info.backend_pid
        return {"readers": self.readers, "held": f"{self.readers}_held", "holder": pid}

    def holds(self, session: Connection) -> None:
        """Watch another session too that holds a snapshot for others, perhaps elsewhere."""
        session.ask("select set_config('application_name', %(held)s, false)", self.values)
        self.holders.append(session)

    def give_up(self, why: str) -> None:
        """End the sessions that hold snapshots."""
        self.gave_up = why
        for session in self.holders:
            session.cut()


@contextlib.contextmanager
def watching(conninfo: str, readers: str, holder: Connection) -> Iterator[Watch]:
    """Within the block, cancel what others wait for; end the holders' sessions if it is one.

    `readers` is the application name of the tasks' sessions.
    """
    watch, ended = Watch(readers, holder), threading.Event()

    def look(session: Connection) -> None:
        told: set[int] = set()
        # To plan it costs the server five times what to run it does.
        session.ask(f"prepare waiting as {_WAITING}", watch.values)
        while not ended.wait(_LOOK_SECONDS):
            for pid, query, is_holder, _ in session.ask("execute waiting"):
                what = f"`{' '.join(query.split())[:100]}` of pid {pid}" if query else f"pid {pid}"
                if pid not in told:
                    told.add(pid)
                    print_status(f"{what} waited for this job, which gives way")
                if is_holder and not watch.gave_up:
                    watch.give_up(f"{what} waits until the snapshot is gone")

    def run() -> None:
        # Where the source has gone, the job notices by itself.
        with (
            contextlib.suppress(LoaderError),
            contextlib.closing(connect(conninfo, "source")) as session,
        ):
            look(session)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        ended.set()
        thread.join()


def until_done(work: str, attempt: Callable[[], Result]) -> Result:
    """Return what an attempt gives; begin again where it has to. Raises SnapshotBlocked."""
    for left in reversed(range(_TRIES)):
        try:
            return attempt()
        except BeginAgain as why:
            if not left:
                raise SnapshotBlocked(
                    f"{why}, and so it was at each of {_TRIES} tries",
                    f"run the {work} when its DDL is done",
                ) from None
            print_status(f"{why}: the {work} begins again")
    raise AssertionError
