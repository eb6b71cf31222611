"""What an untouched second slot delivers, to hold against the change log."""

from __future__ import annotations

import json
from collections.abc import Iterable

from testkit.databases import Database

Delivered = list[tuple[str, int, str]]
"""Commit LSN, ordinal and payload of each change, in order."""

OPTIONS = (
    "'format-version', '2', 'include-lsn', 'true', 'include-xids', 'true', "
    "'include-timestamp', 'true', 'include-types', 'false'"
)
_TABLES = "'add-tables', 'public.notifications,public.notification_history'"


def other_slot(database: Database) -> str:
    """Make a slot that nobody follows, and return its name."""
    name = f"other_{database.name}"
    database.execute("select pg_create_logical_replication_slot(%s, 'wal2json')", name)
    return name


def second_opinion(database: Database, slot: str) -> Delivered:
    """Return every change that the slot delivers, without consuming it."""
    rows = database.execute(
        f"select data from pg_logical_slot_peek_changes(%s, null, null, {OPTIONS}, {_TABLES})", slot
    )
    return delivered(text for (text,) in rows)


def delivered(payloads: Iterable[str]) -> Delivered:
    """Return the changes in what the slot delivers, each with its place."""
    found, commit, ordinal = [], "", 0
    for text in payloads:
        payload = json.loads(text)
        if payload["action"] == "B":
            commit, ordinal = payload["lsn"], 0
        elif payload["action"] not in "CM":
            ordinal += 1
            found.append((commit, ordinal, text))
    return found


def change_log(database: Database) -> Delivered:
    """Return what the loader has stored."""
    return database.execute(
        "select log.commit_lsn::text, log.ordinal, log.payload from cdc.change_log as log "
        "order by log.commit_lsn, log.ordinal"
    )
