"""What cannot be right is refused with a sentence and a remedy, and changes nothing."""

from __future__ import annotations

import pytest

from tests.dbt.warehouse import Warehouse, lsn, messages
from tests.dbt.workload import LIVE, change, row

FACT = ("--select", "ft_service_stats")

REFUSALS = {
    "no_slot": ("delete from cdc.slot_position", (), "no change log for slot", "loader setup"),
    "log_starts_after_seed": (
        "update cdc.historical_snapshot set snapshot_lsn = '0/1', seed_id = gen_random_uuid()",
        (),
        "after the historical seed at 0/1",
        "spark/seed.py",
    ),
    "seed_of_another_cluster": (
        "update cdc.historical_snapshot set system_identifier = '2', seed_id = gen_random_uuid()",
        (),
        "another cluster",
        "spark/seed.py",
    ),
    "seed_is_gone": (
        "delete from cdc.historical_snapshot",
        (),
        "is gone",
        "dbt build --full-refresh",
    ),
    "log_ends_before_watermark": (
        "update cdc.slot_position set position_lsn = start_lsn",
        (),
        "the change log only up to 0/1000",
        "dbt build --full-refresh",
    ),
    "log_starts_after_watermark": (
        "update cdc.slot_position set start_lsn = '1/0', position_lsn = '1/0'",
        (),
        "holds changes only up to",
        "spark/seed.py",
    ),
    "seed_below_log_in_full_refresh": (
        "update cdc.slot_position set start_lsn = '1/0', position_lsn = '1/0'",
        ("--full-refresh",),
        "the change log starts at 1/0",
        "spark/seed.py",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_be_right_is_refused(warehouse: Warehouse, name: str) -> None:
    statement, words, sentence, remedy = REFUSALS[name]
    warehouse.seed({}, at=0x1000)
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(*FACT)
    before = warehouse.counts(), warehouse.execute("select * from cdc.model_watermark")
    warehouse.execute(statement)

    done = warehouse.dbt("run", *FACT, *words)

    assert not done.success
    said = messages(done)
    assert sentence in said
    assert "HINT" in said
    assert remedy in said.split("HINT")[1]
    assert (warehouse.counts(), warehouse.execute("select * from cdc.model_watermark")) == before


def test_a_full_refresh_accepts_that_the_seed_is_gone(warehouse: Warehouse) -> None:
    warehouse.seed({})
    warehouse.build(*FACT)
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.execute("delete from cdc.historical_snapshot")
    warehouse.build("--full-refresh", *FACT)
    assert list(warehouse.counts().values()) == [(1, 0)]


def test_an_empty_build_is_refused(warehouse: Warehouse) -> None:
    warehouse.build(*FACT)
    warehouse.append([change("I", LIVE, new=row())])
    done = warehouse.dbt("run", "--empty", *FACT)
    assert "pass over changes without applying them" in messages(done)
    warehouse.build(*FACT)
    assert list(warehouse.counts().values()) == [(1, 0)]


def test_autocommit_is_refused(warehouse: Warehouse) -> None:
    profile = warehouse.project / "profiles.yml"
    usual = profile.read_text()
    try:
        profile.write_text(usual + "      autocommit: true\n")
        done = warehouse.dbt("run", *FACT)
    finally:
        profile.write_text(usual)
    assert "remove autocommit from the profile" in messages(done)


def test_a_lost_table_and_a_lost_watermark_are_made_again(warehouse: Warehouse) -> None:
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(*FACT)
    for loss in ("drop table analytics.ft_service_stats", "delete from cdc.model_watermark"):
        warehouse.execute(loss)
        warehouse.build(*FACT)
        assert list(warehouse.counts().values()) == [(1, 0)]
        assert warehouse.execute("select applied_lsn::text from cdc.model_watermark") == [
            (lsn(warehouse.position),)
        ]
