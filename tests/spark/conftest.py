from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from auditing import stored_facts
from common import session
from counting import group_estimate, snapshot
from pyspark.sql import SparkSession
from warehouse import loader_progress

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "spark")]

from testkit import facts  # noqa: E402
from testkit import source as notify  # noqa: E402
from testkit.commands import wait_until  # noqa: E402
from testkit.databases import Database, empty_database  # noqa: E402
from testkit.models import Models  # noqa: E402
from testkit.servers import Cluster  # noqa: E402
from testkit.spark_cluster import SparkCluster, spark_cluster  # noqa: E402
from tests.spark.archives import local_spark  # noqa: E402
from tests.spark.audited import Audited  # noqa: E402
from tests.spark.support import Clock, Source  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def clean_environment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        yield


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with local_spark() as shared:
        yield shared


@pytest.fixture(autouse=True)
def jobs_share_the_session(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job in this process runs on the session of all tests, and leaves it running."""

    @contextmanager
    def running(work: str = "seed", timeout: float = 0) -> Iterator[SparkSession]:
        shared: SparkSession = request.getfixturevalue("spark")
        yield shared
        shared.catalog.clearCache()

    monkeypatch.setattr(session, "running", running)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job waits for a loader of the tests, which connects again at once."""
    monkeypatch.setattr(loader_progress, "_FOLLOWER_SECONDS", 2.0)
    monkeypatch.setattr(stored_facts, "APPLY_SECONDS", 2.0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """What the making of a snapshot takes for the time."""
    made = Clock()
    monkeypatch.setattr(snapshot, "time", made)
    return made


@pytest.fixture(params=["server", "Spark"])
def who_counts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have tables of any size counted by the server, or by Spark."""
    most = float("inf") if request.param == "server" else -1.0
    monkeypatch.setattr(group_estimate, "MAX_GROUPS", most)
    monkeypatch.setattr(group_estimate, "ROWS_PER_GROUP", 1e-9)
    return str(request.param)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    # Only a session that asks for synchronous_commit = on waits for the standby, which never comes.
    waiting = {"synchronous_standby_names": "'missing'", "synchronous_commit": "local"}
    # Autovacuum of a catalog makes the next session read every catalog anew. That session would
    # wait for the catalog which a test has locked.
    settings = {**waiting, "fsync": "off", "autovacuum": "off", "max_prepared_transactions": "5"}
    with Cluster(settings) as started:
        with psycopg.connect(started.dsn(), autocommit=True) as connection:
            connection.execute("create database template_notify")
        with psycopg.connect(started.dsn("template_notify"), autocommit=True) as connection:
            connection.execute((ROOT / "testkit/notify.sql").read_bytes())
            connection.execute("create schema cdc; create schema cdc_jobs")
            connection.execute("set search_path = cdc")
            for migration in sorted((ROOT / "loader/staging/migrations").glob("*.sql")):
                connection.execute(migration.read_bytes())
            connection.execute("set search_path = public")
            for table in ("notifications", "notification_history"):
                connection.execute(f"alter table {table} replica identity full")
        yield started


@pytest.fixture
def workers() -> Iterator[SparkCluster]:
    """A Spark cluster of two workers, which the test may kill."""
    with spark_cluster(2) as started:
        yield started


@pytest.fixture
def source(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Source]:
    name = request.node.name.split("[")[0][:50]
    with psycopg.connect(cluster.dsn(), autocommit=True) as admin:
        admin.execute(f'create database "{name}" template template_notify')
        made = Source(cluster, name)
        with made.connect() as connection:
            connection.execute(
                "insert into cdc.slot_position (slot_name, system_identifier, source_database,"
                " start_lsn, position_lsn)"
                " select %s, system_identifier, current_database(),"
                " pg_current_wal_lsn(), pg_current_wal_lsn() from pg_control_system()",
                (made.slot,),
            )
        facts.register(made.dsn, slot=made.slot)
        yield made
        made.close()
        temporary = (
            "select 1 from pg_replication_slots where database = %s and temporary and active"
        )
        # A session that was ended takes a moment to give up its slot.
        wait_until(lambda: not admin.execute(temporary, (name,)).fetchall())
        admin.execute(
            "select pg_drop_replication_slot(slot_name) from pg_replication_slots"
            " where database = %s",
            (name,),
        )
        admin.execute(f'drop database "{name}" with (force)')


@pytest.fixture(scope="session")
def models() -> Models:
    """The models, parsed once for the database `audited`; dbt refuses them in any other."""
    return Models()


@pytest.fixture(scope="session")
def audited_template(
    cluster: Cluster, models: Models, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """The name of a database with source tables, baseline and a fact that is right.

    A slot cannot be copied, so it has none; its name in the staging tables is that of `audited`.
    """
    home = tmp_path_factory.mktemp("audited")
    database = empty_database(cluster, "audited")
    dsn = cluster.dsn(database.name)
    notify.create(dsn)
    notify.fill(dsn, services=5, templates=15, live_rows=2000, history_rows=3000, null_share=0.02)
    notify.set_identity(dsn, "full")
    made = Audited(database, home, models)
    made.must("setup")
    made.must("run", "--once")
    made.seed()
    made.build()
    database.execute("select pg_drop_replication_slot(%s)", database.slot)
    database.execute("delete from cdc.slot_position")
    database.connection.close()
    with closing(psycopg.connect(cluster.dsn(), autocommit=True)) as admin:
        admin.execute(
            "select pg_replication_origin_drop(roname) from pg_replication_origin"
            " where roname = %s",
            (f"waltally_{database.slot}",),
        )
        admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = 'audited'"
        )
        admin.execute("alter database audited rename to audited_template")
    return "audited_template"


@pytest.fixture
def audited(
    cluster: Cluster, models: Models, audited_template: str, tmp_path: Path
) -> Iterator[Audited]:
    """A pipeline of the test's own, with a fact that is right."""
    with closing(psycopg.connect(cluster.dsn(), autocommit=True)) as admin:
        admin.execute(f"create database audited template {audited_template}".encode())
    with Database(cluster, "audited") as database:
        made = Audited(database, tmp_path, models)
        made.must("setup")
        # Nothing was written since the fact was built, so the log goes on from there.
        database.execute(
            "update cdc.slot_position set start_lsn = (select min(snapshot_lsn) from cdc.baseline);"
            " update cdc.logged_table set held_since = jsonb_build_object('*', start_lsn)"
            " from cdc.slot_position"
        )
        yield made
