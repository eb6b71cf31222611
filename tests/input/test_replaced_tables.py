"""A name that comes to mean another table or column is never passed over in silence."""

from __future__ import annotations

import logging
import os

import pytest

from loader.monitoring import status
from loader.preflight import setup
from tests.input.bench import Bench
from tests.support import LOADER, run
from waltally.errors import TableReplaced

REPLACEMENTS = {
    "renamed and made again": "alter table notifications rename to former;"
    "create table notifications (like former including all);"
    "alter table notifications replica identity full",
    "dropped and made again": "create table former (like notifications including all);"
    "drop table notifications; alter table former rename to notifications;"
    "alter table notifications replica identity full",
    "a dimension made again": "alter table notifications drop notification_status;"
    "alter table notifications add notification_status text",
    "two columns swapped": "alter table notifications rename service_id to other;"
    "alter table notifications rename template_id to service_id;"
    "alter table notifications rename other to template_id",
}


def problems(bench: Bench) -> list[str]:
    body, problem = status.report(bench.settings, status.Thresholds(300, 2**40))
    assert (problem is None) == body["healthy"]
    # The tables were empty at setup: there is nothing to seed, and tests/operations has that one.
    return [
        found["kind"] for found in body["findings"] if "has no baseline" not in found["message"]
    ]


@pytest.mark.parametrize("ddl", REPLACEMENTS.values(), ids=REPLACEMENTS)
def test_a_replaced_table_or_column_is_reported_by_every_command(
    bench: Bench, ddl: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench.set_up()
    bench.database.insert(3)
    bench.catch_up()
    assert problems(bench) == []
    bench.execute(ddl)
    assert problems(bench) == ["TableReplaced"]
    assert [type(found) for found in setup.check(bench.settings)] == [TableReplaced]
    with pytest.raises(TableReplaced):
        bench.set_up()
    with caplog.at_level(logging.WARNING, "loader"):
        bench.stage()
    assert "still in the counts\nTry: `spark-submit" in caplog.text


@pytest.mark.parametrize("ddl", [REPLACEMENTS[name] for name in REPLACEMENTS if "made" in name])
def test_the_rows_of_a_former_archive_go_by_the_remedy_that_is_printed(
    bench: Bench, ddl: str
) -> None:
    bench.set_up()
    bench.database.insert(3)
    insert = (
        "insert into notification_history (id, service_id, template_id, notification_type, "
        "notification_status, created_at) select gen_random_uuid(), service_id, template_id, "
        "notification_type, 'sent', created_at from notifications"
    )
    bench.execute(insert)
    bench.must_be_exact()
    bench.execute(ddl.replace("notifications", "notification_history"))
    bench.execute(f"{insert} limit 1")
    body, _ = status.report(bench.settings, status.Thresholds(300, 2**40))
    (problem,) = [found for found in body["findings"] if found["kind"] == "TableReplaced"]
    command = problem["remedy"].split("`")[1].split()
    done = run([str(LOADER.with_name(command[0])), *command[1:]], os.environ)
    assert done.returncode == 0, done.stderr
    bench.must_be_exact()
    assert problems(bench) == []


def test_what_changes_no_meaning_is_not_reported(bench: Bench) -> None:
    bench.set_up()
    bench.database.insert(3)
    bench.execute(
        "alter table notifications rename notification_status to status;"
        "alter table notifications rename status to notification_status;"
        "alter table notifications add extra int default 7, alter billable_units type bigint;"
        "truncate notification_history"
    )
    for command in ("vacuum full notifications", "vacuum freeze", "vacuum full pg_type", "analyze"):
        bench.execute(command)
    assert problems(bench) == []
    bench.must_be_exact()


@pytest.mark.parametrize(
    "ddl",
    [
        "alter table notifications rename to away; {} alter table away rename to notifications",
        "create schema s; alter table notifications set schema s; "
        "{} alter table s.away set schema public",
    ],
    ids=["renamed", "moved"],
)
def test_a_table_under_another_name_for_a_while_is_reported_until_it_is_counted_again(
    bench: Bench, ddl: str, caplog: pytest.LogCaptureFixture
) -> None:
    bench.set_up()
    bench.database.insert(3)
    bench.catch_up()
    away = "s.notifications" if "schema s" in ddl else "away"
    ddl = ddl.replace("s.away", away)
    bench.execute(ddl.format(f"update {away} set notification_status = 'lost';"))
    assert problems(bench) == ["TableReplaced"]
    assert [type(found) for found in setup.check(bench.settings)] == [TableReplaced]
    with pytest.raises(TableReplaced, match="was renamed, moved to another schema"):
        bench.set_up()
    with caplog.at_level(logging.WARNING, "loader"):
        bench.stage()
    assert "under another name are not in the counts" in caplog.text
    done = run(
        [str(LOADER.with_name("spark-submit")), "spark/seed.py", "--forget-purged"], os.environ
    )
    assert done.returncode == 0, done.stderr
    bench.must_be_exact()
    assert problems(bench) == []


def test_a_column_under_another_name_for_a_while_has_its_changes_rejected(bench: Bench) -> None:
    bench.set_up()
    bench.database.insert(3)
    bench.catch_up()
    bench.execute("alter table notifications rename notification_status to status")
    bench.execute("update notifications set status = 'lost'")
    bench.execute("alter table notifications rename status to notification_status")
    bench.catch_up()
    assert problems(bench) == []
    assert len(bench.rejected()) == 3


def test_a_new_seed_counts_what_is_there_now(bench: Bench) -> None:
    bench.set_up()
    bench.database.insert(3)
    bench.catch_up()
    bench.execute(REPLACEMENTS["renamed and made again"])
    bench.database.insert(1)
    bench.catch_up()
    assert problems(bench) == ["TableReplaced"]
    assert sum(bench.fact()[0].values()) == 4
    done = run(
        [str(LOADER.with_name("spark-submit")), "spark/seed.py", "--forget-purged"], os.environ
    )
    assert done.returncode == 0, done.stderr
    bench.must_be_exact()
    assert problems(bench) == []
    bench.execute(
        "alter table notifications rename to away; alter table former rename to notifications"
    )
    assert problems(bench) == ["TableReplaced"]


def test_a_slot_set_up_before_tables_were_noted_notes_them(bench: Bench) -> None:
    bench.set_up()
    noted = "select source_tables from cdc.slot_position"
    before = bench.value(noted)
    assert set(before) == {"public.notifications", "public.notification_history"}
    bench.execute("update cdc.slot_position set source_tables = null")
    assert problems(bench) == []
    bench.set_up()
    assert bench.value(noted) == before


def test_changes_of_the_former_table_are_not_taken_for_the_new_one_s(bench: Bench) -> None:
    bench.set_up()
    bench.database.insert(3)
    bench.execute(REPLACEMENTS["renamed and made again"])
    bench.database.insert(2, status="sent")
    bench.execute("update former set notification_status = 'lost'; delete from former")
    bench.execute("update notifications set notification_status = 'delivered'")
    bench.catch_up()
    assert bench.rejected() == []
    live = {group[3]: count for group, count in bench.fact()[0].items()}
    assert live == {"created": 3, "delivered": 2}


def seed() -> None:
    submit = str(LOADER.with_name("spark-submit"))
    done = run([submit, "spark/seed.py", "--forget-purged"], os.environ)
    assert done.returncode == 0, done.stderr
