from __future__ import annotations

import json

from tests.spark.support import Source
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
