"""The demo's source is a fair judge: its recount equals what its own WAL says, whatever happens."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count
from random import Random
from typing import Any

import psycopg2
import pytest

from demo.archive_changes import history_purge, purge_and_archive_again
from demo.cluster import Cluster
from demo.comparison import staged_transactions
from demo.mix import mix
from demo.recount import Counts, Difference, Row, differences, expected, fact
from demo.session import Session, templates_of
from demo.source import Identity, create, fill, set_identity, transaction
from demo.traffic import Traffic
from demo.worker import OUTCOMES
from loader.staging.migrate import upgrade
from tests.oracle import replay
from tests.support.servers import Server

SERVICES, TEMPLATES = 4, 12
SEEDS = [1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 11))]
NUMBERS = count()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Server({"fsync": "off", "deadlock_timeout": "50ms"}) as running:
        yield running


@pytest.fixture(scope="module", params=["full", "covering"])
def identity(request: pytest.FixtureRequest, cluster: Cluster) -> Identity:
    """An identity, for which the database of the same name is the template: no rows yet."""
    chosen: Identity = request.param
    with_database(cluster, chosen)
    create(cluster.dsn(chosen))
    fill(cluster.dsn(chosen), SERVICES, TEMPLATES)
    set_identity(cluster.dsn(chosen), chosen)
    return chosen


@pytest.fixture
def dsn(cluster: Cluster, identity: Identity) -> Iterator[str]:
    """A source of its own, with a slot from before its first row."""
    name = f"source_{next(NUMBERS)}"
    with_database(cluster, name, template=identity)
    with transaction(cluster.dsn(name)) as cursor:
        cursor.execute("select pg_create_logical_replication_slot('judge', 'wal2json')")
    yield cluster.dsn(name)
    with transaction(cluster.dsn(name)) as cursor:
        cursor.execute("select pg_drop_replication_slot('judge')")


def make_staging(dsn: str) -> None:
    with closing(psycopg2.connect(dsn)) as connection:
        upgrade(connection, "cdc")


def with_database(cluster: Cluster, name: str, template: str = "template1") -> None:
    connection = psycopg2.connect(cluster.dsn())
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(f'create database "{name}" template "{template}"')
    connection.close()


def payloads(dsn: str) -> list[dict[str, Any]]:
    with transaction(dsn) as cursor:
        cursor.execute(
            "select data from pg_logical_slot_peek_changes('judge', null, null,"
            " 'format-version', '2', 'include-types', 'false',"
            " 'add-tables', 'public.notifications,public.notification_history')"
        )
        return [json.loads(row[0]) for row in cursor]


@pytest.mark.parametrize("seed", SEEDS)
def test_replayed_stream_equals_the_recount(dsn: str, identity: Identity, seed: int) -> None:
    Traffic(dsn, seed=seed, identity=identity).run(transactions=60)
    assert replay(payloads(dsn)) == expected(dsn) != {}


@pytest.mark.parametrize("seed", SEEDS)
def test_replayed_stream_with_truncates_equals_the_recount(
    dsn: str, identity: Identity, seed: int
) -> None:
    traffic = Traffic(dsn, seed=seed, identity=identity, truncates=True)
    traffic.run(transactions=60)
    assert sum(n for kind, n in traffic.counts.items() if kind.startswith("truncate")) > 0
    assert replay(payloads(dsn)) == expected(dsn)


def test_baseline_and_stream_equal_the_recount(dsn: str, identity: Identity) -> None:
    fill_like(dsn, identity, live_rows=300, history_rows=300)
    before = len(payloads(dsn))
    baseline = expected(dsn)
    Traffic(dsn, identity=identity).run(transactions=60)
    assert replay(payloads(dsn)[before:], baseline) == expected(dsn) != baseline


def test_same_seed_goes_on_where_it_has_been_before(dsn: str, identity: Identity) -> None:
    first, second = (Traffic(dsn, identity=identity, seed=3) for _ in range(2))
    first.run(transactions=60)
    second.run(transactions=60)
    assert second.counts["insert_one"] > 0
    assert replay(payloads(dsn)) == expected(dsn)


def test_every_kind_of_change_occurs(dsn: str, identity: Identity) -> None:
    fill_like(dsn, identity, live_rows=2000, history_rows=2000)
    traffic = Traffic(dsn, identity=identity, truncates=True)
    traffic.run(transactions=400)
    kinds = {change.__name__ for change in mix(identity, truncates=True)}
    assert kinds | set(OUTCOMES) <= {kind for kind, times in traffic.counts.items() if times}


def test_sessions_that_get_in_each_others_way_go_on(dsn: str, identity: Identity) -> None:
    fill_like(dsn, identity, live_rows=40, history_rows=0)
    kinds = {change.__name__: 0 for change in mix(identity)}
    crowded = kinds | {"bulk_update": 1, "change_dimensions": 1, "status_move": 1}
    traffic = Traffic(dsn, identity=identity, weights=crowded)
    while not traffic.counts["collision"]:
        traffic.run(transactions=25)
    assert replay(payloads(dsn)) == expected(dsn)


def test_traffic_started_without_a_number_writes_until_stopped(
    dsn: str, identity: Identity
) -> None:
    traffic = Traffic(dsn, identity=identity, rate=200)
    traffic.start()
    while not traffic.counts["insert_one"]:
        expected(dsn)
    traffic.stop()
    written = payloads(dsn)
    assert payloads(dsn) == written != []


def test_error_of_a_session_reaches_whoever_waits_for_the_traffic(
    dsn: str, identity: Identity
) -> None:
    with transaction(dsn) as cursor:
        cursor.execute("drop table truth.purged, notification_history")
    with pytest.raises(psycopg2.errors.UndefinedTable):
        Traffic(dsn, identity=identity).run(transactions=1000)


def test_row_purged_by_two_sessions_at_once_is_recorded_once(dsn: str, identity: Identity) -> None:
    fill_like(dsn, identity, live_rows=0, history_rows=60)
    before = expected(dsn)
    with ThreadPoolExecutor() as pool:
        first, second = some_session(dsn, identity), some_session(dsn, identity)
        assert history_purge(first) == 40
        waiting = pool.submit(history_purge, second)
        wait_until_blocked(dsn, second)
        first.cursor.connection.commit()
        assert waiting.result() == 0
        second.cursor.connection.commit()
    close(first, second)
    assert expected(dsn) == before


def test_row_archived_again_after_its_purge_counts_twice(dsn: str, identity: Identity) -> None:
    session = some_session(dsn, identity)
    group = (
        session.templates[0].service_id,
        session.templates[0].template_id,
        session.templates[0].notification_type,
        "created",
    )
    session.cursor.execute(
        'insert into notifications ("to", service_id, template_id, notification_type,'
        " notification_status) values ('x', %s, %s, %s, %s)",
        group,
    )
    assert purge_and_archive_again(session) == 1
    session.cursor.connection.commit()
    close(session)
    assert expected(dsn) == {group: (1, 2)} == replay(payloads(dsn))


def test_archiving_keeps_the_status_from_before_a_change_between_its_steps(
    dsn: str, identity: Identity
) -> None:
    fill_like(dsn, identity, live_rows=400, history_rows=0)
    only_archive = {change.__name__: 0 for change in mix(identity)} | {"archive": 1}
    before = {group: live for group, (live, _) in expected(dsn).items()}
    Traffic(dsn, sessions=1, identity=identity, weights=only_archive).run(transactions=80)
    after = expected(dsn)
    assert archived_rows(after) > 0
    stayed = {group: live + archived for group, (live, archived) in after.items()}
    assert stayed == before


def test_same_seed_fills_the_same_rows(cluster: Cluster) -> None:
    counts = []
    for _ in range(2):
        with_database(cluster, name := f"source_{next(NUMBERS)}")
        create(cluster.dsn(name))
        fill(cluster.dsn(name), SERVICES, TEMPLATES, 500, 700, seed=5, null_share=0.02)
        counts.append(expected(cluster.dsn(name)))
    assert counts[0] == counts[1]
    assert 1100 < sum(live + archived for live, archived in counts[0].values()) < 1200


def test_difference_names_each_group_where_the_fact_is_wrong(dsn: str, identity: Identity) -> None:
    fill_like(dsn, identity, live_rows=300, history_rows=300)
    make_staging(dsn)
    with transaction(dsn) as cursor:
        cursor.execute(
            "create schema analytics; create table analytics.ft_service_stats (service_id uuid,"
            " template_id uuid, notification_type text, notification_status text,"
            ' live_count bigint, archived_count bigint, "count" bigint)'
        )
        for group, (live, archived) in expected(dsn).items():
            values = (*group, live, archived, live + archived)
            cursor.execute("insert into analytics.ft_service_stats values %s", (values,))
    assert differences(dsn) == []
    assert fact(dsn) == expected(dsn)
    (first, one), (second, other) = sorted(expected(dsn).items())[:2]
    with transaction(dsn) as cursor:
        cursor.execute(
            "delete from analytics.ft_service_stats where (service_id::text, template_id::text,"
            " notification_type, notification_status) = %s",
            (first,),
        )
        cursor.execute(
            'update analytics.ft_service_stats set "count" = "count" + 1 where (service_id::text,'
            " template_id::text, notification_type, notification_status) = %s",
            (second,),
        )
        cursor.execute(
            "insert into analytics.ft_service_stats values (%s, %s, 'sms', 'odd', 0, 0, 0)",
            first[:2],
        )
    assert differences(dsn) == [
        Difference(first, Row(*one, sum(one)), None),
        Difference(second, Row(*other, sum(other)), Row(*other, sum(other) + 1)),
    ]


def test_purge_counts_only_where_the_change_log_has_it_from_the_seed_on(
    dsn: str, identity: Identity
) -> None:
    fill_like(dsn, identity, live_rows=0, history_rows=200)
    make_staging(dsn)
    with transaction(dsn) as cursor:
        cursor.execute("create table cdc.all_lsn partition of cdc.change_log default")
    before_seed, at_seed, after_seed = (purge(dsn, identity) for _ in range(3))
    with transaction(dsn) as cursor:
        for lsn, xid in (("0/10", before_seed), ("0/20", at_seed), ("0/30", after_seed)):
            cursor.execute(
                "insert into cdc.change_log values ('slot', %s, 1, %s, now(), now(), '{}')",
                (lsn, xid),
            )
    assert set(staged_transactions(dsn, "slot", "ft_service_stats")) == {
        before_seed,
        at_seed,
        after_seed,
    }
    with transaction(dsn) as cursor:
        cursor.execute(
            "insert into cdc.baseline (slot_name, fact_name, baseline_id, declaration, "
            "snapshot_lsn, system_identifier) "
            "values ('slot', 'ft_service_stats', gen_random_uuid(), '{}', '0/20', '1')"
        )
    assert set(staged_transactions(dsn, "slot", "ft_service_stats")) == {at_seed, after_seed}
    purged = [archived_rows(expected(dsn, xids)) for xids in ([], [at_seed, after_seed], None)]
    assert purged[0] < purged[1] < purged[2]


def purge(dsn: str, identity: Identity) -> int:
    """Purge some history and return the transaction's id, as wal2json tells it."""
    session = some_session(dsn, identity)
    assert history_purge(session) == 40
    [xid] = session.fetch("select pg_current_xact_id()::xid::text::bigint")
    session.cursor.connection.commit()
    close(session)
    return int(xid)


def archived_rows(counts: Counts) -> int:
    return sum(archived for _, archived in counts.values())


class LowestId(Random):
    """Dice with which every choice of ids begins at the first and takes as many as it may."""

    def getrandbits(self, k: int, /) -> int:
        return 0

    def randint(self, a: int, b: int) -> int:
        return b


def fill_like(dsn: str, identity: Identity, live_rows: int, history_rows: int) -> None:
    """Add a past to a source that has services and templates."""
    with transaction(dsn) as cursor:
        cursor.execute("delete from templates")
        cursor.execute("delete from services")
    null_share = 0.02 if identity == "full" else 0.0
    fill(dsn, SERVICES, TEMPLATES, live_rows, history_rows, null_share=null_share)


def some_session(dsn: str, identity: Identity) -> Session:
    connection = psycopg2.connect(dsn)
    return Session(connection.cursor(), LowestId(), templates_of(dsn), identity)


def close(*sessions: Session) -> None:
    for session in sessions:
        session.cursor.connection.close()


def wait_until_blocked(dsn: str, session: Session) -> None:
    pid = session.cursor.connection.info.backend_pid
    with transaction(dsn) as cursor:
        while True:
            cursor.execute("select cardinality(pg_blocking_pids(%s)) > 0", (pid,))
            if cursor.fetchall() == [(True,)]:
                return
