"""Rows that were purged from the archive stay counted, for the audit as for a new seed."""

from __future__ import annotations

import json

import pytest
from auditing.job import audit
from auditing.report import FactReport

from tests.spark.audited import (
    ARCHIVE,
    Audited,
)


def audited_fact(audited: Audited) -> FactReport:
    """What an audit says of ft_service_stats, the only fact."""
    [fact] = audit(audited.settings()).facts
    return fact


def purged_by(out: str) -> tuple[str, int]:
    """What became of purged rows, as a seed's JSON says."""
    purged = json.loads(out)["facts"]["ft_service_stats"]["purged"]
    return purged["outcome"], purged["rows"]


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
    assert purged_by(out) == ("kept", 50)
    assert audited.source.value("select sum(purged[2]) from cdc.baseline_group") == 50
    stored = audited.stored_rows()
    assert audited.archived() == stored + 50 > archived - 50
    audited.put_off(-1)
    audited.purge(5)
    with audited.follow():
        fact = audited_fact(audited)
    assert (fact.unseen, fact.purged) == ({}, {"archived_count": "55"})
    assert [each.difference for each in fact.comparison.differences] == ["-1"]
    audited.put_off(1)
    stored -= 5
    with audited.follow():
        code, out, err = audited.run("--json", "--forget-purged", job="seed")
        assert code == 0, err
        audited.stage()
        audited.build()
    assert purged_by(out) == ("forgotten", 55)
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
        fact = audited_fact(audited)
        assert fact.comparison.differences == []
        assert (fact.unseen, fact.purged) == ({}, {"archived_count": "50"})

        group = audited.put_off(-1)
        fact = audited_fact(audited)
        assert [
            (*each.dimensions.values(), each.measure, each.difference)
            for each in fact.comparison.differences
        ] == [(*group, "archived_count", "-1")]

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
        assert seed == [
            *("spark-submit", "spark/seed.py", "--fact", "ft_service_stats", "--forget-purged")
        ]
        audited.run_command(seed)
        audited.stage()
        audited.run_command(build)
        code, out, err = audited.submit("--json")
        assert code == 0, err
        purged = json.loads(out)["facts"]["ft_service_stats"]["purged"]
        assert purged == {"archived_count": "0"}
    assert audited.archived() == audited.stored_rows()


@pytest.mark.slow
def test_where_purges_are_not_all_known_the_audit_says_why(audited: Audited) -> None:
    with audited.follow():
        audited.source.execute("alter table notification_history replica identity default")
        audited.purge(1)
        audited.source.execute("alter table notification_history replica identity full")
        audited.purge(4)
        audited.put_off(1)
        fact = audited_fact(audited)
        assert "the log has 1 change without a group" in fact.unseen["archived_count"]
        assert fact.comparison.differences == []

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
        fact = audited_fact(audited)
        assert (fact.unseen, fact.purged) == ({}, {"archived_count": "3"})
        assert [each.difference for each in fact.comparison.differences] == ["1"]
        seed = "`spark-submit spark/seed.py --fact ft_service_stats --forget-purged`"
        assert fact.remedy().startswith(seed)

        audited.build()
        audited.source.execute(
            "update cdc.slot_position set start_lsn = applied_lsn from cdc.model_watermark"
            " where model_name ~ 'ft_service_stats'"
        )
        fact = audited_fact(audited)
        assert fact.comparison.differences == []
        assert "after the baseline at" in fact.unseen["archived_count"]
        audited.put_off(-10)
        fact = audited_fact(audited)
        assert {each.measure for each in fact.comparison.differences} == {"archived_count"}
        assert all(int(each.difference) < 0 for each in fact.comparison.differences)
