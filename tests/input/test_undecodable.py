"""A byte that is no character of the target: its change is kept and listed, the rest counts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testkit.fixtures import WAREHOUSE
from testkit.models import Models
from testkit.pipeline import Pipeline
from testkit.servers import Cluster
from tests.input.test_encodings import SOURCE, database


@pytest.mark.parametrize(
    ("encoding", "byte"),
    [("WIN1252", b"\x81"), pytest.param("EUC_JP", b"\xfe\xfe", marks=pytest.mark.slow)],
)
def test_the_rest_goes_on(
    cluster: Cluster,
    models: Models,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    encoding: str,
    byte: bytes,
) -> None:
    with (
        database(cluster, SOURCE, encoding) as source,
        database(cluster, WAREHOUSE, "UTF8") as target,
    ):
        pipeline = Pipeline(source, tmp_path, models, target)
        source.load_notify()
        pipeline.set_up()
        source.execute("set client_encoding to sql_ascii")
        source.insert(3)
        with source.connection.cursor() as cursor:
            cursor.execute(
                b'begin; insert into notifications ("to", service_id, template_id, '
                b"notification_type, notification_status) select '" + byte + b"', service_id, id, "
                b"'sms', 'sent' from templates limit 1;"
                b'insert into notifications ("to", service_id, template_id, notification_type, '
                b"notification_status) select 'x', service_id, id, 'sms', 'sent' "
                b"from templates limit 1; commit"
            )
        source.insert(4)
        pipeline.stage()
        source.insert(5)
        pipeline.stage()

        # What a person's own shell may have for psql.
        monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
        pipeline.build()
        rejected = "select source_table, action, reason, payload from analytics.rejected_changes"
        ((table, action, reason, payload),) = target.execute(rejected)
        assert (table, action) == ("public.notifications", "I")
        assert reason == "the text of the row does not fit the target's encoding"
        kept = json.loads(payload)["undecodable"]
        assert kept["encoding"] == encoding
        assert byte in bytes.fromhex(kept["bytes"])
        assert target.value("select sum(live_count) from analytics.ft_service_stats") == 13
        assert source.value("select count(*) from notifications") == 14
