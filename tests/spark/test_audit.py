"""Audits of tables whose deletes are ignored, what they refuse, and how they wait for a loader.

That an audit finds what is wrong is in test_audit_queries.py.
"""

from __future__ import annotations

from contextlib import closing

import pytest
from waltally_jobs.auditing.job import audit
from waltally_jobs.common import session
from waltally_jobs.common.command import Settings
from waltally_jobs.common.connections import connect_target
from waltally_jobs.common.errors import AuditIncomplete
from waltally_jobs.warehouse import loader_progress

from testkit.commands import wait_until
from tests.spark.kept import Kept
from waltally import lsn
from waltally.errors import BuildFailed, LoaderError, NotSetUp, SourceBehind

COUNTED = "select sum(order_count)::int from analytics.purged"


def settings(kept: Kept, timeout: float = 3600.0) -> Settings:
    source, target = kept.dsns
    return Settings(target, kept.slot, "cdc", source, (), timeout=timeout, work="audit")


def purge(kept: Kept, rows: int) -> None:
    kept.source.execute(
        "delete from old_orders where id in (select id from old_orders order by id limit %s)", rows
    )


def test_purges_are_explained_and_a_count_off_by_one_is_found_while_the_source_is_idle(
    purging: Kept,
) -> None:
    off = "update analytics.purged set order_count = order_count {} 1 where channel = 'web'"
    # An idle loader: it moves only because the audit gives it something to pass.
    with purging.follow():
        purge(purging, 30)
        purging.wait_for_log()
        purging.apply()
        purge(purging, 20)
        purging.target.execute(off.format("-"))
        report = purging.audit(code=42)
        assert (report["version"], report["refused"]) == (4, {})
        model = report["models"]["purged"]
        ((group, difference),) = [
            (each["dimensions"], (each["measure"], each["difference"]))
            for each in model["differences"]
        ]
        assert (group, difference) == ({"channel": "web"}, ("order_count", "-1"))
        assert (model["equal"], model["difference_count"], model["unseen"]) == (False, 1, {})
        assert model["purged"]["order_count"] == "50"
        assert model["totals"]["order_count"]["difference"] == "-1"
        assert lsn.parse(model["model_lsn"]) <= lsn.parse(report["snapshot_lsn"])
        assert "analytics.purged differs from the tables in 1 value" in purging.said
        assert "Try: `spark-submit spark/seed.py --model purged`, then `dbt" in purging.said
        assert "counting public.old_orders, public.orders at" in purging.said
        assert "comparing analytics.purged" in purging.said

        # One TRUNCATE is applied, the other is brought forward by the audit.
        purging.target.execute(off.format("+"))
        for rows in (1, 2):
            purging.source.execute("truncate old_orders")
            purging.write(10, "old_orders")
            purge(purging, rows)
            if rows == 1:
                purging.wait_for_log()
                purging.apply()
                deleted = "select sum(measures[1]) from cdc.ignored_delete"
                assert purging.target.value(deleted) == 1
        report = purging.audit()
        assert report["models"]["purged"]["purged"]["order_count"] == "2"


def test_purges_that_the_log_lost_are_not_counted_and_the_seed_says_so(purging: Kept) -> None:
    before = purging.target.value(COUNTED)
    purge(purging, 5)
    purging.catch_up()
    purge(purging, 20)
    code, _, err = purging.run("seed")
    assert code == 41, err
    assert "nobody follows the slot" in err and "--forget-purged" in err
    purging.must("setup", "--renew")
    out = purging.must_run("seed")
    assert "still counted: 5 rows in" in out
    assert "the change log does not go on from" in out
    purging.catch_up()
    assert purging.target.value(COUNTED) == before - 20


# What it refuses, and how it waits for the loader.


BROKEN: list[tuple[str, type[LoaderError], str]] = [
    (
        "update cdc.slot_position set position_lsn = position_lsn + (2 ^ 40)::numeric;"
        "update cdc.model_watermark set applied_lsn = applied_lsn + (2 ^ 40)::numeric",
        *(SourceBehind, "he source's WAL ends at"),
    ),
    (
        "update cdc.slot_position set position_lsn = position_lsn - (2 ^ 40)::numeric;"
        "update cdc.model_watermark set applied_lsn = '0/0'",
        *(BuildFailed, "failed: the change log starts at"),
    ),
    (
        "delete from cdc.model_watermark; delete from cdc.baseline",
        *(NotSetUp, "purged waits: it waits for its seed"),
    ),
]
"""What is done one after the other, and what is then refused."""


def test_what_cannot_be_audited_is_refused_before_spark_starts(
    purging: Kept, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def running(*_: object) -> None:
        raise AssertionError("Spark was started")

    def traces() -> list[tuple[object, ...]]:
        """What an audit might leave."""
        return purging.source.execute(
            "select t::text from analytics.purged as t"
            " union all select slot_name from pg_replication_slots"
            " union all select relname from pg_class order by 1"
        )

    monkeypatch.setattr(session, "running", running)
    before = traces()
    with pytest.raises(AuditIncomplete, match=f"nobody follows the slot {purging.slot}") as caught:
        audit(settings(purging))
    assert caught.value.exit_code == 41
    assert "start `loader run`" in (caught.value.remedy or "")
    assert f"nobody follows the slot {purging.slot}: waiting 2 s for" in capsys.readouterr().err
    sessions = "select pid from pg_stat_activity where application_name = 'waltally audit'"
    wait_until(lambda: not purging.source.execute(sessions), "its sessions end")
    assert traces() == before

    monkeypatch.setattr(loader_progress, "_FOLLOWER_SECONDS", 0.1)
    for breaks, error, words in BROKEN:
        purging.target.execute(breaks)
        with pytest.raises(error, match=words) as refused:
            audit(settings(purging))
        assert refused.value.remedy


def test_an_audit_builds_a_model_on_its_newest_baseline(purging: Kept) -> None:
    """A loader that only stages lets it wait."""
    with purging.follow():
        purging.write(5)
        purging.target.execute("update cdc.baseline set baseline_id = gen_random_uuid()")
        assert purging.target.execute("select state from cdc.model_state") == [("waits",)]
        purging.audit()


def test_the_wait_says_how_far_the_loader_is(
    purging: Kept, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hasty, patient = settings(purging, 0.1), settings(purging)
    reached = lsn.parse(purging.target.value("select position_lsn::text from cdc.slot_position"))
    with closing(connect_target(hasty, "audit")) as target:
        loader_progress.wait_for_position(target, hasty, reached)
        assert capsys.readouterr().err == ""
        with pytest.raises(AuditIncomplete, match="nobody follows the slot"):
            loader_progress.wait_for_position(target, patient, reached + 1)
        # It connects within the time that it is given.
        monkeypatch.setattr(loader_progress, "_FOLLOWER_SECONDS", 120.0)
        with purging.start():
            loader_progress.require_follower(target, patient)
            capsys.readouterr()
            with pytest.raises(AuditIncomplete, match=r"\d bytes of WAL before FF00/0"):
                loader_progress.wait_for_position(target, hasty, 0xFF00 << 32)
            assert capsys.readouterr().err.startswith("waiting: the loader is at ")


def test_a_loader_that_would_rest_stores_the_position_that_somebody_waits_for(
    purging: Kept,
) -> None:
    purging.limits.idle_seconds = 3600.0
    with purging.follow(), closing(connect_target(settings(purging), "audit")) as target:
        purging.source.execute("select pg_logical_emit_message(true, 'test', '')")
        end = lsn.parse(purging.source.value("select pg_current_wal_insert_lsn()"))
        loader_progress.wait_for_position(target, settings(purging, 20.0), end)
