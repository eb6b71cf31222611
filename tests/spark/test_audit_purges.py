"""Rows that were purged from the archive stay counted, for the audit as for a new seed."""

from __future__ import annotations

import json

import pytest
from auditing.job import audit

from tests.spark.audited import (
    ARCHIVE,
    Audited,
)


@pytest.mark.slow
def test_a_new_seed_keeps_what_was_purged_unless_told_to_forget_it(audited: Audited) -> None:
    archived = audited.archived()
    audited.purge(50)
    code, _, err = audited.run(job="seed")
    assert code == 41, err
    assert "nobody follows the slot" in err and "--forget-purged" in err
    with audited.follow():
        # Not built yet: the seed brings the fact forward by itself.
        audited.source.execute(ARCHIVE)
        code, out, err = audited.run("--json", job="seed")
        assert code == 0, err
        audited.stage()
        audited.build()
    summary = json.loads(out)
    assert (summary["purged"], summary["purged_rows"]) == ("kept", 50)
    assert audited.source.value("select sum(purged_count) from cdc.historical_counts") == 50
    stored = audited.stored_rows()
    assert audited.archived() == stored + 50 > archived - 50
    audited.put_off(-1)
    audited.purge(5)
    with audited.follow():
        report = audit(audited.settings())
    assert (report.archived, report.purged_count) == ("exact", 55)
    assert [each.difference for each in report.comparison.differences] == [-1]
    audited.put_off(1)
    stored -= 5
    with audited.follow():
        code, out, err = audited.run("--json", "--forget-purged", job="seed")
        assert code == 0, err
        audited.stage()
        audited.build()
    summary = json.loads(out)
    assert (summary["purged"], summary["purged_rows"]) == ("forgotten", 55)
    assert audited.archived() == stored


def test_where_the_log_does_not_reach_the_fact_a_seed_takes_it_as_it_is(audited: Audited) -> None:
    archived = audited.archived()
    audited.purge(20)
    audited.must("setup", "--renew")
    code, out, err = audited.run(job="seed")
    assert code == 0, err
    assert "20 rows in" in out
    assert "the change log does not go on from the fact" in out
    audited.must("run", "--once")
    audited.build()
    assert audited.archived() == archived


def test_purges_are_explained_and_a_count_off_by_one_is_found(audited: Audited) -> None:
    with audited.follow():
        audited.purge(30)
        audited.source.execute("delete from notification_history where service_id is null")
        audited.stage()
        audited.build()
        audited.purge(20)
        report = audit(audited.settings())
        assert report.comparison.differences == []
        assert (report.archived, report.unseen) == ("exact", None)
        assert report.purged_count == 50

        group = audited.put_off(-1)
        report = audit(audited.settings())
        assert [
            (*list(vars(each).values())[:5], each.difference)
            for each in report.comparison.differences
        ] == [(*group, "archived_count", -1)]

        audited.put_off(2)
        code, out, err = audited.run()
        assert (code, "archived_count" in out) == (42, True), err
        assert audited.remedies(err)[0] == ["dbt", "build", "--full-refresh"]


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
            "update cdc.historical_counts set row_count = row_count + 1 where (slot_name,"
            " source_table, service_id, template_id, notification_type, notification_status) = (%s,"
            " 'public.notification_history', %s, %s, %s, %s)",
            audited.slot,
            *group,
        )
        audited.run_command(rebuild)
        code, _, err = audited.submit()
        assert code == 42, err
        assert audited.remedies(err) == [rebuild, *anew]
        seed, build = anew
        assert seed == ["spark-submit", "spark/seed.py", "--forget-purged"]
        audited.run_command(seed)
        audited.stage()
        audited.run_command(build)
        code, out, err = audited.submit("--json")
        assert code == 0, err
        assert json.loads(out)["purged_count"] == 0
    assert audited.archived() == audited.stored_rows()


@pytest.mark.slow
def test_where_purges_are_not_all_known_the_audit_says_why(audited: Audited) -> None:
    with audited.follow():
        audited.source.execute("alter table notification_history replica identity default")
        audited.purge(1)
        audited.source.execute("alter table notification_history replica identity full")
        audited.purge(4)
        audited.put_off(1)
        report = audit(audited.settings())
        assert report.archived == "at-least"
        assert "1 changes in the log" in (report.unseen or "")
        assert "do not say of which group" in (report.unseen or "")
        assert report.comparison.differences == []

        # The archive starts anew: what was before is not asked for, in the log or the seed.
        audited.source.execute("truncate notification_history; truncate truth.purged")
        audited.stage()
        truncated = audited.source.value(
            "select max(commit_lsn)::text from cdc.change_log where action = 'T'"
        )
        audited.source.execute(ARCHIVE)
        audited.purge(1)
        audited.stage()
        audited.build()
        audited.purge(2)
        audited.put_off(1)
        audited.source.execute("update cdc.slot_position set start_lsn = %s", truncated)
        report = audit(audited.settings())
        assert (report.archived, report.purged_count) == ("exact", 3)
        assert [each.difference for each in report.comparison.differences] == [1]
        assert report.remedy().startswith("`spark-submit spark/seed.py --forget-purged`")

        audited.build()
        audited.source.execute(
            "update cdc.slot_position set start_lsn = applied_lsn from cdc.model_watermark"
            " where model_name ~ 'ft_service_stats'"
        )
        report = audit(audited.settings())
        assert report.comparison.differences == []
        assert report.archived == "at-least"
        assert "after the seed at" in (report.unseen or "")
        audited.put_off(-10)
        report = audit(audited.settings())
        assert {each.column for each in report.comparison.differences} == {"archived_count"}
        assert all(each.difference < 0 for each in report.comparison.differences)
