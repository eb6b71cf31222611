"""Where nothing happens to the tables, the slot follows and next to nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import Database, wait_until
from tests.support.commands import RunningLoader
from tests.support.following import end, following


@pytest.mark.parametrize("place", ["the same database", "another database"])
def test_traffic_elsewhere_moves_the_slot_and_stores_nothing(source: Database, place: str) -> None:
    source.must("setup")
    elsewhere = source if place == "the same database" else Database(source.cluster, "postgres")
    elsewhere.execute("create table if not exists unrelated (note text)")
    with following(source) as process:
        elsewhere.execute("insert into unrelated (note) select 'x' from generate_series(1, 20000)")
        reached = source.value("select pg_current_wal_lsn()")

        def follows() -> bool:
            # The slot lets go of WAL at a record of running transactions, which this makes.
            source.execute("checkpoint")
            return bool(
                source.value(
                    "select restart_lsn >= %s and position_lsn >= confirmed_flush_lsn "
                    "from pg_replication_slots inner join cdc.slot_position using (slot_name) "
                    "where slot_name = %s",
                    reached,
                    source.slot,
                )
            )

        wait_until(follows, "the slot follows")
        end(process)
    assert source.staged() == 0
    moves = "select n_tup_upd from pg_stat_user_tables where relname = 'slot_position'"
    assert source.value(moves) < 20


def test_an_idle_loader_writes_no_wal_for_itself(source: Database, tmp_path: Path) -> None:
    source.must("setup")
    source.insert(1000)
    often = {"loader.capture.session._IDLE_SECONDS": 0.3}
    with RunningLoader(source.environment(), tmp_path / "log", limits=often) as running:
        at = "select position_lsn from cdc.slot_position"
        moves = [source.value(at)]

        def settled() -> bool:
            moves.append(source.value(at))
            return len(moves) > 80 and len(set(moves[-60:])) == 1

        wait_until(settled, "the position stands still")
        assert source.staged() == 1000
        running.end()
