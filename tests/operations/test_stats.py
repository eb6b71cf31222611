"""`loader stats` says what the fact says, how fresh that is, and what is missing."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from demo.cluster import Cluster
from tests.support import LOADER, Database, run
from tests.support.commands import profiles, sentence
from tests.support.databases import application_database

NOBODY = "00000000-0000-0000-0000-000000000000"


@pytest.fixture(scope="module")
def built(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Seven notifications of one service, staged and built."""
    with application_database(cluster) as database:
        database.must("setup")
        database.insert(3, "delivered")
        database.insert(2, "created")
        database.execute(
            "update notifications set notification_type = 'sms' where id in "
            "(select id from notifications where notification_status = 'delivered' limit 2)"
        )
        database.insert(2, "delivered")
        database.must("run", "--once", "--build", **profiles(tmp_path_factory.mktemp("stats")))
        yield database


def service(database: Database) -> str:
    return str(database.value("select distinct service_id from notifications"))


def as_json(database: Database, **environment: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(
        database.must("stats", service(database), "--json", **environment)
    )
    return found


def test_a_person_sees_types_statuses_and_totals(built: Database) -> None:
    said = built.must("stats", service(built), COLUMNS="120")
    rows = {words[0]: words[1:] for line in said.splitlines() if (words := numbers(line))}
    assert re.search(r"status +.* email .* sms .* total", said), said
    assert rows == {
        "created": ["2", "0", "2"],
        "delivered": ["3", "2", "5"],
        "total": ["5", "2", "7"],
    }
    assert f"service {service(built)}" in said
    assert "nothing more is staged" in said


def numbers(line: str) -> list[str]:
    """The words of a row of the table, without its frame; none for another line."""
    words = re.sub(r"[^\w\s,-]", " ", line).split()
    return words if len(words) == 4 and words[1].isdigit() else []


def test_a_program_gets_the_documented_fields(built: Database) -> None:
    found = as_json(built)
    freshness = found.pop("freshness")
    (note,) = cast("list[str]", found.pop("notes"))
    assert note.startswith("The counts are partial: the fact has no baseline")
    assert found == {
        "version": 1,
        "service_id": service(built),
        "total": 7,
        "counts": [
            {
                "notification_type": kind,
                "notification_status": status,
                "count": count,
                "live_count": count,
                "archived_count": 0,
            }
            for kind, status, count in (
                ("email", "created", 2),
                ("email", "delivered", 3),
                ("sms", "delivered", 2),
            )
        ],
    }
    ((applied, position),) = built.execute(
        "select applied_lsn::text, position_lsn::text from cdc.model_watermark "
        "inner join cdc.slot_position using (slot_name) "
        "where model_name = 'analytics.ft_service_stats'"
    )
    assert isinstance(freshness, dict)
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
        freshness = as_json(built)["freshness"]
    finally:
        built.execute(move, applied)
    assert isinstance(freshness, dict)
    assert freshness["is_behind"] is True


def test_a_reader_of_the_fact_needs_no_right_on_the_staging_schema(built: Database) -> None:
    built.execute(
        "create role only_a_reader login; grant usage on schema analytics to only_a_reader; "
        "grant select on analytics.ft_service_stats to only_a_reader"
    )
    try:
        found = as_json(built, PGUSER="only_a_reader")
    finally:
        built.execute("drop owned by only_a_reader; drop role only_a_reader")
    assert (found["total"], found["freshness"], found["notes"]) == (7, None, None)


def test_a_service_that_nobody_has_counts_nothing(built: Database) -> None:
    assert json.loads(built.must("stats", NOBODY, "--json"))["counts"] == []
    assert "total" in built.must("stats", NOBODY)


@pytest.mark.parametrize("text", ["7", "notify; drop table", NOBODY + "0"])
def test_what_is_no_uuid_is_refused_before_anything_is_asked(text: str) -> None:
    done = run([str(LOADER), "stats", text, "--target", "host=nowhere.invalid"])
    assert done.returncode == 2
    assert "is not a service's id" in sentence(done.stderr)


def test_a_fact_that_was_never_built_is_named_with_the_remedy(source: Database) -> None:
    refused(source.loader("stats", NOBODY), "no table analytics.ft_service_stats")
    refused(
        source.loader("stats", NOBODY, "--dbt-schema", "elsewhere"),
        "no table elsewhere.ft_service_stats",
    )


def refused(done: subprocess.CompletedProcess[str], words: str) -> None:
    assert done.returncode == 20
    said = sentence(done.stderr)
    assert words in said
    assert said.strip().endswith("Try: `dbt build`")


def test_the_fields_are_documented(built: Database) -> None:
    documented = (Path(__file__).parents[2] / "docs/reading.md").read_text()
    found: dict[str, Any] = as_json(built)
    for name in (*found, *found["counts"][0], *found["freshness"]):
        assert f"`{name}" in documented, name
