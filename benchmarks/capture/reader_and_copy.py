"""Staging with psycopg2's own means: a thread that reads the slot, a thread that copies.

python -m benchmarks.capture.reader_and_copy --source DSN --target DSN --slot S --rows N [--as-log]

The rate that the loader should reach, without what makes the loader exact: the payloads alone go
into a table without a key, in one transaction, without a position; only the action's letter is
checked. With --as-log the rows and checks are the loader's and the table has the change log's key.
Prints one line of JSON once N changes are committed.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import closing
from queue import Queue
from typing import Any, cast

import psycopg2
from psycopg2.extras import LogicalReplicationConnection

from benchmarks.decoding import TABLES
from loader.capture.batches import COPY_HEADER, COPY_TRAILER, Batcher
from loader.capture.messages import Begin
from loader.capture.wal2json import options
from loader.staging.layout import COLUMNS

_ROW_START = struct.Struct(">hi").pack
_CHUNK = 64 * 1024
_WAITING = 128
"""Chunks between the threads: the loader's 8 MiB."""


class Chunks:
    """The queue as the file that COPY reads; an empty chunk ends it."""

    def __init__(self) -> None:
        self.queue: Queue[bytes] = Queue(_WAITING)

    def read(self, _size: int) -> bytes:
        """Return the next chunk, when there is one."""
        return self.queue.get()


Rows = Callable[[list[bytes]], list[bytes]]
"""Payloads as the pieces of rows of COPY's binary form."""


def alone(payloads: list[bytes]) -> list[bytes]:
    """Return rows of nothing but the payload."""
    return [piece for each in payloads for piece in (_ROW_START(1, len(each)), each)]


def as_log(slot: str) -> Rows:
    """Return what makes the loader's rows, as if all were of one transaction."""
    batcher = Batcher(slot, 0)
    batcher.accept(Begin(commit_lsn=1, end_lsn=2, xid=3, committed_at=0))

    def rows(payloads: list[bytes]) -> list[bytes]:
        pieces: list[bytes] = []
        batcher.move_changes(deque(payloads), pieces, sys.maxsize)
        return pieces

    return rows


def read(dsn: str, slot: str, count: int, make: Rows, chunks: Chunks) -> None:
    """Put so many changes of the slot into the queue, as rows of COPY's binary form."""
    with (
        closing(psycopg2.connect(dsn, connection_factory=LogicalReplicationConnection)) as source,
        source.cursor() as cursor,
    ):
        cursor.start_replication(
            slot_name=slot,
            decode=False,
            options=options(TABLES, None),
        )
        chunks.queue.put(COPY_HEADER)
        left, payloads, size = count, list[bytes](), 0
        while left:
            message = cursor.read_message()
            if message is None:
                time.sleep(0.001)
                continue
            payload = message.payload
            if payload[11:12] not in (b"I", b"U", b"D"):
                continue
            left -= 1
            payloads.append(payload)
            size += len(payload)
            if size >= _CHUNK:
                chunks.queue.put(b"".join(make(payloads)))
                payloads, size = [], 0
        chunks.queue.put(b"".join([*make(payloads), COPY_TRAILER]))
        chunks.queue.put(b"")


def main() -> None:
    """Stage the rows; raise what COPY raised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True, help="libpq string of the source")
    parser.add_argument("--target", required=True, help="libpq string of the target")
    parser.add_argument("--slot", required=True, help="name of the slot")
    parser.add_argument("--rows", type=int, required=True, help="changes to stage")
    parser.add_argument("--as-log", action="store_true", help="the loader's rows, under its key")
    given = parser.parse_args()
    chunks = Chunks()
    make = as_log(given.slot) if given.as_log else alone
    columns = ", ".join(COLUMNS) if given.as_log else "payload"
    table = "like cdc.change_log including all" if given.as_log else "payload text"
    reader = threading.Thread(
        target=read, args=(given.source, given.slot, given.rows, make, chunks), daemon=True
    )
    with closing(psycopg2.connect(given.target)) as target, target.cursor() as cursor:
        cursor.execute("drop table if exists reader_and_copy")
        cursor.execute(f"create table reader_and_copy ({table})")
        target.commit()
        began = time.monotonic()
        reader.start()
        # The driver only ever calls read; its types ask for readline too.
        copy = f"copy reader_and_copy ({columns}) from stdin (format binary)"
        cursor.copy_expert(copy, cast(Any, chunks))
        target.commit()
        seconds = time.monotonic() - began
        cursor.execute("select count(*) from reader_and_copy")
        ((found,),) = cursor.fetchall()
    if found != given.rows:
        raise SystemExit(f"{found} rows, not {given.rows}")
    print(json.dumps({"seconds_streaming": seconds}))


if __name__ == "__main__":
    main()
