"""Sources and targets of any encoding: the text arrives as it is, or why it cannot is said."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from waltally_jobs.common.errors import CountingFailed, spark_errors

from testkit import comparison
from testkit.commands import ROOT
from testkit.databases import Database, empty_database
from testkit.fixtures import WAREHOUSE
from testkit.pipeline import Pipeline
from testkit.servers import Cluster
from waltally.database import connect
from waltally.errors import LoaderError

SOURCE = "encoded_source"


def database(cluster: Cluster, name: str, encoding: str) -> Database:
    """Make a database of this encoding."""
    options = f"encoding '{encoding}' template template0 lc_collate 'C' lc_ctype 'C'"
    return empty_database(cluster, name, options)


def test_the_source_may_have_any_encoding_the_target_shares(
    cluster: Cluster, tmp_path: Path
) -> None:
    with database(cluster, WAREHOUSE, "SQL_ASCII") as source:
        pipeline = Pipeline(source, tmp_path)
        source.load_notify()
        pipeline.set_up()
        source.execute("set client_encoding to sql_ascii")
        source.insert(2)
        with source.connection.cursor() as cursor:
            cursor.execute(
                b"update notifications set personalisation = '\xff\xfe\xe9\x22}]', "
                b"notification_status = '\xff\xfe\xe9'"
            )
        source.insert(2)
        first = "(select min(ctid) from notifications)"
        source.execute(f"delete from notifications where ctid = {first}")
        pipeline.catch_up()
        assert pipeline.rejected() == []
        differing = comparison.apart(
            "select notification_status, live_count from analytics.ft_service_stats"
            " where live_count > 0",
            "select notification_status, count(*) from notifications group by 1",
        )
        assert source.execute(differing) == []


def test_what_stops_a_seed_of_an_sql_ascii_source_is_said_and_corrected(cluster: Cluster) -> None:
    """The server refuses such a text to whoever reads UTF-8; the SQL is that of the page."""
    with database(cluster, SOURCE, "SQL_ASCII") as source:
        source.load_notify()
        _, said = source.refused("setup", LOADER_TARGET_DSN=cluster.dsn())
        assert "UTF8, which cannot hold every text of a source in SQL_ASCII" in said
        assert "stops at a text that is not UTF-8" in source.must("setup")
        source.execute("set client_encoding to sql_ascii")
        source.insert(2)
        with source.connection.cursor() as cursor:
            cursor.execute(b"update notifications set notification_status = 'envoy\xe9'")
        source.insert(1)
        page = (ROOT / "docs/source.md").read_text()
        correct = page.split("## A source in SQL_ASCII")[1].split("```sql")[1].split("```")[0]
        with closing(connect(source.cluster.dsn(source.name), "source")) as reader:
            read = "select notification_status from public.notifications"
            with pytest.raises(LoaderError) as refused:
                reader.ask(read)
            with pytest.raises(CountingFailed) as failed, spark_errors("seed"):
                raise OSError(f"ReadFailed: {refused.value.__cause__}")
            assert "'A source in SQL_ASCII'" in str(failed.value.remedy)
            source.execute(correct)
            assert {status for (status,) in reader.ask(read)} == {"envoyé", "created"}


def test_text_that_the_target_cannot_hold_is_rejected_and_the_rest_goes_on(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        database(cluster, SOURCE, "WIN1252") as source,
        database(cluster, WAREHOUSE, "UTF8") as target,
    ):
        pipeline = Pipeline(source, tmp_path, target)
        source.load_notify()
        source.execute("alter table notifications add \"größe\" text default 'süß'")
        pipeline.set_up()
        source.insert(3, status="envoyé", text='à ÿ \\ " £')
        source.execute("set client_encoding to sql_ascii")
        with source.connection.cursor() as cursor:
            insert = (
                b'insert into notifications ("to", service_id, template_id, notification_type, '
                b"notification_status) select '%s', service_id, id, 'sms', 'sent' "
                b"from templates limit 1;"
            )
            cursor.execute(b"begin;" + insert % b"\x81" + insert % b"x" + b"commit")
        source.insert(4)
        pipeline.must("run", "--once", "--columns", "to,personalisation,größe")
        source.insert(5)
        pipeline.stage()

        payload = target.value("select payload from cdc.change_log order by commit_lsn limit 1")
        assert '"envoyé"' in payload and '"à ÿ \\\\ \\" £"' in payload
        assert '{"name":"größe","value":"süß"}' in payload and "key_type" not in payload

        # What a person's own shell may have for psql.
        monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
        pipeline.build()
        rejected = "select source_table, action, reason, payload from analytics.rejected_changes"
        ((table, action, reason, payload),) = target.execute(rejected)
        assert (table, action) == ("public.notifications", "I")
        assert reason == "the text of the row does not fit the target's encoding"
        kept = json.loads(payload)["undecodable"]
        assert kept["encoding"] == "WIN1252"
        assert b"\x81" in bytes.fromhex(kept["bytes"])
        assert target.value("select sum(live_count) from analytics.ft_service_stats") == 13
        assert source.value("select count(*) from notifications") == 14

        # A seed copies the needed columns, and says what mends a text that cannot be copied.
        odd = b"notification_status = '\x81'"
        with source.connection.cursor() as cursor:
            cursor.execute(b"update notifications set " + odd + b" where \"to\" = 'x'")
        with pipeline.follow(), pytest.raises(CountingFailed) as failed:
            pipeline.spark_job("spark-submit spark/seed.py")
        assert "`convert_to(column, 'UTF8')` fails" in failed.value.remedy
        with source.connection.cursor() as cursor:
            cursor.execute(b"update notifications set notification_status = 'x' where " + odd)
        with pipeline.follow():
            pipeline.spark_job("spark-submit spark/seed.py")
