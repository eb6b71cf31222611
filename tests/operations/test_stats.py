"""`loader stats` says what the fact says, how fresh that is, and what is missing."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from testkit.commands import sentence
from testkit.databases import Database, application_database
from testkit.facts import column, declare
from testkit.fixtures import WAREHOUSE
from testkit.models import Models
from testkit.pipeline import Pipeline
from testkit.servers import Cluster

FACT = "ft_service_stats"
NOBODY = "00000000-0000-0000-0000-000000000000"


@pytest.fixture(scope="module")
def built(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory, models: Models
) -> Iterator[Database]:
    """Seven notifications of one service, staged and built."""
    with application_database(cluster, WAREHOUSE) as database:
        pipeline = Pipeline(database, tmp_path_factory.mktemp("stats"), models)
        database.must("setup")
        database.insert(3, "delivered")
        database.insert(2, "created")
        database.execute(
            "update notifications set notification_type = 'sms' where id in "
            "(select id from notifications where notification_status = 'delivered' limit 2)"
        )
        database.insert(2, "delivered")
        pipeline.must("run", "--once", "--build")
        yield database


def service(database: Database) -> str:
    return str(database.value("select distinct service_id from notifications"))


def as_json(database: Database, *words: str, **environment: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        database.must("stats", FACT, *words, "--json", **environment)
    )
    return found


def test_a_person_sees_a_line_per_value_and_totals(built: Database) -> None:
    said = built.must("stats", FACT, "--by", "notification_type,notification_status")
    rows = [words for line in said.splitlines() if (words := numbers(line))]
    assert rows == [
        ["email", "created", "2", "0"],
        ["email", "delivered", "3", "0"],
        ["sms", "delivered", "2", "0"],
        ["total", "7", "0"],
    ]
    assert re.search(r"notification_type +.* notification_status .* live_count", said), said
    assert "nothing more is staged" in said


def test_a_person_sees_the_measures_of_what_was_asked_for(built: Database) -> None:
    said = built.must("stats", FACT, "notification_type=email", f"service_id={service(built)}")
    assert f"analytics.{FACT} where notification_type = email, service_id = " in said
    assert [words for line in said.splitlines() if (words := numbers(line))] == [["5", "0"]]


def numbers(line: str) -> list[str]:
    """The words of a row of the table, without its frame; none for another line."""
    words = re.sub(r"[^\w\s,-]", " ", line).split()
    return words if len(words) > 1 and words[-1].isdigit() and words[-2].isdigit() else []


def test_a_program_gets_the_documented_fields(built: Database) -> None:
    found = as_json(built, "--by", "notification_type,notification_status")
    (freshness,) = found.pop("freshness")
    (note,) = cast("list[str]", found.pop("notes"))
    assert note.startswith(f"{FACT} follows, but it has no baseline, so rows from before the slot")
    assert found == {
        "version": 2,
        "fact": FACT,
        "relation": f"analytics.{FACT}",
        "where": {},
        "by": ["notification_type", "notification_status"],
        "lines": [
            {
                "notification_type": kind,
                "notification_status": status,
                "live_count": count,
                "archived_count": 0,
            }
            for kind, status, count in (
                ("email", "created", 2),
                ("email", "delivered", 3),
                ("sms", "delivered", 2),
            )
        ],
        "totals": {"live_count": 7, "archived_count": 0},
    }
    ((applied, position),) = built.execute(
        "select applied_lsn::text, position_lsn::text from cdc.model_watermark "
        "inner join cdc.slot_position using (slot_name) "
        "where model_name = 'analytics.ft_service_stats'"
    )
    assert freshness.pop("moved_at")
    assert freshness == {
        "slot": built.slot,
        "applied_lsn": applied,
        "position_lsn": position,
        "is_behind": False,
    }


def test_what_is_staged_and_not_applied_is_told(built: Database) -> None:
    applied = built.value(
        "select applied_lsn from cdc.model_watermark where model_name ~ 'ft_service_stats'"
    )
    move = "update cdc.model_watermark set applied_lsn = %s where model_name ~ 'ft_service_stats'"
    built.execute(move, "0/0")
    try:
        (freshness,) = as_json(built)["freshness"]
    finally:
        built.execute(move, applied)
    assert freshness["is_behind"] is True


def test_a_reader_of_the_fact_needs_to_read_its_declaration_alone(built: Database) -> None:
    built.execute(
        "create role only_a_reader login; grant usage on schema analytics, cdc to only_a_reader; "
        "grant select on analytics.ft_service_stats, cdc.fact to only_a_reader"
    )
    try:
        found = as_json(built, PGUSER="only_a_reader")
    finally:
        built.execute("drop owned by only_a_reader; drop role only_a_reader")
    assert (found["totals"]["live_count"], found["freshness"], found["notes"]) == (7, None, None)


def test_a_remedy_has_a_line_of_its_own(built: Database) -> None:
    assert f"\nTry: `spark-submit spark/seed.py --fact {FACT}`\n" in built.must("stats", FACT)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("is_refresh_asked = true", "waits: dbt asked for a full refresh.\nTry: `loader run"),
        ("error = 'no room', remedy = 'make some'", "failed: no room.\nTry: make some\n"),
    ],
)
def test_a_fact_that_does_not_follow_says_so(built: Database, change: str, said: str) -> None:
    built.execute(f"update cdc.installed_model set {change}")
    try:
        assert f"\n{FACT} {said}" in built.must("stats", FACT)
    finally:
        built.execute(
            "update cdc.installed_model set error = null, remedy = null, is_refresh_asked = false"
        )


def test_a_group_that_nobody_has_counts_nothing(built: Database) -> None:
    found = as_json(built, f"service_id={NOBODY}")
    assert (found["lines"], found["totals"]) == ([], {"live_count": 0, "archived_count": 0})
    assert "total" in built.must("stats", FACT, f"service_id={NOBODY}", "--by", "template_id")


@pytest.mark.parametrize(
    ("words", "said", "there_is"),
    [
        (("ft_other",), "There is no fact ft_other", "ft_service_stats (by service_id, template"),
        ((FACT, "service=7"), "has no dimension 'service'", "service_id, template_id, notif"),
        ((FACT, "service_id"), "'service_id' is not dimension=value", "service_id="),
        ((FACT, "--by", "status"), "has no dimension 'status'", "service_id, template_id, notif"),
        ((FACT, "service_id=7"), "A value does not fit its dimension", "service_id uuid"),
        ((FACT, "notification_type=x; drop table t"), "", ""),
    ],
)
def test_what_cannot_be_asked_is_refused_with_what_there_is(
    built: Database, words: tuple[str, ...], said: str, there_is: str
) -> None:
    done = built.loader("stats", *words)
    if not said:
        assert done.returncode == 0, done.stderr
        return
    assert done.returncode == 2
    assert said in sentence(done.stderr)
    assert there_is in done.stderr.split("Try: ")[1]


def test_without_a_name_it_lists_the_facts(built: Database) -> None:
    assert built.must("stats") == (
        f"{FACT} (by service_id, template_id, notification_type, notification_status)\n"
    )
    found = json.loads(built.must("stats", "--json"))
    assert list(found["facts"]) == [FACT]


def test_a_fact_that_was_never_built_is_named_with_the_remedy(source: Database) -> None:
    assert "run `loader setup`" in sentence(source.loader("stats", FACT).stderr)
    source.must("setup")
    refused(source.loader("stats", FACT), "no table analytics.ft_service_stats")
    refused(
        source.loader("stats", FACT, "--dbt-schema", "elsewhere"),
        "no table elsewhere.ft_service_stats",
    )


def test_sums_keep_every_digit_and_days_and_nulls_are_shown(source: Database) -> None:
    """Any fact: here made by hand, as dbt would."""
    paid = {
        "name": "paid",
        "kind": "sum",
        "columns": ["amount"],
        "of": ["rows"],
        "type": "numeric",
        "where": [],
    }
    orders = declare("public.unrelated", ("note", "text"), measures=[paid])
    orders["dimensions"].append(column("day", "date", column="note", nulls="count"))
    source.execute(
        "alter table unrelated replica identity full, add amount numeric(30, 2) check (amount < 1)"
    )
    source.declare(ft_orders=orders)
    source.must("setup")
    source.execute(
        "create schema analytics; create table analytics.ft_orders (note text, day date, "
        "paid numeric); insert into analytics.ft_orders values "
        "('a', '2026-03-29', 12345678901234567890.05), ('a', null, -0.01), ('b', null, 2)"
    )
    lines = json.loads(source.must("stats", "ft_orders", "--by", "day", "--json"))
    assert lines["lines"] == [
        {"day": "2026-03-29", "paid": "12345678901234567890.05"},
        {"day": None, "paid": "1.99"},
    ]
    assert lines["totals"] == {"paid": "12345678901234567892.04"}
    assert "null" in source.must("stats", "ft_orders", "--by", "note,day")
    assert json.loads(source.must("stats", "ft_orders", "note=b", "--json"))["totals"] == {
        "paid": 2
    }


def refused(done: subprocess.CompletedProcess[str], words: str) -> None:
    assert done.returncode == 20
    said = sentence(done.stderr)
    assert words in said
    assert said.strip().endswith("Try: `dbt build`")


def test_the_fields_are_documented(built: Database) -> None:
    documented = (Path(__file__).parents[2] / "docs/reading.md").read_text()
    found: dict[str, Any] = as_json(built)
    for name in (*found, *found["freshness"][0]):
        assert f"`{name}" in documented, name
