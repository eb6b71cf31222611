"""Compares the change log with what an untouched slot delivers, one stretch after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from soak.programs import SoakFailed
from testkit.second_opinion import OPTIONS, Delivered, delivered
from testkit.source import transaction
from waltally import lsn

_SHOWN = 5


class Comparison:
    """Consumes the other slot, so that nothing is compared or held in memory twice."""

    def __init__(self, dsn: str, slot: str, target: str, tables: Sequence[str]) -> None:
        """Make the other slot. It must be made before the traffic begins.

        The tables are named as wal2json wants them.
        """
        self._dsn, self._slot = dsn, slot
        self._target = target
        self._other = f"{slot}_other"
        self._tables = ",".join(tables)
        self._compared = "0/0"
        self.changes = 0
        _ask(dsn, "select pg_create_logical_replication_slot(%s, 'wal2json')", self._other)

    def check(self) -> None:
        """Compare what both have since the last check. Raises SoakFailed where they differ.

        Meaningful once the source is quiet and the loader has staged everything. What a prune has
        taken since then, after a seed, only the models can show.
        """
        [(start,)] = _ask(
            self._target,
            "select start_lsn::text from cdc.slot_position where slot_name = %s",
            self._slot,
        )
        begin = lsn.parse(start)
        expected = [each for each in self._delivered() if lsn.parse(each[0]) >= begin]
        staged: Delivered = _ask(
            self._target,
            # Qualified: a bare commit_lsn would be the text of the output, 0/FF after 0/100.
            "select commit_lsn::text, ordinal, payload from cdc.change_log as log "
            "where slot_name = %s and commit_lsn > %s order by log.commit_lsn, ordinal",
            self._slot,
            self._compared,
        )
        if expected != staged:
            raise SoakFailed(_difference(expected, staged))
        self.changes += len(staged)
        if staged:
            self._compared = staged[-1][0]

    def _delivered(self) -> Delivered:
        rows = _ask(
            self._dsn,
            "select data from pg_logical_slot_get_changes"
            f"(%s, null, null, {OPTIONS}, 'add-tables', %s)",
            self._other,
            self._tables,
        )
        # A crash sets this slot back too: it delivers again what was compared before.
        compared = lsn.parse(self._compared)
        return [
            each for each in delivered(text for (text,) in rows) if lsn.parse(each[0]) > compared
        ]


def _ask(dsn: str, query: str, *arguments: object) -> list[Any]:
    with transaction(dsn) as cursor:
        cursor.execute(query, arguments)
        return cursor.fetchall()


def _difference(expected: Delivered, staged: Delivered) -> str:
    lines = [f"the slot delivers {len(expected)} changes, the change log has {len(staged)}"]
    for what, rows, others in (("lost", expected, staged), ("made up", staged, expected)):
        only = sorted(set(rows) - set(others))
        lines += [f"{what}: {len(only)}", *(f"  {str(each)[:250]}" for each in only[:_SHOWN])]
    unequal = (pair for pair in zip(staged, expected, strict=False) if pair[0] != pair[1])
    lines += [f"first difference: {one[:2]}, not {other[:2]}" for one, other in unequal][:1]
    return "\n".join(lines)
