"""The audit finds what is wrong with a fact and nothing else, whatever is written meanwhile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from auditing.job import audit
from auditing.report import LeftOut
from common.errors import SnapshotTooOld
from common.settings import Settings
from counting import snapshot
from counting.snapshot import ExportedSnapshot

from testkit.commands import ROOT, wait_until
from testkit.notify_traffic import Traffic
from tests.spark.audited import (
    ARCHIVE,
    SESSIONS,
    SLOTS,
    Audited,
    positions,
)
from tests.spark.support import AT_THE_GATE, GATE
from waltally import lsn


@pytest.fixture
def after_the_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[Callable[[ExportedSnapshot], ExportedSnapshot]], None]:
    """Do something in the audit, in this process, while it holds its snapshot."""
    export = snapshot.export

    def arrange(act: Callable[[ExportedSnapshot], ExportedSnapshot]) -> None:
        @contextmanager
        def holding(settings: Settings, facts: Any, monitor: Any) -> Iterator[ExportedSnapshot]:
            with export(settings, facts, monitor) as exported:
                yield act(exported)

        monkeypatch.setattr(snapshot, "export", holding)

    return arrange


def test_transactions_exactly_at_both_positions_and_all_kinds_between(
    audited: Audited,
    after_the_snapshot: Callable[[Callable[[ExportedSnapshot], ExportedSnapshot]], None],
) -> None:
    audited.write(seed=1)
    audited.must("run", "--once")
    audited.build_one_transaction()

    def end_at_a_transaction(exported: ExportedSnapshot) -> ExportedSnapshot:
        # The snapshot is the same at the first commit that it does not see.
        audited.source.insert(7, "sent")
        audited.stage()
        first = audited.source.value(
            "select min(commit_lsn)::text from cdc.change_log where commit_lsn >= %s",
            lsn.show(exported.position),
        )
        return replace(exported, position=lsn.parse(first))

    after_the_snapshot(end_at_a_transaction)
    with audited.follow():
        report = audit(audited.settings())
    [fact] = report.facts
    assert {fact.fact_lsn, report.snapshot_lsn} <= positions(audited)
    between = (
        "select coalesce(string_agg(distinct action::text, '' order by action::text), '')"
        " from cdc.change_log where commit_lsn >= %s and commit_lsn < %s"
    )
    ends = (lsn.show(fact.fact_lsn), lsn.show(report.snapshot_lsn))
    assert audited.source.value(between, *ends) == "DITU"
    assert fact.comparison.differences == []
    assert fact.comparison.difference_count == 0
    assert all(int(total.counted) > 0 for total in fact.comparison.totals.values())
    [(listed,)] = audited.source.execute(
        "select count(*) from cdc.change_log where commit_lsn >= %s and commit_lsn < %s", *ends
    )
    assert fact.change_count == listed


def test_a_change_that_the_log_lost_and_one_that_dbt_rejects_are_found(audited: Audited) -> None:
    too_long = "x" * 1001
    audited.source.insert(1)
    # No TRUNCATE here that would cancel what is wrong at the fact's position.
    audited.source.insert(2, "sent")
    audited.source.insert(1, too_long)
    audited.source.insert(3, "sent")
    audited.must("run", "--once")
    audited.build_one_transaction()
    [(service, template)] = audited.source.execute(
        "delete from cdc.change_log where (commit_lsn, ordinal) = (select commit_lsn, ordinal"
        " from cdc.change_log where payload ~ '\"notifications\"'"
        " order by commit_lsn desc, ordinal desc limit 1)"
        ' returning substring(payload from \'"service_id","value":"([^"]*)\'),'
        ' substring(payload from \'"template_id","value":"([^"]*)\')'
    )

    with audited.follow():
        [fact] = audit(audited.settings()).facts
    assert fact.fact_lsn in positions(audited)
    assert fact.comparison.difference_count == 1
    [found] = fact.comparison.differences
    assert (found.dimensions["service_id"], found.dimensions["template_id"]) == (service, template)
    assert (found.dimensions["notification_status"], found.measure) == ("sent", "live_count")
    assert found.difference == fact.comparison.totals["live_count"].difference == "-1"
    reason = "the value of notification_status is longer than 1000 bytes"
    assert LeftOut("public.notifications", reason, 1) in fact.left_out
    assert fact.rejected.count == 1
    assert fact.rejected.first_lsn in positions(audited)
    assert "1 change could not be counted" in fact.notes[0]


def purged_by(out: str) -> tuple[str, int]:
    """What became of purged rows, as a seed's JSON says."""
    purged = json.loads(out)["facts"]["ft_service_stats"]["purged"]
    return purged["outcome"], purged["rows"]


def test_purges_are_explained_and_a_count_off_by_one_is_found_while_the_source_is_idle(
    audited: Audited,
) -> None:
    # An idle loader: it moves only because the audit gives it something to pass.
    with audited.follow():
        audited.purge(30)
        audited.source.execute("delete from notification_history where service_id is null")
        audited.stage()
        audited.build()
        audited.purge(20)
        group = audited.put_off(-1)
        code, out, err = audited.run("--json")
        report = json.loads(out)
        assert (code, report["version"], report["equal"], report["refused"]) == (42, 3, False, {})
        fact = report["facts"]["ft_service_stats"]
        assert [
            (*each["dimensions"].values(), each["measure"], each["difference"])
            for each in fact["differences"]
        ] == [(*group, "archived_count", "-1")]
        assert (fact["equal"], fact["difference_count"], fact["unseen"]) == (False, 1, {})
        assert fact["purged"] == {"archived_count": "50"}
        assert fact["totals"]["archived_count"]["difference"] == "-1"
        assert lsn.parse(fact["fact_lsn"]) <= lsn.parse(report["snapshot_lsn"])
        assert "analytics.ft_service_stats differs from the tables in 1 value\nTry: " in err
        assert audited.remedies(err)[0] == ["dbt", "build", "--full-refresh"]
        assert "counting ft_service_stats at" in err
        assert "Traceback" not in err

        # One TRUNCATE is applied, the other is brought forward by the audit.
        audited.put_off(1)
        audited.source.execute("truncate notification_history")
        audited.source.execute(ARCHIVE)
        audited.purge(1)
        audited.stage()
        audited.build()
        assert audited.source.value("select sum(measures[2]) from cdc.archived_delete") == 1
        audited.source.execute("truncate notification_history")
        audited.source.execute(ARCHIVE)
        audited.purge(2)
        [counted] = audit(audited.settings()).facts
        assert counted.comparison.differences == []
        assert counted.purged == {"archived_count": "2"}

        # The fact is right, and a roll-up of it is not.
        audited.roll_up_statuses()
        audited.source.execute(
            "update analytics.ft_statuses set live_count = live_count + 1"
            " where notification_status = 'created'"
        )
        code, out, err = audited.run("--json")
        report = json.loads(out)
        assert (code, report["equal"], report["refused"]) == (42, False, {})
        assert report["facts"]["ft_service_stats"]["equal"] is True
        assert report["roll_ups"]["ft_statuses"]["difference_count"] == 1
        differs = "analytics.ft_statuses differs in 1 group from a recount"
        assert f"{differs}\nTry: `dbt build --full-refresh" in err

        # Both are wrong in the same way; then the fact is wrong, and the roll-up is not.
        audited.source.execute(
            "update analytics.ft_service_stats set live_count = live_count + 1 where id ="
            " (select id from analytics.ft_service_stats where notification_status = 'created'"
            " limit 1)"
        )
        for roll_up_differs in (True, False):
            code, out, err = audited.run("--json")
            report = json.loads(out)
            assert (code, report["equal"], report["refused"]) == (42, False, {})
            assert report["facts"]["ft_service_stats"]["difference_count"] == 1
            assert report["roll_ups"]["ft_statuses"]["difference_count"] == roll_up_differs
            assert (differs in err) is roll_up_differs
            audited.source.execute(
                "update analytics.ft_statuses set live_count = live_count - 1"
                " where notification_status = 'created'"
            )


def test_a_purge_while_the_seed_counts_changes_no_count(
    audited: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    archived = audited.archived()
    export = snapshot.export

    @contextmanager
    def holding(*arguments: Any) -> Iterator[snapshot.ExportedSnapshot]:
        audited.purge(10)
        with export(*arguments) as exported:
            audited.purge(7)
            # Applied already when the seed looks for what was purged before it.
            audited.stage()
            audited.build()
            yield exported

    monkeypatch.setattr(snapshot, "export", holding)
    with audited.follow():
        code, out, err = audited.run("--json", job="seed")
        assert code == 0, err
        audited.stage()
        audited.build()
    assert purged_by(out) == ("kept", 10)
    assert audited.source.value("select sum(measures[2]) from cdc.archived_delete") == 17
    assert (audited.archived(), audited.stored_rows()) == (archived, archived - 17)


def test_purges_that_the_log_lost_are_not_counted_and_the_seed_says_so(audited: Audited) -> None:
    archived = audited.archived()
    audited.purge(5)
    audited.must("run", "--once")
    audited.build()
    audited.purge(20)
    audited.must("setup", "--renew")
    code, out, err = audited.run(job="seed")
    assert code == 0, err
    assert "still counted: 5 rows in" in out
    assert "the change log does not go on from" in out
    audited.must("run", "--once")
    audited.build()
    assert audited.archived() == archived - 20


# Slow: pruned meanwhile, under traffic, killed, and what mends a fact.


@pytest.mark.slow
def test_changes_that_are_pruned_meanwhile_are_not_missed(
    audited: Audited,
    after_the_snapshot: Callable[[Callable[[ExportedSnapshot], ExportedSnapshot]], None],
) -> None:
    def prune(exported: ExportedSnapshot) -> ExportedSnapshot:
        audited.stage()
        audited.source.execute("update cdc.slot_position set start_lsn = position_lsn")
        return exported

    after_the_snapshot(prune)
    with (
        audited.follow(),
        pytest.raises(SnapshotTooOld, match="the change log has lost changes"),
    ):
        audit(audited.settings())


@pytest.mark.slow
def test_under_traffic_no_audit_finds_a_difference(audited: Audited) -> None:
    traffic = Traffic(audited.dsn, seed=7, rate=20, truncates=True)
    traffic.start()
    try:
        with audited.follow("--build") as following:
            applied = "select max(applied_lsn)::text from cdc.model_watermark"
            before = audited.source.value(applied)
            wait_until(lambda: audited.source.value(applied) != before, "a build in the background")
            reports = [audit(audited.settings()) for _ in range(2)]
            code, out, err = audited.submit("--json")
            following.end()
    finally:
        traffic.stop()
    facts = [fact for report in reports for fact in report.facts]
    assert [fact.comparison.differences for fact in facts] == [[], []]
    assert [fact.comparison.difference_count for fact in facts] == [0, 0]
    assert facts[0].fact_lsn < facts[1].fact_lsn
    assert code == 0, out + err
    assert json.loads(out)["equal"] is True


@pytest.mark.slow
def test_a_killed_audit_leaves_nothing(audited: Audited) -> None:
    audited.source.insert(5)
    audited.must("run", "--once")
    before = audited.traces()
    with audited.follow(), closing(psycopg2.connect(audited.dsn)) as gate, gate.cursor() as cursor:
        killed = subprocess.Popen(
            audited.command(),
            env=audited.environment(),
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_until(lambda: audited.source.execute(SLOTS), "it has a slot", 300)
            # Not before: the slot would wait for this transaction.
            cursor.execute(GATE)
            wait_until(lambda: audited.source.value(AT_THE_GATE) >= 1, "it reads", 60)
            assert len(audited.source.execute(SLOTS)) == 1
        finally:
            kill_all(killed)
    wait_until(lambda: not audited.source.execute(SESSIONS), "its sessions end")
    wait_until(lambda: not audited.source.execute(SLOTS), "its slot goes")
    assert audited.traces() == before


def kill_all(process: subprocess.Popen[bytes]) -> None:
    """Kill the driver, then the JVM that started it: the driver outlives the JVM a little."""
    for children in Path(f"/proc/{process.pid}/task").glob("*/children"):
        for child in children.read_text().split():
            os.kill(int(child), signal.SIGKILL)
    process.kill()
    process.wait()


@pytest.mark.slow
def test_a_new_seed_keeps_what_was_purged_unless_told_to_forget_it(audited: Audited) -> None:
    archived = audited.archived()
    audited.purge(50)
    code, _, err = audited.run(job="seed")
    assert code == 41, err
    assert "nobody follows the slot" in err and "--forget-purged" in err
    with audited.follow():
        # Not built yet: the seed has the changes applied.
        audited.source.execute(ARCHIVE)
        code, out, err = audited.run("--json", job="seed")
        assert code == 0, err
        audited.stage()
        audited.build()
    assert purged_by(out) == ("kept", 50)
    assert audited.source.value("select sum(measures[2]) from cdc.archived_delete") == 50
    stored = audited.stored_rows()
    assert audited.archived() == stored + 50 > archived - 50
    audited.put_off(-1)
    audited.purge(5)
    with audited.follow():
        [fact] = audit(audited.settings()).facts
        assert (fact.unseen, fact.purged) == ({}, {"archived_count": "55"})
        assert [each.difference for each in fact.comparison.differences] == ["-1"]
        audited.put_off(1)
        stored -= 5
        audited.stage()
        audited.build()
        code, out, err = audited.run("--json", "--forget-purged", job="seed")
        assert code == 0, err
        audited.stage()
        audited.build()
    assert purged_by(out) == ("forgotten", 55)
    assert audited.archived() == stored
    assert audited.source.value("select count(*) from cdc.archived_delete") == 0


@pytest.mark.slow
def test_the_remedies_of_an_audit_mend_the_fact(audited: Audited) -> None:
    with audited.follow():
        audited.purge(30)
        audited.stage()
        audited.build()
        right = audited.facts()
        group = audited.put_off(1)
        code, _, err = audited.submit()
        assert code == 42, err
        rebuild, *anew = audited.remedies(err)
        audited.run_command(rebuild)
        assert audited.facts() == right

        # Now the seed itself is wrong, so that to rebuild from it is no help.
        audited.source.execute(
            "update cdc.baseline_group set measures[2] = measures[2] + 1"
            " where (slot_name, part, dimensions) = (%s, 'archived', %s)",
            audited.slot,
            list(group),
        )
        audited.run_command(rebuild)
        code, _, err = audited.submit()
        assert code == 42, err
        assert audited.remedies(err) == [rebuild, *anew]
        seed, build = anew
        assert seed == ["spark-submit", "spark/seed.py", "--fact", "ft_service_stats"]
        audited.run_command(seed)
        audited.stage()
        audited.run_command(build)
        code, out, err = audited.submit("--json")
        assert code == 0, err
        purged = json.loads(out)["facts"]["ft_service_stats"]["purged"]
        assert purged == {"archived_count": "30"}
    assert audited.facts() == right
