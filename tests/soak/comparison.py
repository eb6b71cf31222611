"""The change log held against an untouched second slot, stretch by stretch."""

from __future__ import annotations

import json
from typing import Any

import psycopg2

from tests.soak.failure import SoakFailed
from tests.support.second_opinion import Delivered
from waltally import lsn

_OPTIONS = (
    "'format-version', '2', 'include-lsn', 'true', 'include-xids', 'true', "
    "'include-timestamp', 'true', 'include-types', 'false', "
    "'add-tables', 'public.notifications,public.notification_history'"
)
_SHOWN = 5


class Comparison:
    """Consumes the second slot; what was compared once is not held in memory any longer."""

    def __init__(self, dsn: str, slot: str, target: str, schema: str = "cdc") -> None:
        """Make the second slot. It must be made before the traffic begins."""
        self._dsn, self._slot = dsn, slot
        self._target, self._schema = target, schema
        self._other = f"{slot}_other"
        self._compared = "0/0"
        self.changes = 0
        self._ask("select pg_create_logical_replication_slot(%s, 'wal2json')", self._other)

    def check(self) -> None:
        """Compare what both have since the last check. Raises SoakFailed where they differ.

        Meaningful once the source is quiet and the loader has stored everything.
        """
        delivered = self._delivered()
        stored: Delivered = self._ask(
            # Qualified: a bare commit_lsn would be the text of the output, 0/FF after 0/100.
            f"select commit_lsn::text, ordinal, payload from {self._schema}.change_log as log "
            "where slot_name = %s and commit_lsn > %s order by log.commit_lsn, ordinal",
            self._slot,
            self._compared,
            dsn=self._target,
        )
        if delivered != stored:
            raise SoakFailed(_difference(delivered, stored))
        self.changes += len(stored)
        if stored:
            self._compared = stored[-1][0]

    def skip(self) -> None:
        """Pass over what the slot has: the log has begun anew beyond it."""
        delivered = self._delivered()
        if delivered:
            self._compared = delivered[-1][0]

    def _delivered(self) -> Delivered:
        rows: list[tuple[str]] = self._ask(
            f"select data from pg_logical_slot_get_changes(%s, null, null, {_OPTIONS})", self._other
        )
        found: Delivered = []
        commit, ordinal = "", 0
        for (text,) in rows:
            payload = json.loads(text)
            if payload["action"] == "B":
                commit, ordinal = payload["lsn"], 0
            elif payload["action"] not in "CM":
                ordinal += 1
                # A crash sets this slot back too: it delivers again what was compared before.
                if lsn.parse(commit) > lsn.parse(self._compared):
                    found.append((commit, ordinal, text))
        return found

    def _ask(self, query: str, *arguments: object, dsn: str = "") -> list[Any]:
        connection = psycopg2.connect(dsn or self._dsn)
        connection.autocommit = True
        try:
            with connection.cursor() as cursor:
                cursor.execute(query, arguments)
                return cursor.fetchall()
        finally:
            connection.close()


def _difference(delivered: Delivered, stored: Delivered) -> str:
    lines = [f"the slot delivers {len(delivered)} changes, the change log has {len(stored)}"]
    for what, rows, others in (("lost", delivered, stored), ("made up", stored, delivered)):
        known = set(others)
        only = [row for row in rows if row not in known]
        lines.append(f"{what}: {len(only)}")
        lines += [
            f"  {commit} {ordinal} {payload[:200]}" for commit, ordinal, payload in only[:_SHOWN]
        ]
    for mine, theirs in zip(stored, delivered, strict=False):
        if mine != theirs:
            lines.append(f"they part at {mine[:2]}, where the slot has {theirs[:2]}")
            break
    return "\n".join(lines)
