"""Counting by SQL: poll the slot, parse in Python, upsert, advance the slot.

python -m benchmarks.capture.sql_polling --source DSN --target DSN --slot NAME --prepare
python -m benchmarks.capture.sql_polling --source DSN --target DSN --slot NAME --rows N

A contender of the capture benchmark that ends where loader and dbt end: at the fact. A poll takes
an advisory lock, reads up to 10,000 rows of pg_logical_slot_peek_changes (wal2json format 1,
pretty-printed, the two tables), parses them with json.loads, counts by seven dimensions, rolls the
counts up to four, upserts each group, commits, and calls pg_replication_slot_advance. It ends when
N changes are counted and prints one line of JSON. A periodic task in an application does the same
with an object mapper, a task queue and a pause on top; they are left out, in its favour.

In format 1 a row is a whole transaction, so one poll reads 10,000 transactions of any size.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import psycopg2
from psycopg2.extensions import connection as Connection

TABLES = "public.notifications,public.notification_history"
TARGET = "sql_polling_stats"
AT_MOST = 10_000
"""Rows per poll."""
LOCK = 4855
LONDON = ZoneInfo("Europe/London")

Row = Mapping[str, object]
Dimensions = tuple[date, UUID, UUID, UUID | None, str, str, str]
"""Day, template, service, job, type, key type, status."""
Counted = tuple[UUID, UUID, str, str]
"""Service, template, type, status: a row of the fact."""

_TABLE = f"""
create table if not exists {TARGET} (
    id uuid primary key,
    service_id uuid not null,
    template_id uuid not null,
    notification_type text not null,
    notification_status text not null,
    count integer not null default 0,
    constraint uix_{TARGET} unique (
        service_id, template_id, notification_type, notification_status
    )
);
create index if not exists ix_{TARGET}_service
    on {TARGET} (service_id, notification_type, notification_status);
create index if not exists ix_{TARGET}_template
    on {TARGET} (template_id, notification_type, notification_status);
create index if not exists ix_{TARGET}_pair on {TARGET} (service_id, template_id);
"""

_PEEK = """
select data from pg_logical_slot_peek_changes(
    %(slot)s, null, %(upto)s,
    'pretty-print', 'on', 'add-tables', %(tables)s, 'include-lsn', 'on', 'format-version', '1',
    'include-types', 'off', 'include-typmod', 'off'
)
"""

_ADD = f"""
insert into {TARGET} as fact (
    id, service_id, template_id, notification_type, notification_status, count
)
values (%s, %s, %s, %s, %s, %s)
on conflict on constraint uix_{TARGET} do update set count = fact.count + excluded.count
"""

_TAKE = f"""
update {TARGET} set count = greatest(count + %s, 0)
where service_id = %s and template_id = %s
    and notification_type = %s and notification_status = %s
"""


def images(change: Mapping[str, Any]) -> Iterator[tuple[int, Row, Row]]:
    """Yield sign, row and the row to look in for what the first lacks, for each image counted."""
    new = _zipped(change, "columnnames", "columnvalues")
    old = _zipped(change.get("oldkeys", {}), "keynames", "keyvalues")
    if change["kind"] in ("insert", "update"):
        yield 1, new, old
    if change["kind"] == "update" or (
        change["kind"] == "delete" and change["table"] == "notifications"
    ):
        yield -1, old, new


def dimensions(row: Row, other: Row) -> Dimensions | None:
    """Return what an image is counted by, None where a dimension is in neither row."""

    def text(name: str) -> str | None:
        value = row.get(name)
        if not isinstance(value, str):
            value = other.get(name)
        return value if isinstance(value, str) else None

    created, template, service = text("created_at"), text("template_id"), text("service_id")
    kind, key_type, status = (
        text("notification_type"),
        text("key_type"),
        text("notification_status"),
    )
    if not (created and template and service and kind and key_type and status):
        return None
    job = text("job_id")
    day = datetime.fromisoformat(created).replace(tzinfo=UTC).astimezone(LONDON).date()
    return day, UUID(template), UUID(service), UUID(job) if job else None, kind, key_type, status


def apply(target: Connection, counts: Mapping[Counted, int]) -> None:
    """Add the signed counts to the fact, a statement each, and commit; none falls below zero."""
    with target, target.cursor() as cursor:
        for (service, template, kind, status), delta in counts.items():
            key = (str(service), str(template), kind, status)
            if delta > 0:
                cursor.execute(_ADD, (str(uuid4()), *key, delta))
            elif delta < 0:
                cursor.execute(_TAKE, (delta, *key))


def poll(source: Connection, target: Connection, slot: str) -> int:
    """Count what the slot shows, up to that many transactions; return the number of changes."""
    with source.cursor() as cursor:
        cursor.execute("select pg_try_advisory_lock(%s)", (LOCK,))
        if cursor.fetchone() != (True,):
            raise RuntimeError("another process counts this slot")
        try:
            cursor.execute(_PEEK, {"slot": slot, "upto": AT_MOST, "tables": TABLES})
            changes, full, position = 0, Counter[Dimensions](), None
            for (payload,) in cursor.fetchall():
                transaction = json.loads(payload)
                position = transaction["nextlsn"]
                for change in transaction["change"]:
                    changes += 1
                    for sign, row, other in images(change):
                        key = dimensions(row, other)
                        if key is not None:
                            full[key] += sign
            rolled = Counter[Counted]()
            for (_, template, service, _, kind, _, status), delta in full.items():
                rolled[service, template, kind, status] += delta
            apply(target, rolled)
            if position is not None:
                cursor.execute("select pg_replication_slot_advance(%s, %s)", (slot, position))
        finally:
            cursor.execute("select pg_advisory_unlock(%s)", (LOCK,))
    return changes


def follow(source: Connection, target: Connection, slot: str, rows: int) -> dict[str, float]:
    """Poll until that many changes are counted and return what it took."""
    counted = polls = 0
    began, cpu_before = time.monotonic(), time.process_time()
    while counted < rows:
        found = poll(source, target, slot)
        counted, polls = counted + found, polls + 1
        if not found:
            time.sleep(1.0)
    return {
        "rows": counted,
        "polls": polls,
        "seconds_streaming": round(time.monotonic() - began, 3),
        "cpu_streaming": round(time.process_time() - cpu_before, 3),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _zipped(holder: Mapping[str, Any], names: str, values: str) -> Row:
    return dict(zip(holder.get(names, ()), holder.get(values, ()), strict=True))


def main() -> None:
    """Prepare a slot, or count from it into the target and print the cost as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--source", required=True, help="libpq string of the source")
    parser.add_argument("--target", help="libpq string of the target (default: the source)")
    parser.add_argument("--slot", required=True, help="name of the wal2json slot")
    parser.add_argument("--prepare", action="store_true", help="make the slot, end")
    parser.add_argument("--rows", type=int, help="changes to wait for")
    given = parser.parse_args()
    with (
        closing(psycopg2.connect(given.source)) as source,
        closing(psycopg2.connect(given.target or given.source)) as target,
    ):
        source.autocommit = True  # an advance is not undone by a rollback, so it needs none
        if given.prepare:
            with source.cursor() as cursor:
                cursor.execute(
                    "select pg_create_logical_replication_slot(%s, 'wal2json')", (given.slot,)
                )
            return
        if given.rows is None:
            parser.error("--rows is needed")
        with target, target.cursor() as cursor:
            cursor.execute(_TABLE)
        cost = follow(source, target, given.slot, given.rows)
    print(json.dumps(cost))


if __name__ == "__main__":
    main()
