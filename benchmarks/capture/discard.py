"""Reading the slot as the loader does and throwing the changes away.

python -m benchmarks.capture.discard --source DSN --slot NAME --end LSN

Prints the seconds from the start of the stream to the end position.
"""

from __future__ import annotations

import argparse
import time

from loader.capture import handshake
from loader.capture.messages import Commit, Keepalive
from loader.capture.wal2json import decode
from waltally import lsn
from waltally.tables import Table

_SIZE = 128 * 1024
"""Bytes to take at once, as the loader does."""


def main() -> None:
    """Read until the position has passed, then print one number."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", required=True, help="libpq string of the source")
    parser.add_argument("--slot", required=True, help="name of the slot")
    parser.add_argument("--end", required=True, help="position to read up to")
    given = parser.parse_args()
    end = lsn.parse(given.end)
    tables = (Table("public", "notifications"), Table("public", "notification_history"))
    connection = handshake.connect_replication(given.source)
    handshake.start(connection, given.slot, 0, tables, None)
    began = time.monotonic()
    seen = 0
    while seen < end:
        arrived = connection.receive(_SIZE)
        if not arrived:
            connection.wait(1.0)
        for message in arrived:
            if isinstance(message, Keepalive):
                seen = max(seen, message.position)
            elif isinstance(message, bytes):
                decoded = decode(message)
                if isinstance(decoded, Commit):
                    seen = decoded.end_lsn
    print(time.monotonic() - began)
    connection.finish()


if __name__ == "__main__":
    main()
