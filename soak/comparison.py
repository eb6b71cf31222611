"""Compares the change log with what an untouched slot delivers, one stretch after the other."""

from __future__ import annotations

from typing import Any

from soak.programs import SoakFailed
from soak.world import SHOP_TABLES
from testkit.second_opinion import OPTIONS, Delivered, delivered
from testkit.source import transaction
from waltally import lsn
from waltally.settings import DEFAULT_SLOT as SLOT

_TABLES = ["public.notifications", "public.notification_history"]
_TABLES += [rf"Web\ Shop.{name}" for name in SHOP_TABLES]


class Comparison:
    """Consumes the other slot, so that nothing is compared or held in memory twice."""

    def __init__(self, dsn: str, target: str) -> None:
        """Make the other slot. It must be made before the traffic begins."""
        self._dsn, self._target = dsn, target
        self._compared = "0/0"
        self.changes = 0
        _ask(dsn, "select pg_create_logical_replication_slot('other', 'wal2json')")

    def check(self) -> None:
        """Compare what both have since the last check. Raises SoakFailed where they differ.

        Meaningful once the source is quiet and the loader has staged everything. What a prune has
        taken since then, after a seed, only the models can show.
        """
        start = f"select start_lsn::text from cdc.slot_position where slot_name = '{SLOT}'"
        [(begin,)] = _ask(self._target, start)
        rows = _ask(
            self._dsn,
            f"select data from pg_logical_slot_get_changes('other', null, null, {OPTIONS},"
            f" 'add-tables', '{','.join(_TABLES)}')",
        )
        # A crash sets this slot back too: it delivers again what was compared before.
        compared = lsn.parse(self._compared)
        expected = [
            each
            for each in delivered(text for (text,) in rows)
            if (at := lsn.parse(each[0])) > compared and at >= lsn.parse(begin)
        ]
        staged: Delivered = _ask(
            self._target,
            # Qualified: a bare commit_lsn would be the text of the output, 0/FF after 0/100.
            "select commit_lsn::text, ordinal, payload from cdc.change_log as log"
            f" where slot_name = '{SLOT}' and commit_lsn > '{self._compared}'"
            " order by log.commit_lsn, ordinal",
        )
        if expected != staged:
            lost, made_up = {*expected} - {*staged}, {*staged} - {*expected}
            raise SoakFailed(
                f"the slot delivers {len(expected)} changes, the change log has {len(staged)}\n"
                f"lost {len(lost)}: {sorted(lost)[:5]}\nmade up {len(made_up)}:"
                f" {sorted(made_up)[:5]}"
            )
        self.changes += len(staged)
        if staged:
            self._compared = staged[-1][0]


def _ask(dsn: str, query: str) -> list[Any]:
    with transaction(dsn) as cursor:
        cursor.execute(query)
        return cursor.fetchall()
