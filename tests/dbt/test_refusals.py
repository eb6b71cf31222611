"""What cannot be right is refused with a sentence and a remedy, and changes nothing."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from tests.dbt.warehouse import FACT, SLOT, Warehouse, messages
from tests.dbt.workload import ARCHIVE, LIVE, SERVICES, TEMPLATES, change, row
from waltally import lsn

REFUSALS = {
    "no_slot": ("delete from cdc.slot_position", (), "no change log for slot", "loader setup"),
    "log_starts_after_seed": (
        "update cdc.historical_snapshot set snapshot_lsn = '0/1', seed_id = gen_random_uuid()",
        (),
        "after the baseline at 0/1",
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


def refused(warehouse: Warehouse, *words: str) -> tuple[str, str]:
    """Sentence and hint of a build that changes nothing."""
    state = warehouse.counts(), warehouse.execute("select * from cdc.model_watermark")
    done = warehouse.dbt("run", *FACT, *words)
    assert not done.success
    sentence, hint = messages(done).split("HINT", 1)
    assert state == (warehouse.counts(), warehouse.execute("select * from cdc.model_watermark"))
    return sentence, hint


@pytest.mark.parametrize(
    "tables",
    [
        "public.other,public.notification_history",
        f"{ARCHIVE},{LIVE}",
        'public."Notifications",public.notification_history',
    ],
)
def test_other_tables_than_the_registered_ones_are_refused(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, tables: str
) -> None:
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(*FACT)
    warehouse.append([change("I", LIVE, new=row())])
    monkeypatch.setenv("LOADER_TABLES", tables)
    sentence, hint = refused(warehouse)
    assert f"dbt counts {tables}, and loader setup registered {LIVE},{ARCHIVE}" in sentence
    (right,) = re.findall("export (LOADER_TABLES=.*)", hint)
    name, _, value = shlex.split(right)[0].partition("=")
    monkeypatch.setenv(name, value)
    warehouse.build(*FACT)
    assert list(warehouse.counts().values()) == [(2, 0)]


def test_registered_tables_that_are_not_the_default_need_the_setting(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a setup with LOADER_TABLES and a dbt build without it."""
    warehouse.execute(
        "update cdc.slot_position set registered_tables = %s",
        json.dumps([["It's", "odd, name"], ["public", "Archive"], ["public", "more"]]),
    )
    warehouse.append([change("I", LIVE, new=row())])
    done = warehouse.dbt("run", *FACT)
    assert not done.success
    sentence, hint = messages(done).split("HINT", 1)
    assert """registered "It's"."odd, name",public."Archive\"""" in sentence
    (right,) = re.findall("export (LOADER_TABLES=.*)", hint)
    value = shlex.split(right)[0].partition("=")[2]
    assert value == """"It's"."odd, name",public."Archive",public.more"""
    monkeypatch.setenv("LOADER_TABLES", value)
    warehouse.build(*FACT)


OTHER = "another_slot"


def add_slot(warehouse: Warehouse) -> None:
    """A second slot, with a log of its own that holds one row."""
    warehouse.execute(
        "insert into cdc.slot_position (slot_name, system_identifier, source_database, "
        "start_lsn, position_lsn, registered_tables) select %s, system_identifier, "
        "source_database, '0/9000', '0/9100', registered_tables from cdc.slot_position",
        OTHER,
    )
    warehouse.execute(
        "insert into cdc.change_log (slot_name, commit_lsn, ordinal, xid, committed_at, payload) "
        "values (%s, '0/9050', 1, 1, now(), %s)",
        OTHER,
        json.dumps(change("I", LIVE, new=row(notification_status="of another"))),
    )


def paste(warehouse: Warehouse, hint: str) -> None:
    """Execute the SQL of a hint, as an operator would paste it."""
    (statement,) = re.findall(r"delete from .*?;", hint)
    warehouse.execute(statement)


def test_a_second_slot_on_a_fact_is_refused(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.append([change("I", LIVE, new=row())])
    warehouse.build(*FACT)
    add_slot(warehouse)
    monkeypatch.setenv("LOADER_SLOT", OTHER)
    for words in ((), ("--full-refresh",)):
        sentence, hint = refused(warehouse, *words)
        assert f"analytics.ft_service_stats is built from the slot {SLOT}" in sentence
        assert f"Set LOADER_SLOT={SLOT}." in hint
    paste(warehouse, hint)
    warehouse.execute("delete from cdc.slot_position where slot_name = %s", SLOT)
    assert "and then: dbt build --full-refresh" in hint
    warehouse.build(*FACT, "--full-refresh")
    assert list(warehouse.counts().values()) == [(1, 0)]
    assert warehouse.execute("select slot_name from cdc.model_watermark") == [(OTHER,)]


def test_a_slot_without_a_seed_cuts_no_seeded_fact(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = (SERVICES[0], TEMPLATES[0], "email", "created")
    warehouse.seed({group: (100, 0)})
    warehouse.build(*FACT)
    add_slot(warehouse)
    monkeypatch.setenv("LOADER_SLOT", OTHER)
    _, hint = refused(warehouse)
    paste(warehouse, hint)
    for words in ((), ("--full-refresh",)):
        sentence, hint = refused(warehouse, *words)
        assert "holds counts, and nothing says that they come from the slot" in sentence
        assert "Run spark-submit spark/seed.py" in hint
    warehouse.execute(
        "insert into cdc.historical_snapshot (slot_name, seed_id, snapshot_lsn, system_identifier) "
        "select %s, gen_random_uuid(), '0/9000', '1'",
        OTHER,
    )
    warehouse.build(*FACT)
    assert [key[3] for key in warehouse.counts()] == ["of another"]


def test_a_slot_s_name_is_checked(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse.build(*FACT)
    for name in ("x' or true --", "Slot", ""):
        monkeypatch.setenv("LOADER_SLOT", name)
        assert "a slot has lower-case letters" in messages(warehouse.dbt("run", *FACT))


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
        warehouse.build(*FACT, *words)
        assert list(warehouse.counts().values()) == [(1, 0)]
        assert warehouse.execute("select applied_lsn::text from cdc.model_watermark") == [
            (lsn.show(warehouse.position),)
        ]
