from __future__ import annotations

import json
import random
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet
from adbc_driver_postgresql import dbapi

from tests.spark.support import TABLES, Counts, Source
from waltally import lsn

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
    "with gone as (delete from notifications where id in (select id from notifications"
    " order by random() limit 2 for update skip locked) returning *)"
    " insert into notification_history (id, service_id, template_id, notification_type,"
    " notification_status, created_at) select id, service_id, template_id, notification_type,"
    " notification_status, created_at from gone",
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
            with self._source.connect() as connection:
                while not self._stop.wait(0.01):
                    with connection.transaction(force_rollback=choice.random() < 0.1):
                        for change in choice.choices(CHANGES, k=choice.randint(1, 3)):
                            connection.execute(change)
        except psycopg.Error as error:
            self._failed.append(error)


def changes_from(source: Source, position: int) -> Counts:
    """Signed counts of the stream's changes in transactions whose commit record is not before."""
    deltas: Counts = {table: Counter() for table in TABLES}
    commit = 0
    for (payload,) in source.ask(
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


def test_seed_amid_writers_plus_the_stream_from_its_position_is_a_recount(source: Source) -> None:
    source.ask("select pg_create_logical_replication_slot('truth', 'wal2json')")
    source.fill(rows=400)
    with Writers(source, 3):
        code, out, err = source.submit("--json", "--partitions", "7")
    assert code == 0, err
    summary = json.loads(out)
    position = lsn.parse(summary["snapshot_lsn"])

    baseline, recount = source.baseline(), source.recount()
    deltas = changes_from(source, position)
    assert any(deltas[table] for table in TABLES)
    for table in TABLES:
        total = Counter(baseline[table])
        total.update(deltas[table])
        assert {key: n for key, n in total.items() if n} == dict(recount[table])
    fact = summary["facts"]["ft_service_stats"]
    assert fact["rows"] == sum(sum(counts.values()) for counts in baseline.values())
    assert source.ask("select baseline_id::text, snapshot_lsn::text from cdc.baseline") == [
        (summary["baseline_id"], summary["snapshot_lsn"])
    ]
    assert source.ask(
        "select slot_name from pg_replication_slots where database = %s", source.name
    ) == [("truth",)]
    assert not source.incoming_tables()


def test_parquet_export_gives_the_database_counts_and_replaces_the_seed(
    source: Source, tmp_path: Path
) -> None:
    source.fill()
    source.previous_seed()
    (tmp_path / "notification_history").mkdir()
    names = ("public.notifications.parquet", "notification_history/0.parquet")
    with dbapi.connect(source.dsn) as connection, connection.cursor() as cursor:
        for table, name in zip(TABLES, names, strict=True):
            # Binary ids and upper-case ids, as exports have them.
            ids = "uuid_send(service_id)" if table == TABLES[0] else "upper(service_id::text)"
            cursor.execute(
                f"select {ids} as service_id, template_id::text as template_id,"
                f" notification_type::text as notification_type, notification_status from {table}"
            )
            pyarrow.parquet.write_table(cursor.fetch_arrow_table(), tmp_path / name)
    [(position,)] = source.ask("select pg_current_wal_insert_lsn()::text")
    code, out, err = source.seed("--parquet", str(tmp_path), "--snapshot-lsn", position)
    assert code == 0, err
    assert f"counted at {position}" in out
    assert source.baseline() == source.recount()
    assert sum(source.baseline()[TABLES[0]].values()) > 0
