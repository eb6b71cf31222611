"""One session of an application that inserts and updates notifications at a fixed rate."""

from __future__ import annotations

import time
from contextlib import closing
from typing import NamedTuple

import psycopg2

from benchmarks.workload import TEXT_LENGTH

_ID = "lpad(to_hex(n), 32, '0')::uuid"

_PREPARE = f"""
set session_replication_role to replica;
create temp table places as
select row_number() over (order by id) - 1 as place, id, service_id, template_type
from public.templates;
analyze places;
prepare add (bigint, bigint) as
insert into notifications (
    id, "to", service_id, template_id, notification_type, notification_status, created_at,
    personalisation
)
select
    {_ID}, 'someone@example.com', places.service_id, places.id, places.template_type,
    'created', now(), repeat('x', {TEXT_LENGTH})
from generate_series($1, $2) as n
inner join places on places.place = mod(n, (select count(*) from places));
prepare move (bigint, bigint) as
update notifications set notification_status = 'delivered', updated_at = now()
where id = any (array(select {_ID} from generate_series($1, $2) as n));
"""


class Committed(NamedTuple):
    """One transaction of the writer."""

    at: float
    """When its commit returned, on this machine's clock."""
    total: int
    """Rows inserted up to and including it: the sum of the live counts once it is visible."""


class PacedWriter:
    """Writes transactions, one after the other, so that commits have an order.

    Half of a transaction's changes (rounded up) insert one row each; the others give the newest
    rows before them another status. A commit returns once it is on disk.
    """

    def __init__(self, dsn: str) -> None:
        """Connect; the source has templates and no notifications yet."""
        self._connection = psycopg2.connect(dsn)
        self._connection.autocommit = True
        self._cursor = self._connection.cursor()
        self._cursor.execute(_PREPARE)
        self.inserted = 0
        self.changes = 0
        self.committed: list[Committed] = []
        """Every transaction so far, in order."""

    def __enter__(self) -> PacedWriter:
        return self

    def __exit__(self, *_: object) -> None:
        with closing(self._connection):
            self._cursor.close()

    def write(self, changes: int) -> None:
        """Write one transaction."""
        moved = min(changes // 2, self.inserted)
        first = self.inserted
        last = first + changes - moved - 1
        query = f"execute add ({first}, {last})"
        if moved:
            # Both in one message, so that no round trip for a BEGIN is needed.
            query += f"; execute move ({first - moved}, {first - 1})"
        self._cursor.execute(query)
        at = time.time()
        self.inserted = last + 1
        self.changes += changes
        self.committed.append(Committed(at, self.inserted))

    def write_at_rate(self, rate: float, seconds: float, each: int) -> float:
        """Write transactions of `each` changes for so long; return the changes per second reached.

        After a late transaction the next follows at once, until the rate is reached again.
        """
        count = round(rate * seconds / each)
        began = time.monotonic()
        for number in range(count):
            pause = began + number * each / rate - time.monotonic()
            if pause > 0:
                time.sleep(pause)
            elif -pause > seconds:
                # Twice the time is over: the rate is out of reach.
                count = number
                break
            self.write(each)
        return count * each / max(time.monotonic() - began, count * each / rate)
