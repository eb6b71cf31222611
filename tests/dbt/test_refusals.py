"""What cannot be right is refused with a sentence and a remedy, and changes nothing."""

from __future__ import annotations

import re
from contextlib import closing
from typing import Any

import psycopg2.errors
import pytest

from loader.monitoring.findings import of_models
from loader.staging import target_state
from testkit.servers import connect_target
from tests.dbt.project import messages
from tests.dbt.staged import DATABASE, MODEL, SLOT, START, Warehouse
from tests.dbt.workload import LIVE, change, row
from waltally import lsn

SEED = "spark/seed.py --model ft_service_stats"
BEYOND_THE_LOG = "update cdc.slot_position set start_lsn = '1/0', position_lsn = '1/0'"
LACKS = "the change log does not hold everything that it needs from"
CASES = [
    (
        "update cdc.baseline set snapshot_lsn = '0/1', baseline_id = gen_random_uuid()",
        ("failed", "after its baseline at 0/1", SEED),
    ),
    (
        "update cdc.baseline set system_identifier = '2', baseline_id = gen_random_uuid()",
        ("failed", "another cluster", SEED),
    ),
    ("delete from cdc.baseline", ("failed", "is gone", SEED)),
    (
        "update cdc.slot_position set position_lsn = start_lsn",
        ("failed", f"the change log only up to {lsn.show(START)}", SEED),
    ),
    (BEYOND_THE_LOG, ("failed", "holds changes only up to", SEED)),
    (
        "delete from cdc.registered_model where declared_name = 'ft_service_stats'",
        ("waits", "it is not registered for slot", "loader setup"),
    ),
    (
        "update cdc.slot_position set position_lsn = '1/0'; "
        "delete from cdc.logged_table where table_name = 'notifications'",
        ("waits", LACKS, SEED),
    ),
    (
        "update cdc.slot_position set position_lsn = '1/0'; "
        """update cdc.logged_table set held_since = '{"service_id": "0/0", "template_id": "0/0", """
        """"notification_type": "0/0", "notification_status": "0/90000000"}' """
        "where table_name = 'notifications'",
        ("waits", LACKS, SEED),
    ),
]
"""What is done to a model that follows, and then its state, the reason and the remedy."""


def stored(warehouse: Warehouse) -> Any:
    return warehouse.counts(), warehouse.execute("select * from cdc.model_watermark")


def follows(warehouse: Warehouse) -> Any:
    """Bring a model with a baseline to where it follows, and return what is stored."""
    warehouse.seed({}, at=START)
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(MODEL)
    return stored(warehouse)


def test_what_cannot_be_right_is_refused_and_what_lacks_something_waits(
    warehouse: Warehouse,
) -> None:
    before = follows(warehouse)
    applied = "select state, reason, remedy from cdc.apply(%s) where model_name = %s"
    for statement, (state, sentence, remedy) in CASES:
        warehouse.execute(f"begin; {statement}")
        ((found, reason, told),) = warehouse.execute(applied, SLOT, MODEL)
        assert (found, sentence in reason, remedy in told) == (state, True, True), statement
        assert stored(warehouse) == before
        warehouse.execute("rollback")


def test_dbt_prints_what_is_refused_and_what_waits(warehouse: Warehouse) -> None:
    before = follows(warehouse)
    warehouse.execute(BEYOND_THE_LOG)
    run = ("run", "--select", MODEL)
    for words, sentence in (
        (run, "holds changes only up to"),
        ((*run, "--full-refresh"), "the change log starts at 1/0"),
    ):
        reason, remedy = warehouse.must_fail(*words).split("HINT")
        assert sentence in reason and "spark/seed.py" in remedy
    warehouse.execute("delete from cdc.registered_model where declared_name = 'ft_service_stats'")
    assert "WAITS: it is not registered for slot" in messages(warehouse.must(*run))
    warehouse.execute("delete from cdc.slot_position")
    reason, remedy = warehouse.must_fail(*run).split("HINT")
    assert "no change log for slot" in reason and "loader setup" in remedy
    assert stored(warehouse) == before


def test_a_second_slot_on_a_model_is_refused(warehouse: Warehouse) -> None:
    other = "another_slot"
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(MODEL)
    warehouse.slot, warehouse.position = other, START + 0x9000
    warehouse.add_slot(other)
    warehouse.append([change("I", LIVE, new=row(notification_status="of another"))])
    # As if setup had not refused it.
    warehouse.register(MODEL, slot=other)
    warehouse.seed_model(MODEL, {}, at=START + 0x9000)
    before = stored(warehouse)
    warehouse.install(MODEL)
    for refresh in (False, True):
        said = warehouse.refused(MODEL, refresh=refresh)
        assert f"it is built from the slot {SLOT}" in said
        assert f"set LOADER_SLOT={SLOT}, or write a model for each slot" in said
        assert stored(warehouse) == before
    # A registration alone is enough: the other slot's build may come at any time.
    warehouse.execute("delete from cdc.model_watermark")
    assert f"is built from the slot {SLOT}" in warehouse.refused(MODEL)
    assert f"then `spark-submit {SEED}`" in said
    pasted = re.findall(r"delete from .*?;", said)
    assert len(pasted) == 4
    warehouse.execute("".join(pasted))
    warehouse.build(MODEL)
    assert [key[3] for key in warehouse.counts()] == ["of another"]
    assert warehouse.value("select slot_name from cdc.model_watermark") == other


def test_a_caller_s_older_snapshot_is_refused(warehouse: Warehouse) -> None:
    for level in ("REPEATABLE READ", "SERIALIZABLE"):
        warehouse.execute(f"begin isolation level {level}")
        with pytest.raises(psycopg2.errors.RaiseException, match="needs READ COMMITTED"):
            warehouse.execute("select cdc.apply(%s)", SLOT)
        warehouse.execute("rollback")


def test_an_empty_build_autocommit_and_no_name_of_a_slot_are_refused(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.append([change("I", LIVE, new=row())])
    run = ("run", "--select", MODEL)
    for part in (["--empty"], ["--sample", "3 days"]):
        said = warehouse.must_fail(*run, *part)
        assert "pass over changes without applying them" in said
    profile = warehouse.project.home / "profiles.yml"
    usual = profile.read_text()
    try:
        profile.write_text(usual + "      autocommit: true\n")
        assert "remove autocommit from the profile" in warehouse.must_fail(*run)
    finally:
        profile.write_text(usual)
    with monkeypatch.context() as patch:
        patch.setenv("LOADER_SLOT", "x' or true --")
        assert "a slot has lower-case letters" in warehouse.must_fail(*run)
    warehouse.build(MODEL)
    assert list(warehouse.counts().values()) == [(1, 0)]


def test_where_the_log_is_pruned_after_the_baseline_only_a_rebuild_is_refused(
    warehouse: Warehouse,
) -> None:
    """And a new model waits: it would lack what the log held before."""
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(MODEL)
    pruned = warehouse.position
    warehouse.prune()
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(MODEL)
    assert list(warehouse.counts().values()) == [(2, 0)]

    said = warehouse.refused(MODEL, refresh=True)
    assert f"starts at {lsn.show(pruned)}, after its baseline at {lsn.show(START)}" in said
    assert SEED in said.split("HINT")[1]
    assert warehouse.execute("select * from analytics.ft_key_types") == []
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(MODEL)
    assert list(warehouse.counts().values()) == [(3, 0)], "a refused rebuild holds up nothing"

    warehouse.seed({}, at=pruned)
    warehouse.build(MODEL)
    assert list(warehouse.counts().values()) == [(2, 0)]
    group = (row()["service_id"], "normal")
    warehouse.seed_model("ft_key_types", {LIVE: {group: [7]}})
    warehouse.build("ft_key_types")
    assert warehouse.value("select sum(count) from analytics.ft_key_types") == 7


def test_what_was_lost_is_made_again(warehouse: Warehouse) -> None:
    """The watermark by the next apply, the table by any build."""
    follows(warehouse)
    warehouse.execute("delete from cdc.model_watermark")
    warehouse.build(MODEL)
    assert list(warehouse.counts().values()) == [(1, 0)]
    warehouse.execute("drop table analytics.ft_service_stats cascade")
    warehouse.must("run", "--select", MODEL)
    assert list(warehouse.counts().values()) == [(1, 0)]
    applied = "select applied_lsn::text from cdc.model_watermark"
    assert warehouse.value(applied) == lsn.show(warehouse.position)


def findings(warehouse: Warehouse) -> dict[str, str]:
    """What `loader status` finds of the installed models, with the remedies."""
    with closing(connect_target(warehouse.cluster.dsn(DATABASE), SLOT)) as target:
        stored = target_state.read_stored(target)
    assert stored is not None
    found = of_models([model for model in stored.models if model.remedy != "`dbt build`"])
    return {str(each): each.remedy for each in found}


def test_models_that_need_the_same_are_one_finding(warehouse: Warehouse) -> None:
    warehouse.seed({}, at=START)
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(MODEL, "ft_services", "ft_key_types")
    warehouse.execute("update cdc.model_watermark set declaration = null, baseline_id = null")
    warehouse.execute("delete from cdc.baseline where declared_name <> 'ft_service_stats'")
    both = "`spark-submit spark/seed.py --model ft_key_types --model ft_services`"
    assert findings(warehouse) == {
        "The models ft_key_types, ft_services wait: it waits for its seed: without the rows from "
        "before its numbers would be wrong": both
    }
