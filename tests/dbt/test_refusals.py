"""What cannot be right is refused with a sentence and a remedy, and changes nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from tests.dbt.warehouse import MODEL, MODELS, TABLE, Warehouse
from waltally.errors import LoaderError

SEED = f"--model {MODEL}"
BEYOND_THE_LOG = "update cdc.slot_position set start_lsn = 'FF/0', position_lsn = 'FF/0'"
FAR = "update cdc.slot_position set position_lsn = 'FF/0'"
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
        ("failed", "the change log only up to", SEED),
    ),
    (BEYOND_THE_LOG, ("failed", "holds changes only up to", SEED)),
    (
        f"{FAR}; delete from cdc.logged_table where table_name = 'notifications'",
        ("waits", LACKS, SEED),
    ),
    (
        f"{FAR}; update cdc.logged_table set held_since = held_since "
        """|| '{"notification_status": "FE/0"}' where table_name = 'notifications'""",
        ("waits", LACKS, SEED),
    ),
]
"""What is done to a model that follows, and then its state, the reason and the remedy."""


def stored(warehouse: Warehouse) -> Any:
    return warehouse.model(), warehouse.target.execute("select * from cdc.model_watermark")


def test_what_cannot_be_right_is_refused_and_what_lacks_something_waits(built: Warehouse) -> None:
    built.must_be_exact()
    before = stored(built)
    applied = "select state, reason, remedy from cdc.apply(%s) where model_name = %s"
    for statement, (state, sentence, remedy) in CASES:
        built.target.execute(f"begin; {statement}")
        ((found, reason, told),) = built.target.execute(applied, built.slot, MODEL)
        assert (found, sentence in reason, remedy in told) == (state, True, True), statement
        built.target.execute("rollback")
        assert stored(built) == before


def test_dbt_prints_what_is_refused_and_what_waits(built: Warehouse) -> None:
    def says(*sentences: str, flags: tuple[str, ...] = (), **more: str) -> None:
        done = built.call("dbt", "run", "--select", MODEL, *flags, **more)
        assert done.returncode == ("WAITS: " not in sentences[0])
        for sentence in sentences:
            assert sentence in " ".join(done.stdout.split()), done.stdout

    built.must_be_exact()
    before = stored(built)
    says("pass over changes without applying them", flags=("--empty",))
    says("pass over changes without applying them", flags=("--sample", "3 days"))
    says("a slot has lower-case letters", LOADER_SLOT="x' or true --")
    other = Path(built.environment()["DBT_PROFILES_DIR"]) / "other"
    other.mkdir()
    text = (other.parent / "profiles.yml").read_text()
    (other / "profiles.yml").write_text(text + "      autocommit: true\n")
    says("remove autocommit from the profile", DBT_PROFILES_DIR=str(other))
    built.target.execute(BEYOND_THE_LOG)
    says("holds changes only up to", "HINT: ", SEED)
    says("the change log starts at FF/0", "HINT: ", SEED, flags=("--full-refresh",))
    built.target.execute("delete from cdc.slot_position")
    says("no change log for slot", "HINT: ", "loader setup")
    assert stored(built) == before


def test_a_second_slot_on_a_model_is_refused(built: Warehouse) -> None:
    built.must_be_exact()
    built.target.execute(
        "insert into cdc.slot_position select (jsonb_populate_record(own,"
        """ jsonb_build_object('slot_name', 'other', 'start_lsn', position_lsn))).*"""
        " from cdc.slot_position as own"
    )
    built.target.execute(
        "insert into cdc.logged_table select (jsonb_populate_record(own,"
        """ '{"slot_name": "other", "held_since": {"*": "0/0"}}')).*"""
        " from cdc.logged_table as own;"
        "insert into cdc.baseline select (jsonb_populate_record(own, jsonb_build_object("
        "'slot_name', 'other', 'snapshot_lsn', position_lsn))).* from cdc.baseline as own, "
        f"cdc.slot_position as at where at.slot_name = 'other' and model_name = '{MODEL}'"
    )
    before = stored(built)
    for is_refresh in (False, True):
        with pytest.raises(LoaderError, match=f"it is built from the slot {built.slot}") as refused:
            built.put(MODEL, is_refresh=is_refresh, slot="other")
    cause = refused.value.__cause__
    assert isinstance(cause, psycopg2.Error)
    said = str(cause.diag.message_hint)
    assert stored(built) == before
    assert built.states()[MODEL] == "follows"
    assert f"set LOADER_SLOT={built.slot}, or write a model for each slot" in said
    assert f"then `spark-submit spark/seed.py {SEED}`" in said
    pasted = re.findall(r"delete from .*?;", said)
    assert len(pasted) == 3
    built.target.execute("".join(pasted))
    built.put(MODEL, slot="other")
    built.target.execute("select from cdc.apply('other')")
    assert built.model() == {}
    moved = f"select slot_name from cdc.model_watermark where relation = '{TABLE}'"
    assert built.target.value(moved) == "other"


def test_a_caller_s_older_snapshot_is_refused(warehouse: Warehouse) -> None:
    for level in ("REPEATABLE READ", "SERIALIZABLE"):
        warehouse.target.execute(f"begin isolation level {level}")
        with pytest.raises(psycopg2.Error, match="needs READ COMMITTED"):
            warehouse.target.execute("select cdc.apply(%s)", warehouse.slot)
        warehouse.target.execute("rollback")


def test_where_the_log_is_pruned_after_the_baseline_only_a_rebuild_is_refused(
    built: Warehouse,
) -> None:
    built.must_be_exact()
    pruned = built.position()
    built.prune()
    built.source.insert(1)
    built.must_be_exact()
    said = f"starts at {pruned}, after its baseline at "
    with pytest.raises(LoaderError, match=said):
        built.put(MODEL, is_refresh=True)
    built.source.insert(1)
    built.must_be_exact()
    built.seed()
    built.must_be_exact()
    built.put(MODEL, is_refresh=True)
    built.must_be_exact()


def test_models_that_need_the_same_are_one_finding(warehouse: Warehouse) -> None:
    warehouse.target.execute("delete from cdc.baseline")
    warehouse.put(*MODELS)
    found = {each["message"]: each["remedy"] for each in warehouse.findings()}
    waits = "it waits for its seed: without the rows from before its numbers would be wrong"
    flags = " ".join(f"--model {name}" for name in sorted(MODELS))
    seed = f"`spark-submit spark/seed.py {flags}`"
    assert found[f"The models {', '.join(sorted(MODELS))} wait: {waits}"] == seed
