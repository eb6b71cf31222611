"""What cannot be right is refused with a sentence and a remedy, and changes nothing."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.dbt.project import messages
from tests.dbt.staged import FACT, SLOT, Warehouse
from tests.dbt.workload import LIVE, change, row
from waltally import lsn

FAILURES = {
    "no_slot": ("delete from cdc.slot_position", (), "no change log for slot", "loader setup"),
    "log_starts_after_seed": (
        "update cdc.baseline set snapshot_lsn = '0/1', baseline_id = gen_random_uuid()",
        (),
        "after its baseline at 0/1",
        "spark/seed.py",
    ),
    "seed_of_another_cluster": (
        "update cdc.baseline set system_identifier = '2', baseline_id = gen_random_uuid()",
        (),
        "another cluster",
        "spark/seed.py",
    ),
    "seed_is_gone": (
        "delete from cdc.baseline",
        (),
        "is gone",
        "dbt build --full-refresh",
    ),
    "log_ends_before_watermark": (
        "update cdc.slot_position set position_lsn = start_lsn",
        (),
        "the change log only up to 0/1000",
        "spark/seed.py",
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

WAITS = {
    "not_registered": (
        "delete from cdc.fact where fact_name = 'ft_service_stats'",
        (),
        "it is not registered for slot",
        "loader setup",
    ),
    "registered_otherwise": (
        "update cdc.fact set declaration = jsonb_set(declaration, '{tables, 0, table}', '\"x\"')",
        (),
        "it declares something else than loader setup registered",
        "loader setup",
    ),
    "deletes_registered_otherwise": (
        "update cdc.fact set declaration = jsonb_set(declaration, '{tables, 1, deletes}', "
        "'\"count\"')",
        ("--full-refresh",),
        "it declares something else than loader setup registered",
        "loader setup",
    ),
    "log_lacks_a_table": (
        "update cdc.slot_position set position_lsn = '1/0'; "
        "delete from cdc.logged_table where table_name = 'notifications'",
        (),
        "the change log does not hold everything that it needs from",
        "spark/seed.py --fact ft_service_stats",
    ),
    "log_lacks_a_column": (
        "update cdc.slot_position set position_lsn = '1/0'; "
        """update cdc.logged_table set held_since = '{"service_id": "0/0", "template_id": "0/0", """
        """"notification_type": "0/0", "notification_status": "0/9000"}' """
        "where table_name = 'notifications'",
        (),
        "the change log does not hold everything that it needs from",
        "spark/seed.py --fact ft_service_stats",
    ),
}
STATE = "select state from cdc.fact_state where model_name = 'analytics.ft_service_stats'"


def broken(warehouse: Warehouse, statement: str) -> Any:
    """Execute a statement on a fact that follows; return what no build may change then."""
    warehouse.seed({}, at=0x1000)
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(*FACT)
    warehouse.execute(statement)
    return stored(warehouse)


def stored(warehouse: Warehouse) -> Any:
    return warehouse.counts(), warehouse.execute("select * from cdc.model_watermark")


@pytest.mark.parametrize("name", FAILURES)
def test_what_cannot_be_right_is_refused(warehouse: Warehouse, name: str) -> None:
    statement, words, sentence, remedy = FAILURES[name]
    before = broken(warehouse, statement)

    done = warehouse.dbt("run", *FACT, *words)

    assert not done.success
    said = messages(done)
    assert sentence in said
    assert "HINT" in said
    assert remedy in said.split("HINT")[1]
    assert stored(warehouse) == before
    assert warehouse.execute(STATE) == ([] if name == "no_slot" else [("failed",)])


@pytest.mark.parametrize("name", WAITS)
def test_what_lacks_something_waits_for_it(warehouse: Warehouse, name: str) -> None:
    statement, words, sentence, remedy = WAITS[name]
    before = broken(warehouse, statement)

    done = warehouse.dbt("run", *FACT, *words)

    assert done.success
    assert "WAITS: " in messages(done)
    assert sentence in messages(done)
    assert remedy in messages(done).split(sentence)[1]
    assert stored(warehouse) == before
    assert warehouse.execute(STATE) == [("waits",)]


def refused(warehouse: Warehouse, *words: str) -> tuple[str, str]:
    """Sentence and hint of a build that changes nothing."""
    before = stored(warehouse)
    done = warehouse.dbt("run", *FACT, *words)
    assert not done.success
    sentence, hint = messages(done).split("HINT", 1)
    assert stored(warehouse) == before
    return sentence, hint


OTHER = "another_slot"


def add_slot(warehouse: Warehouse) -> None:
    """A second slot, with a log of its own that holds one row."""
    first = warehouse.position
    warehouse.position = 0x9000
    warehouse.add_slot(OTHER)
    warehouse.append([change("I", LIVE, new=row(notification_status="of another"))], slot=OTHER)
    warehouse.position = first


def paste(warehouse: Warehouse, hint: str) -> None:
    """Execute the SQL of a hint, as an operator would paste it."""
    statements = re.findall(r"delete from .*?;", hint)
    assert len(statements) == 4
    warehouse.execute("".join(statements))


def register_there(warehouse: Warehouse) -> None:
    """Register the fact for the second slot, as if setup had not refused it."""
    found = [fact for fact in warehouse.project.facts() if fact.name == "ft_service_stats"]
    warehouse.register(*found, slot=OTHER)


def test_a_second_slot_on_a_fact_is_refused(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(*FACT)
    add_slot(warehouse)
    register_there(warehouse)
    monkeypatch.setenv("LOADER_SLOT", OTHER)
    for words in ((), ("--full-refresh",)):
        sentence, hint = refused(warehouse, *words)
        assert f"it is built from the slot {SLOT}" in sentence
        assert f"set LOADER_SLOT={SLOT}, or give the fact a dimension {{'from': 'slot'}}" in hint
    # A registration alone is enough: the other slot's build may come at any time.
    warehouse.execute("delete from cdc.model_watermark")
    assert f"is built from the slot {SLOT}" in refused(warehouse)[0]
    paste(warehouse, hint)
    assert "then `spark-submit spark/seed.py --fact ft_service_stats`" in hint
    sentence, hint = refused(warehouse)
    assert "holds counts, and nothing says that they come from the slot" in sentence
    warehouse.seed_fact("ft_service_stats", {}, at=0x9000, slot=OTHER)
    warehouse.build(*FACT)
    assert [key[3] for key in warehouse.counts()] == ["of another"]
    assert warehouse.execute("select slot_name from cdc.model_watermark") == [(OTHER,)]


def test_a_slot_s_name_is_checked(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse.build(*FACT)
    for name in ("x' or true --", "Slot", ""):
        monkeypatch.setenv("LOADER_SLOT", name)
        assert "a slot has lower-case letters" in messages(warehouse.dbt("run", *FACT))


def test_a_full_refresh_accepts_that_the_seed_is_gone(warehouse: Warehouse) -> None:
    warehouse.seed({})
    warehouse.build(*FACT)
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.execute("delete from cdc.baseline")
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
    profile = warehouse.project.home / "profiles.yml"
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
    for loss, words in (
        ("drop table analytics.ft_service_stats", ()),
        ("delete from cdc.model_watermark", ("--full-refresh",)),
    ):
        warehouse.execute(loss)
        if words:
            said = messages(warehouse.dbt("run", *FACT))
            assert "nothing says that they come from the slot" in said
            assert "dbt build --full-refresh" in said.split("HINT")[1]
        warehouse.install(*FACT, *words)
        assert list(warehouse.counts().values()) == [(1, 0)]
        assert warehouse.execute("select applied_lsn::text from cdc.model_watermark") == [
            (lsn.show(warehouse.position),)
        ]
