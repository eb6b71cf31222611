"""What dbt has installed is what is followed, and nothing else."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from testkit.commands import RunningLoader, wait_until
from testkit.databases import Database
from testkit.model import NOTIFY, counting

UNRELATED = counting("public.unrelated", "note")
HELD = "select held_since from cdc.logged_table where held_since <> '{}'"
TO_UNRELATED = "insert into unrelated (note) select 'x' from generate_series(1, %s)"


@pytest.fixture
def source(source: Database) -> Database:
    """An application that follows none of its tables yet, and may follow each."""
    source.execute("alter table unrelated replica identity full")
    return source


def registered(source: Database) -> dict[str, str]:
    """The text of each registered model."""
    return dict(source.execute("select model_name, reading ->> 'text' from cdc.registered_model"))


def staged_of(source: Database, table: str, since: str = "0/0") -> int:
    found = "select count(*) from cdc.change_log where payload::jsonb ->> 'table' = %s"
    return int(source.value(f"{found} and commit_lsn >= %s", table, since))


def test_where_nothing_is_installed_the_slot_is_followed_and_nothing_stored(
    source: Database,
) -> None:
    declared = source.manifest
    source.declare()
    source.must("setup")
    source.insert(3)
    source.must("run", "--once")
    assert source.staged() == 0
    followed = "select position_lsn > start_lsn from cdc.slot_position"
    assert source.value(followed), "it holds no WAL back"
    source.manifest = declared
    source.must("setup")
    source.insert(2)
    source.must("run", "--once")
    assert source.staged() == 2


def test_setup_says_what_dbt_is_to_make(source: Database) -> None:
    said = source.must("setup")
    assert "ft_service_stats is to be made by `dbt build`: fact of public.notification_h" in said
    before = registered(source)
    changed = counting("public.notifications", "notification_status")
    source.declare(ft_service_stats=changed, ft_new=UNRELATED)
    to_make = "ft_new is to be made by `dbt build`: fact of public.unrelated"
    assert source.must("setup", "--check") == f"{to_make}\nEverything is set up.\n"
    assert registered(source) == before
    assert source.must("setup") == f"{to_make}\nEverything is set up already.\n"
    assert registered(source) == {"ft_service_stats": changed.text, "ft_new": UNRELATED.text}
    assert source.must("setup") == "Everything is set up already.\n"


def test_a_model_that_is_forgotten_leaves_its_table_and_nothing_else(source: Database) -> None:
    source.declare(ft_service_stats=NOTIFY, ft_gone=UNRELATED)
    source.must("setup")
    source.take_baseline()
    source.execute(
        "insert into cdc.ignored_delete select slot_name, relation, 'rows', '0/1', '{a}', '{1}' "
        "from cdc.installed_model;"
        "insert into cdc.baseline_group select slot_name, model_name, 'rows', '{a}', '{1}' "
        "from cdc.baseline;"
        "insert into cdc.baseline_rejection select slot_name, model_name, 'rows', 'odd', 1, "
        "'{}' from cdc.baseline;"
        "insert into cdc.model_watermark (relation, slot_name, applied_lsn) "
        "select relation, slot_name, '0/1' from cdc.installed_model"
    )
    assert source.must("forget", "ft_gone") == "forgot analytics.ft_gone; the table stays\n"
    for table in ("registered_model", "baseline", "baseline_group", "baseline_rejection"):
        assert source.execute(f"select model_name from cdc.{table}") == [("ft_service_stats",)]
    for table in ("model_watermark", "installed_model", "ignored_delete"):
        left = source.execute(f"select relation from cdc.{table}")
        assert left == [("analytics.ft_service_stats",)], table
    assert source.value("select to_regclass('analytics.ft_gone') is not null")
    source.refused_with(2, "No model ft_gone is installed", "forget", "ft_gone")
    source.execute(TO_UNRELATED, 2)
    source.must("run", "--once")
    assert source.staged() == 0, "its table is no longer followed"


def test_a_second_slot_on_a_model_that_cannot_tell_them_apart_is_refused(source: Database) -> None:
    second = {"LOADER_SLOT": f"{source.slot}_second"}
    source.must("setup")
    source.must("teardown", "--yes")
    source.execute(
        "insert into cdc.model_watermark (relation, slot_name, applied_lsn) "
        "values ('analytics.ft_service_stats', 'former', '0/1')"
    )
    said = source.refused_with(2, "fed by the slot former", "setup")
    assert "loader teardown --drop-data --slot former" in said
    source.execute("delete from cdc.model_watermark")
    source.must("setup")
    for arguments in (("setup",), ("setup", "--check")):
        fed = f"ft_service_stats is fed by the slot {source.slot}"
        said = source.refused_with(2, fed, *arguments, **second)
        assert "write a model for each slot, and one that reads both by ref()" in said
    assert source.execute("select slot_name from cdc.slot_position") == [(source.slot,)]
    slots = "select count(*) from pg_replication_slots where slot_name = %s"
    assert source.value(slots, second["LOADER_SLOT"]) == 0, "nothing was made"


def test_run_refuses_a_table_that_is_gone_and_confirms_nothing(source: Database) -> None:
    source.must("setup")
    source.must("run", "--once")
    source.insert(3)
    source.execute("alter table notifications rename to away")
    source.refused_with(17, "public.notifications does not exist", "run", "--once")
    assert source.staged() == 0
    source.execute("alter table away rename to notifications")
    source.must("run", "--once")
    assert source.staged() == 3


def test_what_is_held_is_noted_by_a_session_and_forgotten_by_a_renewal(
    source: Database,
) -> None:
    source.must("setup")
    assert source.execute(HELD) == []
    source.must("run", "--once")
    held = source.execute(HELD)
    assert len(held) == 2
    source.must("setup", "--renew")
    assert source.execute(HELD) == []


@pytest.mark.parametrize(
    "place", ["before-followed", pytest.param("after-followed", marks=pytest.mark.slow)]
)
def test_a_loader_killed_where_it_begins_to_follow_a_new_table_loses_nothing(
    source: Database, tmp_path: Path, place: str
) -> None:
    source.must("setup")
    killed = source.environment(WALTALLY_KILL_AT=f"{place}:2")
    with RunningLoader(killed, tmp_path / "log") as running:
        running.wait_for("following the slot")
        source.insert(3)
        wait_until(lambda: source.staged() == 3, "it stages")
        source.declare(ft_service_stats=NOTIFY, ft_new=UNRELATED)
        source.must("setup")
        source.insert(4)
        before = source.value("select pg_current_wal_insert_lsn()")
        source.execute(TO_UNRELATED, 5)
        wait_until(lambda: running.process.poll() is not None, "it dies")
        assert running.process.returncode == -signal.SIGKILL
    source.execute(TO_UNRELATED, 1)
    source.must("run", "--once")
    assert staged_of(source, "notifications") == 7
    since = "select held_since ->> '*' from cdc.logged_table where table_name = 'unrelated'"
    at = source.value(since)
    held = staged_of(source, "unrelated", at)
    assert staged_of(source, "unrelated") == held >= 1
    if source.value("select %s::pg_lsn <= %s::pg_lsn", at, before):
        assert held == 6, "what the log says that it holds is there"
