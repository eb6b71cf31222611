"""`loader stats` says what the fact says, how fresh that is, and what is missing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from testkit.commands import ROOT, sentence
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


def as_json(database: Database, *words: str, **environment: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        database.must("stats", FACT, *words, "--json", **environment)
    )
    return found


def numbers(said: str) -> list[list[str]]:
    """The words of each row of the table, without its frame."""
    rows = (re.sub(r"[^\w\s,-]", " ", line).split() for line in said.splitlines())
    return [row for row in rows if len(row) > 1 and row[-1].isdigit() and row[-2].isdigit()]


def test_a_person_sees_a_line_per_value_and_totals(built: Database) -> None:
    said = built.must("stats", FACT, "--by", "notification_type,notification_status")
    assert numbers(said) == [
        ["email", "created", "2", "0"],
        ["email", "delivered", "3", "0"],
        ["sms", "delivered", "2", "0"],
        ["total", "7", "0"],
    ]
    assert re.search(r"notification_type +.* notification_status .* live_count", said), said
    assert "nothing more is staged" in said
    assert f"\nTry: `spark-submit spark/seed.py --fact {FACT}`\n" in said
    service = built.value("select distinct service_id::text from notifications")
    said = built.must("stats", FACT, "notification_type=email", f"service_id={service}")
    assert f"analytics.{FACT} where notification_type = email, service_id = " in said
    assert numbers(said) == [["5", "0"]]
    found = as_json(built, f"service_id={NOBODY}")
    assert (found["lines"], found["totals"]) == ([], {"live_count": 0, "archived_count": 0})
    assert "total" in built.must("stats", FACT, f"service_id={NOBODY}", "--by", "template_id")


def test_a_program_gets_the_documented_fields(built: Database) -> None:
    found = as_json(built, "--by", "notification_type,notification_status")
    documented = (ROOT / "docs/reading.md").read_text()
    for name in (*found, *found["freshness"][0]):
        assert re.search(rf"`{name}(\[\])?`", documented), name
    (freshness,), (note,) = found.pop("freshness"), found.pop("notes")
    assert note.startswith(f"{FACT} follows, but it has no baseline, so rows from before the slot")
    lines = [tuple(line.values()) for line in found.pop("lines")]
    assert lines == [
        ("email", "created", 2, 0),
        ("email", "delivered", 3, 0),
        ("sms", "delivered", 2, 0),
    ]
    assert found == {
        "version": 2,
        "fact": FACT,
        "relation": f"analytics.{FACT}",
        "where": {},
        "by": ["notification_type", "notification_status"],
        "totals": {"live_count": 7, "archived_count": 0},
    }
    ((applied, position),) = built.execute(
        "select applied_lsn::text, position_lsn::text from cdc.model_watermark "
        "inner join cdc.slot_position using (slot_name) "
        "where model_name = 'analytics.ft_service_stats'"
    )
    assert freshness.pop("moved_at")
    places = {"slot": built.slot, "applied_lsn": applied, "position_lsn": position}
    assert freshness == {**places, "is_behind": False}
    move = "update cdc.model_watermark set applied_lsn = %s where model_name ~ 'ft_service_stats'"
    built.execute(move, "0/0")
    try:
        assert as_json(built)["freshness"][0]["is_behind"] is True
    finally:
        built.execute(move, applied)


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


DIMENSIONS = "service_id, template_id, notif"
REFUSED = [
    (("ft_other",), "There is no fact ft_other", "ft_service_stats (by service_id, template"),
    ((FACT, "service=7"), "has no dimension 'service'", DIMENSIONS),
    ((FACT, "service_id"), "'service_id' is not dimension=value", "service_id="),
    ((FACT, "--by", "status"), "has no dimension 'status'", DIMENSIONS),
    ((FACT, "service_id=7"), "A value does not fit its dimension", "service_id uuid"),
]


def test_what_cannot_be_asked_is_refused_with_what_there_is(built: Database) -> None:
    for words, said, there_is in REFUSED:
        done = built.loader("stats", *words)
        assert done.returncode == 2, words
        assert said in sentence(done.stderr)
        assert there_is in done.stderr.split("Try: ")[1]
    built.must("stats", FACT, "notification_type=x; drop table t")


def test_without_a_name_it_lists_the_facts(built: Database) -> None:
    assert built.must("stats") == (
        f"{FACT} (by service_id, template_id, notification_type, notification_status)\n"
    )
    found = json.loads(built.must("stats", "--json"))
    assert list(found["facts"]) == [FACT]


def test_a_fact_that_was_never_built_is_named_with_the_remedy(source: Database) -> None:
    assert "run `loader setup`" in sentence(source.loader("stats", FACT).stderr)
    source.must("setup")
    for schema in ("analytics", "elsewhere"):
        done = source.loader("stats", FACT, "--dbt-schema", schema)
        assert done.returncode == 20
        assert f"no table {schema}.ft_service_stats" in sentence(done.stderr)
        assert done.stderr.strip().endswith("Try: `dbt build`")


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
