"""Sources and targets of any encoding: the text arrives as it is, or setup says why it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.databases import Database, empty_database
from testkit.fixtures import WAREHOUSE
from testkit.models import Models
from testkit.pipeline import Pipeline
from testkit.servers import Cluster
from tests.input.test_values import churn
from waltally.errors import EncodingUnfit

SOURCE, TARGET = "encoded_source", "encoded_target"


def database(cluster: Cluster, name: str, encoding: str) -> Database:
    """Make a database of this encoding."""
    options = f"encoding '{encoding}' template template0 lc_collate 'C' lc_ctype 'C'"
    return empty_database(cluster, name, options)


@pytest.mark.parametrize(
    "encoding",
    [
        pytest.param("LATIN1", marks=pytest.mark.slow),
        "SQL_ASCII",
        pytest.param("EUC_JP", marks=pytest.mark.slow),
    ],
)
def test_the_source_may_have_any_encoding_the_target_shares(
    cluster: Cluster, models: Models, tmp_path: Path, encoding: str
) -> None:
    with database(cluster, WAREHOUSE, encoding) as source:
        pipeline = Pipeline(source, tmp_path, models)
        source.load_notify()
        pipeline.set_up()
        raw = {"LATIN1": b"caf\xe9", "SQL_ASCII": b"\xff\xfe\xe9", "EUC_JP": b"\xc6\xfc"}[encoding]
        source.execute("set client_encoding to sql_ascii")
        source.insert(2)
        with source.connection.cursor() as cursor:
            cursor.execute(
                b"update notifications set personalisation = '" + raw + b"\x22}]', "
                b"notification_status = '" + raw + b"'"
            )
        source.insert(2)
        must_match_by_status(pipeline)


def must_match_by_status(pipeline: Pipeline) -> None:
    pipeline.source.execute(
        "delete from notifications where ctid = (select min(ctid) from notifications)"
    )
    pipeline.catch_up()
    assert pipeline.rejected() == []
    same = (
        "select count(*) from analytics.ft_service_stats as fact full join ("
        "select notification_status, count(*) as rows from notifications group by 1) as counted "
        "on fact.notification_status = counted.notification_status "
        "where coalesce(live_count, 0) <> coalesce(rows, 0)"
    )
    assert pipeline.source.value(same) == 0


def test_a_latin1_source_is_staged_in_a_utf8_target(
    cluster: Cluster, models: Models, tmp_path: Path
) -> None:
    with database(cluster, SOURCE, "LATIN1") as source, database(cluster, TARGET, "UTF8") as target:
        pipeline = Pipeline(source, tmp_path, models, target)
        source.load_notify()
        pipeline.set_up()
        source.insert(1, status="envoyé", text='à ÿ \\ " £')
        churn(pipeline)
        pipeline.stage()
        first = "select payload from cdc.change_log order by commit_lsn limit 1"
        payload = target.value(first)
    assert '"envoyé"' in payload
    assert '"à ÿ \\\\ \\" £"' in payload


@pytest.mark.parametrize(
    ("from_", "to"),
    [
        ("UTF8", "LATIN1"),
        ("SQL_ASCII", "UTF8"),
        pytest.param("LATIN1", "EUC_JP", marks=pytest.mark.slow),
    ],
)
def test_a_target_that_cannot_hold_the_text_is_refused(
    cluster: Cluster, models: Models, tmp_path: Path, from_: str, to: str
) -> None:
    with database(cluster, SOURCE, from_) as source, database(cluster, TARGET, to) as target:
        source.load_notify()
        with pytest.raises(EncodingUnfit, match=f"{to}.*{from_}"):
            Pipeline(source, tmp_path, models, target).set_up()
