from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from waltally_jobs.common import progress, session
from waltally_jobs.common.connections import connect_target
from waltally_jobs.evaluation import snapshot
from waltally_jobs.warehouse import loader_progress

from loader.staging import migrate
from testkit.databases import empty_database
from testkit.model import NOTIFY, SLOT
from testkit.queries import QuerySystem
from testkit.servers import APPLICATION, Cluster, Server, administer
from testkit.spark_cluster import SparkCluster, spark_cluster
from testkit.spark_connect import connect_server
from testkit.spark_jobs import running, shared_session
from tests.spark.kept import MODELS, Kept
from tests.spark.log import Log, Stream
from tests.spark.odd import LAB
from tests.spark.support import TEMPLATE, Clock, Source
from waltally.settings import SlotSettings


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """The session of all jobs in this process, which knows the format `waltally`."""
    started = shared_session()
    importlib.import_module("waltally_source").register(started)
    return started


@pytest.fixture(scope="session", autouse=True)
def jobs_share_the_session() -> Iterator[None]:
    """A job in this process runs on the session of all tests, and waits for a loader of the tests.

    That loader connects again at once.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "running", running)
        patch.setattr(loader_progress, "_FOLLOWER_SECONDS", 2.0)
        yield


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """What the making of a snapshot takes for the time."""
    made = Clock()
    for waits in (snapshot, progress):
        monkeypatch.setattr(waits, "time", made)
    return made


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """The server of these tests; a commit that asks for its standby waits for ever."""
    # Only a session that asks for synchronous_commit = on waits for the standby, which never comes.
    waiting = {"synchronous_standby_names": "'missing'", "synchronous_commit": "local"}
    with Server({**waiting, "fsync": "off", "max_prepared_transactions": "5"}) as started:
        administer(started, f"create database {TEMPLATE} template {APPLICATION}")
        staging = SlotSettings(started.dsn(TEMPLATE), SLOT, "cdc")
        with closing(connect_target(staging)) as target:
            migrate.upgrade(target)
        yield started


@pytest.fixture
def workers() -> Iterator[SparkCluster]:
    """A Spark cluster of two workers, which the test may kill."""
    with spark_cluster(2) as started:
        yield started


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server of Spark Connect, which has nothing of ours."""
    with connect_server() as started:
        yield started.address


_numbers = itertools.count()


@pytest.fixture
def source(cluster: Cluster) -> Iterator[Source]:
    """Notify's tables, empty, with a registered model, as if a loader had run."""
    name = f"notify_{next(_numbers)}"
    administer(cluster, f"create database {name} template {TEMPLATE}")
    with Source(cluster, name) as made:
        made.execute(
            "insert into cdc.slot_position (slot_name, system_identifier, source_database,"
            " start_lsn, position_lsn) select slot_name, system_identifier, current_database(),"
            " lsn, lsn from pg_create_logical_replication_slot(%s, 'wal2json')"
            " cross join pg_control_system()",
            made.slot,
        )
        made.register(ft_service_stats=NOTIFY)
        yield made


@pytest.fixture
def system(cluster: Cluster, tmp_path: Path) -> Iterator[QuerySystem]:
    """Tables of odd types, empty, that are their own target."""
    with empty_database(cluster) as database:
        database.execute(LAB)
        yield QuerySystem(database, tmp_path)


@pytest.fixture
def log(source: Source) -> Log:
    """A change log that the test writes itself."""
    return Log(source)


@pytest.fixture
def stream(log: Log) -> Iterator[Stream]:
    """Tables whose changes are staged when the test says so."""
    yield Stream(log)
    log.run("select pg_drop_replication_slot('typed')")


@pytest.fixture
def purging(cluster: Cluster, tmp_path: Path) -> Iterator[Kept]:
    """A model that is right, over two tables; what is deleted from one of them stays counted."""
    with empty_database(cluster) as database:
        made = Kept(database, tmp_path)
        made.write(60)
        made.write(100, "old_orders")
        made.keep({"purged": MODELS["purged"]})
        made.must_run("seed")
        made.catch_up()
        yield made
