"""A seed by spark-submit: exact amid writers, and whatever is killed the previous seed stays."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from testkit.commands import wait_until
from tests.spark.support import Source, kill
from tests.spark.traffic import ends_as_a_recount, writing
from waltally import lsn


def test_a_seed_amid_writers_plus_the_stream_from_its_position_is_a_recount(
    source: Source,
) -> None:
    source.execute("select pg_create_logical_replication_slot('truth', 'wal2json')")
    source.fill(rows=400)
    with writing(source, 3):
        code, out, err = source.submit("--json", "--partitions", "7")
    assert code == 0, err
    ends_as_a_recount(source, lsn.parse(json.loads(out)["snapshot_lsn"]))
    # Nothing of Java's, Spark's or Python's is printed.
    assert len(out.splitlines()) == 1
    (counting,) = [line for line in err.splitlines() if "waiting for writers" not in line]
    assert re.fullmatch(
        r"counting public\.notification_history, .* at [0-9A-F]+/[0-9A-F]+", counting
    )


@pytest.mark.slow
def test_a_seed_killed_amid_the_swap_leaves_the_previous_one(source: Source) -> None:
    source.fill(rows=5)
    source.previous_seed()
    with source.session() as other, other.transaction():
        other.ask("lock table cdc.baseline in exclusive mode")
        killed = source.start("--forget-purged")
        # The counts are swapped in the open transaction, the seed's own row is not.
        wait_until(lambda: source.waiting("relation") == 1 or killed.poll() is not None)
        kill(killed)
    wait_until(lambda: not source.job_sessions())
    assert source.has_previous_seed()


@pytest.mark.parametrize("session", ["slot", pytest.param("locks", marks=pytest.mark.slow)])
def test_the_seed_fails_when_a_holder_is_terminated(source: Source, session: str) -> None:
    source.fill(rows=5)
    source.previous_seed()
    holder = (
        "select active_pid from pg_replication_slots where slot_name ~ '^waltally_seed_'"
        if session == "slot"
        else "select pid from pg_stat_activity where datname = current_database()"
        " and state = 'idle in transaction' and query ~ 'pg_inherits'"
    )
    with ThreadPoolExecutor(1) as pool:
        seeding = pool.submit(source.seed, "--forget-purged")
        with source.closed_gate(seeding.done):
            assert source.value(f"select pg_terminate_backend(({holder}))")
        code, _, err = seeding.result(120)
    assert code == 30, err
    assert "the session that holds the snapshot or the table locks has ended" in err
    assert "Traceback" not in err and "\tat " not in err
    assert source.has_previous_seed()
