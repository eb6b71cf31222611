"""Random changes of Notify's tables, and what the stream has of them."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from contextlib import suppress
from typing import Any

from tests.spark.support import MOVE, TABLES, Counts, Source
from waltally import lsn
from waltally.errors import LoaderError

DIMENSIONS = ("service_id", "template_id", "notification_type", "notification_status")

CHANGES = (
    'insert into notifications ("to", service_id, template_id, notification_type,'
    " notification_status) select 'x', service_id, id, 'sms', 'created' from templates"
    " order by random() limit 3",
    "update notifications set notification_status = 'moved' where id in"
    " (select id from notifications order by random() limit 4 for update skip locked)",
    "update notifications set notification_status = null where id in"
    " (select id from notifications order by random() limit 1 for update skip locked)",
    "delete from notifications where id in"
    " (select id from notifications order by random() limit 2 for update skip locked)",
    MOVE.format(
        "id in (select id from notifications order by random() limit 2 for update skip locked)"
    ),
)


class Writers:
    """Threads that commit, and sometimes roll back, until told to stop."""

    def __init__(self, source: Source, count: int) -> None:
        self._source = source
        self._stop = threading.Event()
        self._failed: list[Exception] = []
        self._threads = [threading.Thread(target=self._write, args=(n,)) for n in range(count)]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        assert not self._failed

    def _write(self, seed: int) -> None:
        choice = random.Random(seed)
        try:
            with self._source.session() as session:
                while not self._stop.wait(0.01):
                    with suppress(_RolledBack), session.transaction():
                        for change in choice.choices(CHANGES, k=choice.randint(1, 3)):
                            session.ask(change)
                        if choice.random() < 0.1:
                            raise _RolledBack
        except LoaderError as error:
            self._failed.append(error)


class _RolledBack(Exception):
    """Ends a transaction without its changes."""


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
                key = dimensions(change[image])
                deltas[table][key] += sign if None not in key else 0
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
