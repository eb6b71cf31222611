"""DDL of the application never waits for a seed or an audit, which counts nothing wrong for it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest

from testkit.commands import wait_until
from testkit.databases import Database
from testkit.servers import connect
from tests.spark.kept import MODELS, Kept
from tests.spark.support import Source, meanwhile

pytestmark = pytest.mark.usefixtures("spark")

# A task that plans a query on the table stays here, with its lock of the table.
GATE = """
create function public.gate() returns boolean language plpgsql immutable as $$
begin
    while current_setting('application_name') ~ '^waltally_(seed|audit)_'
        and exists (select from pg_locks where locktype = 'advisory' and objid = 4711)
    loop
        perform pg_sleep(0.02);
    end loop;
    return true;
end
$$;
create index gated on {table} (id) where public.gate()
"""
AT_GATE = (
    "select count(*) from pg_stat_activity where wait_event = 'PgSleep'"
    " and application_name ~ '^waltally_(seed|audit)_' and datname = current_database()"
)
DDL = {
    "truncate": "truncate {table}",
    "drop": "drop table {table}",
    "add column": "alter table {table} add column more text",
    "rewrite": "alter table {table} add column more float default random()",
    "vacuum full": "vacuum full {table}",
    "index": "create index on {table} (id)",
    "concurrently": "create index concurrently on {table} (id)",
    "reindex": "reindex table {table}",
    "trigger": "create trigger touched before update on {table} for each row"
    " execute function suppress_redundant_updates_trigger()",
}
MOMENTS = {
    "before it is read": ("common.arrow.collected", "before"),
    "after it was read": ("common.arrow.collected", "after"),
    "while its size is asked": ("evaluation.snapshot._sized", "before"),
}


# Of one job, each with the DDL that runs then.
TEN = (
    ("evaluation.snapshot.open_slot", "before", "truncate", 0),
    ("evaluation.snapshot.open_slot", "after", "add column", 1),
    ("evaluation.snapshot.wait_until_safe", "before", "index", 0),
    ("evaluation.snapshot.wait_until_safe", "after", "vacuum full", 1),
    ("evaluation.snapshot._sized", "before", "rewrite", 0),
    ("evaluation.snapshot._sized", "after", "reindex", 1),
    ("evaluation.queries._ranges", "before", "trigger", 0),
    ("evaluation.queries._ranges", "after", "index", 1),
    ("common.arrow.collected", "before", "vacuum full", 0),
    ("common.arrow.collected", "after", "truncate", 1),
)


@contextmanager
def gated(database: Database, table: str) -> Iterator[None]:
    """Keep whoever plans a query on the table for a job within the block."""
    database.execute(GATE.format(table=table))
    with closing(connect(database.cluster.dsn(database.name))) as gate:
        gate.ask("select pg_advisory_lock(4711)")
        yield


def alter_ten_times(
    patch: pytest.MonkeyPatch, database: Database, *tables: str
) -> set[tuple[str, str]]:
    """Let the application change its tables at each of the moments, and return which came."""
    done: set[tuple[str, str]] = set()
    for function, when, ddl, place in TEN:

        def alter(
            *_: object,
            moment: tuple[str, str] = (function, when),
            ddl: str = ddl,
            table: str = tables[place],
        ) -> None:
            impatient(database, ddl, table)
            done.add(moment)

        if when == "before":
            meanwhile(patch, function, before=alter)
        else:
            # The first reading gives way to what comes before it, and has no end.
            meanwhile(patch, function, after=alter, times=1 + (ddl == "truncate"))
    return done


def impatient(database: Database, ddl: str, table: str) -> None:
    """Run DDL as an application does that waits for a lock for five seconds."""
    with closing(connect(database.cluster.dsn(database.name))) as session:
        session.ask("set lock_timeout = '5s'")
        session.ask(DDL[ddl].format(table=table))


@pytest.mark.parametrize("ddl", sorted(DDL.keys() - {"drop"}))
def test_ddl_gets_through_while_a_task_reads_the_table(source: Source, ddl: str) -> None:
    source.fill()
    with ThreadPoolExecutor(1) as pool:
        with gated(source, "notifications"):
            seeding = pool.submit(source.seed)
            wait_until(lambda: source.value(AT_GATE) or seeding.done())
            impatient(source, ddl, "notifications")
        code, _, err = seeding.result(300)
    assert code == 0, err
    assert "waited for this job, which gives way" in err or ddl in ("index", "trigger")
    source.must_end_as_a_recount()


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("ddl", ["truncate", "add column", "vacuum full"])
def test_ddl_at_a_moment_of_a_seed_is_counted_or_begun_again(
    source: Source, monkeypatch: pytest.MonkeyPatch, ddl: str, moment: str
) -> None:
    source.fill()
    function, when = MOMENTS[moment]

    def alter(*_: object) -> None:
        impatient(source, ddl, "notification_history")

    if when == "before":
        meanwhile(monkeypatch, function, before=alter)
    else:
        meanwhile(monkeypatch, function, after=alter)
    code, _, err = source.seed()
    assert code == 0, err
    source.must_end_as_a_recount()


def test_ddl_at_ten_moments_of_a_seed_waits_for_nobody(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.fill()
    done = alter_ten_times(monkeypatch, source, "notification_history", "notifications")
    code, _, err = source.seed()
    assert code == 0, err
    assert len(done) == len(TEN)
    source.must_end_as_a_recount()


def test_a_table_that_is_dropped_while_it_is_read_is_said(source: Source) -> None:
    source.fill()
    with ThreadPoolExecutor(1) as pool:
        with gated(source, "notification_history"):
            seeding = pool.submit(source.seed)
            wait_until(lambda: source.value(AT_GATE) or seeding.done())
            impatient(source, "drop", "notification_history")
        code, _, err = seeding.result(300)
    assert code and "Traceback" not in err, err


@pytest.mark.parametrize("ddl", ["truncate", "add column", "vacuum full"])
def test_ddl_gets_through_beside_an_audit(purging: Kept, ddl: str) -> None:
    with purging.follow("--build"), ThreadPoolExecutor(1) as pool:
        with gated(purging.source, "orders"):
            auditing = pool.submit(purging.run, "audit", "--json")
            wait_until(lambda: purging.source.value(AT_GATE) or auditing.done())
            impatient(purging.source, ddl, "orders")
        code, out, err = auditing.result(300)
    assert code == 0, out + err
    assert "waited for this job, which gives way" in err


def test_ddl_at_ten_moments_of_an_audit_waits_for_nobody(
    purging: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    with purging.follow("--build"):
        done = alter_ten_times(monkeypatch, purging.source, "old_orders", "orders")
        code, out, err = purging.run("audit", "--json")
    assert code == 0, out + err
    assert len(done) == len(TEN)


@pytest.mark.parametrize("job", ["seed", "audit"])
def test_a_column_that_gets_a_wider_type_amid_a_job_is_counted(
    purging: Kept, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    wider = "alter table orders alter amount type numeric(14, 2)"
    large = "insert into orders (channel, amount) values ('web', 123456789012.34)"
    meanwhile(monkeypatch, "common.arrow.collected", lambda: purging.source.execute(wider))
    with purging.follow("--build"):
        purging.must_run(job)
        purging.keep({"purged": MODELS["purged"]}, is_refresh=False)
        purging.source.execute(large)
        purging.audit()


@pytest.mark.parametrize("job", ["seed", "audit"])
def test_a_column_that_gets_another_name_amid_a_job_is_named_and_needs_no_seed(
    purging: Kept, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    query, config = MODELS["purged"]
    renamed = query.replace("amount from {orders}", "price as amount from {orders}")
    other = "alter table orders rename amount to price"
    meanwhile(monkeypatch, "common.arrow.collected", lambda: purging.source.execute(other))
    with purging.follow("--build"):
        code, _, err = purging.run(job)
        assert code and "amount" in err and "Traceback" not in err, err
        purging.source.execute("update orders set price = 7 where id % 5 = 1")
        purging.keep({"purged": (renamed, config)}, is_refresh=False)
        purging.audit()
