"""Traffic on Notify's tables, and what the stream has of it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from testkit.databases import TABLES
from testkit.notify_traffic import NO_PURGES, Traffic
from tests.spark.support import Counts, Source
from waltally import lsn

DIMENSIONS = ("service_id", "template_id", "notification_type", "notification_status")


def writing(source: Source, sessions: int) -> Traffic:
    """Sessions that commit all kinds of change, and sometimes roll back, within a block."""
    return Traffic(source.dsn, sessions=sessions, rate=50, weights=NO_PURGES)


def changes_from(source: Source, position: int) -> Counts:
    """Signed counts of the stream's changes in transactions whose commit record is not before."""
    deltas: Counts = {table: Counter() for table in TABLES}
    commit = 0
    for (payload,) in source.execute(
        "select data from pg_logical_slot_peek_changes('truth', null, null, 'format-version', '2',"
        " 'include-lsn', '1', 'include-xids', '1', 'include-transaction', '1')"
    ):
        change = json.loads(payload)
        if change["action"] == "B":
            commit = lsn.parse(change["lsn"])
        table = f"{change.get('schema')}.{change.get('table')}"
        if table not in deltas or commit < position:
            continue
        for image, sign in (("columns", 1), ("identity", -1)):
            if image in change:
                deltas[table][dimensions(change[image])] += sign
    return deltas


def dimensions(image: list[dict[str, Any]]) -> tuple[Any, ...]:
    values = {column["name"]: column["value"] for column in image}
    return tuple(values[name] for name in DIMENSIONS)


def ends_as_a_recount(source: Source, position: int) -> None:
    """See that the baseline and the changes from its position on are what the tables hold."""
    baseline, recount = source.baseline(), source.recount()
    deltas = changes_from(source, position)
    assert any(deltas[table] for table in TABLES)
    for table in TABLES:
        total = Counter(baseline[table])
        total.update(deltas[table])
        assert {key: n for key, n in total.items() if n} == dict(recount[table])
