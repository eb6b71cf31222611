"""Sources and targets of any encoding: the text arrives as it is, or setup says why it cannot."""

from __future__ import annotations

import psycopg2
import pytest

from demo.cluster import Cluster
from loader.build.builder import Models
from tests.input.bench import Bench, new_database
from tests.input.test_values import churn
from waltally.errors import EncodingUnfit

TARGET = "bad_input_target"


def create(cluster: Cluster, encoding: str) -> str:
    """Make another database to stage in and return how to connect."""
    admin = psycopg2.connect(cluster.dsn())
    admin.autocommit = True
    with admin.cursor() as cursor:
        cursor.execute(f"drop database if exists {TARGET} with (force)")
        cursor.execute(f"create database {TARGET} {options(encoding)}")
    admin.close()
    return cluster.dsn(TARGET)


def options(encoding: str) -> str:
    return f"encoding '{encoding}' template template0 lc_collate 'C' lc_ctype 'C'"


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII", "EUC_JP"])
def test_the_source_may_have_any_encoding_the_target_shares(
    cluster: Cluster, models: Models, encoding: str
) -> None:
    with new_database(cluster, options(encoding)) as database:
        bench = Bench(database, models)
        database.load_notify()
        bench.set_up()
        raw = {"LATIN1": b"caf\xe9", "SQL_ASCII": b"\xff\xfe\xe9", "EUC_JP": b"\xc6\xfc"}[encoding]
        bench.execute("set client_encoding to sql_ascii")
        database.insert(2)
        with database.connection.cursor() as cursor:
            cursor.execute(
                b"update notifications set personalisation = '" + raw + b"\x22}]', "
                b"notification_status = '" + raw + b"'"
            )
        database.insert(2)
        must_match_by_status(bench)


def must_match_by_status(bench: Bench) -> None:
    bench.execute("delete from notifications where ctid = (select min(ctid) from notifications)")
    bench.catch_up()
    assert bench.rejected() == []
    same = (
        "select count(*) from analytics.ft_service_stats as fact full join ("
        "select notification_status, count(*) as rows from notifications group by 1) as counted "
        "on fact.notification_status = counted.notification_status "
        "where coalesce(live_count, 0) <> coalesce(rows, 0)"
    )
    assert bench.value(same) == 0


def test_a_latin1_source_is_staged_in_a_utf8_target(cluster: Cluster, models: Models) -> None:
    with new_database(cluster, options("LATIN1")) as database:
        bench = Bench(database, models)
        database.load_notify()
        bench.target = create(cluster, "UTF8")
        bench.set_up()
        database.insert(1, status="envoyé", text='à ÿ \\ " £')
        churn(bench)
        bench.stage()
        with psycopg2.connect(bench.target) as target, target.cursor() as cursor:
            cursor.execute("select payload from cdc.change_log order by commit_lsn limit 1")
            [(payload,)] = cursor.fetchall()
        target.close()
    assert '"envoyé"' in payload
    assert '"à ÿ \\\\ \\" £"' in payload


@pytest.mark.parametrize(
    ("source", "target"), [("UTF8", "LATIN1"), ("SQL_ASCII", "UTF8"), ("LATIN1", "EUC_JP")]
)
def test_a_target_that_cannot_hold_the_text_is_refused(
    cluster: Cluster, models: Models, source: str, target: str
) -> None:
    with new_database(cluster, options(source)) as database:
        bench = Bench(database, models)
        database.load_notify()
        bench.target = create(cluster, target)
        with pytest.raises(EncodingUnfit, match=f"{target}.*{source}"):
            bench.set_up()
