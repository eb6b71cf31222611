"""Audits of tables whose deletes are ignored, what they refuse, and how they wait for a loader.

That an audit finds what is wrong is in test_audit_queries.py.
"""

from __future__ import annotations

import json
import shlex
from contextlib import closing

import psycopg2
import pytest
from waltally_jobs.auditing.job import audit
from waltally_jobs.common import session
from waltally_jobs.common.connections import connect_target
from waltally_jobs.common.errors import AuditIncomplete
from waltally_jobs.warehouse import loader_progress

from testkit.commands import wait_until
from tests.spark.audited import (
    ARCHIVE,
    SESSIONS,
    SLOTS,
    Audited,
)
from tests.spark.support import AT_THE_GATE, GATE, kill, submitted
from waltally import lsn
from waltally.errors import BuildFailed, LoaderError, NotSetUp, SourceBehind


def test_purges_are_explained_and_a_count_off_by_one_is_found_while_the_source_is_idle(
    audited: Audited,
) -> None:
    # An idle loader: it moves only because the audit gives it something to pass.
    with audited.follow():
        audited.purge(30)
        nobody = "notification_history where service_id is null"
        nulls = audited.source.value(f"select count(*) from {nobody}")
        audited.source.execute(f"delete from {nobody}")
        audited.wait_for_log()
        audited.build()
        audited.purge(20)
        group = audited.put_off(-1)
        code, out, err = audited.run("--json")
        report = json.loads(out)
        assert (code, report["version"], report["equal"], report["refused"]) == (42, 4, False, {})
        model = report["models"]["ft_service_stats"]
        assert [
            (*each["dimensions"].values(), each["measure"], each["difference"])
            for each in model["differences"]
        ] == [(*group, name, "-1") for name in ("archived_count", "count")]
        assert (model["equal"], model["difference_count"], model["unseen"]) == (False, 2, {})
        assert model["purged"]["archived_count"] == str(50 + nulls)
        assert model["totals"]["archived_count"]["difference"] == "-1"
        assert lsn.parse(model["model_lsn"]) <= lsn.parse(report["snapshot_lsn"])
        assert "analytics.ft_service_stats differs from the tables in 2 values\nTry: " in err
        assert audited.remedies(err)[0] == ["dbt", "build", "--full-refresh"]
        assert "evaluating ft_service_stats at" in err
        assert "Traceback" not in err

        # One TRUNCATE is applied, the other is brought forward by the audit.
        audited.put_off(1)
        audited.source.execute("truncate notification_history")
        audited.source.execute(ARCHIVE)
        audited.purge(1)
        audited.wait_for_log()
        audited.build()
        assert audited.source.value("select sum(measures[1]) from cdc.archived_delete") == 1
        audited.source.execute("truncate notification_history")
        audited.source.execute(ARCHIVE)
        audited.purge(2)
        [counted] = audit(audited.settings()).models
        assert counted.comparison.differences == []
        assert counted.purged["archived_count"] == "2"


def test_purges_that_the_log_lost_are_not_counted_and_the_seed_says_so(audited: Audited) -> None:
    archived = audited.archived()
    audited.purge(5)
    audited.must("run", "--once")
    audited.build()
    audited.purge(20)
    code, _, err = audited.run(job="seed")
    assert code == 41, err
    assert "nobody follows the slot" in err and "--forget-purged" in err
    audited.must("setup", "--renew")
    code, out, err = audited.run(job="seed")
    assert code == 0, err
    assert "still counted: 5 rows in" in out
    assert "the change log does not go on from" in out
    audited.must("run", "--once")
    audited.build()
    assert audited.archived() == archived - 20


def test_a_first_baseline_adds_no_delete_and_a_later_one_those_since_the_first(
    audited: Audited,
) -> None:
    audited.source.execute(
        "truncate cdc.baseline, cdc.baseline_group, cdc.model_watermark, analytics.ft_service_stats"
    )
    with audited.follow():
        audited.purge(5)
        audited.wait_for_log()
        for kept in (0, 20, 40):
            code, out, err = audited.run("--json", job="seed")
            assert code == 0, err
            purged = json.loads(out)["models"]["ft_service_stats"]["purged"]
            assert (purged["rows"] or 0) == kept
            audited.purge(20)
            audited.wait_for_log()
        audited.build()
        [model] = audit(audited.settings()).models
    stored = audited.source.value("select count(*) from notification_history")
    assert (model.comparison.differences, model.purged["archived_count"]) == ([], "60")
    assert audited.archived() == stored + 60


# What it refuses, and how it waits for the loader.


BROKEN: list[tuple[str, str, type[LoaderError], str]] = [
    (
        "update cdc.slot_position set position_lsn = position_lsn + (2 ^ 40)::numeric;"
        "update cdc.model_watermark set applied_lsn = applied_lsn + (2 ^ 40)::numeric",
        "update cdc.slot_position set position_lsn = position_lsn - (2 ^ 40)::numeric;"
        "update cdc.model_watermark set applied_lsn = applied_lsn - (2 ^ 40)::numeric",
        SourceBehind,
        "the source's WAL ends at",
    ),
    # Only a standby shows its slot, and the audit reads the primary.
    (
        "update cdc.slot_position set on_standby = true",
        "update cdc.slot_position set on_standby = false",
        AuditIncomplete,
        "nobody follows the slot",
    ),
    (
        "update cdc.model_watermark set model_name = 'x' || model_name;"
        "update cdc.baseline set declared_name = 'x' || declared_name",
        "update cdc.model_watermark set model_name = substr(model_name, 2);"
        "update cdc.baseline set declared_name = substr(declared_name, 2)",
        NotSetUp,
        "ft_service_stats waits: it waits for its seed",
    ),
    (
        "update cdc.model_watermark set applied_lsn = '0/0'",
        "delete from cdc.model_watermark",
        BuildFailed,
        "failed: the change log starts at",
    ),
]


def test_what_cannot_be_audited_is_refused_before_spark_starts(
    audited: Audited, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def running(*_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(session, "running", running)
    before = audited.traces()
    with pytest.raises(AuditIncomplete, match=f"nobody follows the slot {audited.slot}") as caught:
        audit(audited.settings(timeout=3600.0))
    assert caught.value.exit_code == 41
    assert "start `loader run`" in (caught.value.remedy or "")
    assert f"nobody follows the slot {audited.slot}: waiting 2 s for" in capsys.readouterr().err
    wait_until(lambda: not audited.source.execute(SESSIONS), "its sessions end")
    assert audited.traces() == before

    monkeypatch.setattr(loader_progress, "_FOLLOWER_SECONDS", 0.1)
    for breaks, mends, error, words in BROKEN:
        audited.source.execute(breaks)
        with pytest.raises(error, match=words) as refused:
            audit(audited.settings(timeout=3600.0))
        assert refused.value.remedy
        audited.source.execute(mends)


def test_an_audit_builds_a_model_on_its_newest_baseline(audited: Audited) -> None:
    """A loader that only stages lets it wait."""
    with audited.follow():
        audited.source.insert(5)
        audited.seed()
        (before,) = audited.source.execute("select state from cdc.model_state")
        report = audit(audited.settings(timeout=60.0))
    assert before == ("waits",)
    assert [each.difference_count for each in report.models] == [0]


def test_the_wait_says_how_far_the_loader_is(
    audited: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[str] = []
    monkeypatch.setattr(loader_progress, "print_status", messages.append)
    settings = audited.settings(timeout=0.1)
    patient = audited.settings(timeout=3600.0)
    with closing(connect_target(settings, "audit")) as target:
        position = lsn.parse(audited.position())
        loader_progress.wait_for_position(target, settings, position)
        assert messages == []
        with pytest.raises(
            AuditIncomplete, match=f"1 bytes of WAL before {lsn.show(position + 1)}"
        ):
            loader_progress.wait_for_position(target, settings, position + 1)
        with pytest.raises(AuditIncomplete, match="nobody follows the slot"):
            loader_progress.wait_for_position(target, patient, position + 1)
        assert not loader_progress.is_followed(target)
        monkeypatch.setattr(loader_progress, "_FOLLOWER_SECONDS", 120.0)
        with audited.start() as loader:
            loader_progress.require_follower(target, audited.settings())
            loader.wait_for("following the slot")
            loader.end()
    assert messages[0].startswith("waiting: the loader is at ")


def test_a_loader_that_would_rest_stores_the_position_that_somebody_waits_for(
    audited: Audited,
) -> None:
    audited.limits.idle_seconds = 3600.0
    settings = audited.settings(timeout=20.0)
    with audited.follow(), closing(connect_target(settings, "audit")) as target:
        audited.source.execute("select pg_logical_emit_message(true, 'test', '')")
        end = lsn.parse(audited.source.value("select pg_current_wal_insert_lsn()"))
        loader_progress.wait_for_position(target, settings, end)


# Slow: killed, and what mends a model.


@pytest.mark.slow
def test_a_killed_audit_leaves_nothing(audited: Audited) -> None:
    audited.source.insert(5)
    audited.must("run", "--once")
    audited.apply()
    before = audited.traces()
    with audited.follow(), closing(psycopg2.connect(audited.dsn)) as gate, gate.cursor() as cursor:
        killed = audited.spawn(*submitted("audit"))
        try:
            wait_until(lambda: audited.source.execute(SLOTS), "it has a slot", 300)
            # Not before: the slot would wait for this transaction.
            cursor.execute(GATE)
            wait_until(lambda: audited.source.value(AT_THE_GATE) >= 1, "it reads", 60)
            assert len(audited.source.execute(SLOTS)) == 1
        finally:
            kill(killed)
    wait_until(lambda: not audited.source.execute(SESSIONS), "its sessions end")
    wait_until(lambda: not audited.source.execute(SLOTS), "its slot goes")
    assert audited.traces() == before


@pytest.mark.slow
def test_the_remedies_of_an_audit_mend_a_model_whose_seed_is_wrong(audited: Audited) -> None:
    """The first one, to rebuild the model from its seed, is no help then."""
    with audited.follow():
        audited.purge(30)
        audited.wait_for_log()
        audited.build()
        right = audited.models()
        audited.source.execute(
            "update cdc.baseline_group set measures[2] = measures[2] + 1 where part ~ 'history'"
            " and dimensions = (select min(dimensions) from cdc.baseline_group"
            " where part ~ 'history')"
        )
        audited.do("dbt", "build", "--full-refresh")
        for _ in range(2):
            code, _, err = audited.run()
            assert code == 42, err
            rebuild, seed, build = audited.remedies(err)
            assert rebuild[:3] == ["dbt", "build", "--full-refresh"]
            audited.do(*rebuild)
        assert seed == ["spark-submit", "spark/seed.py", "--model", "ft_service_stats"]
        audited.spark_job(shlex.join(seed))
        audited.wait_for_log()
        audited.do(*build)
        code, out, err = audited.run("--json")
        assert code == 0, err
        purged = json.loads(out)["models"]["ft_service_stats"]["purged"]
        assert purged == {"count": "30", "live_count": "0", "archived_count": "30"}
    assert audited.models() == right
