from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet
from adbc_driver_postgresql import dbapi

from tests.spark.support import TABLES, Source
from tests.spark.traffic import Writers, ends_as_a_recount
from waltally import lsn


def test_seed_amid_writers_plus_the_stream_from_its_position_is_a_recount(source: Source) -> None:
    source.ask("select pg_create_logical_replication_slot('truth', 'wal2json')")
    source.fill(rows=400)
    with Writers(source, 3):
        code, out, err = source.submit("--json", "--partitions", "7")
    assert code == 0, err
    summary = json.loads(out)
    ends_as_a_recount(source, lsn.parse(summary["snapshot_lsn"]))
    baseline = source.baseline()
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
