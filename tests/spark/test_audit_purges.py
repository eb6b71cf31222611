"""Rows that were purged from the archive stay counted, for the audit as for a new seed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from auditing.job import audit
from auditing.report import FactReport
from counting import snapshot

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


def written_down(audited: Audited) -> int:
    """How many deletes of the archive the fact has written down."""
    return int(audited.source.value("select sum(measures[2]) from cdc.archived_delete"))


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
    assert written_down(audited) == 50
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
        audited.stage()
        audited.build()
        code, out, err = audited.run("--json", "--forget-purged", job="seed")
        assert code == 0, err
        audited.stage()
        audited.build()
    assert purged_by(out) == ("forgotten", 55)
    assert audited.archived() == stored
    assert audited.source.value("select count(*) from cdc.archived_delete") == 0


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
    assert written_down(audited) == 17
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
        assert seed == ["spark-submit", "spark/seed.py", "--fact", "ft_service_stats"]
        audited.run_command(seed)
        audited.stage()
        audited.run_command(build)
        code, out, err = audited.submit("--json")
        assert code == 0, err
        purged = json.loads(out)["facts"]["ft_service_stats"]["purged"]
        assert purged == {"archived_count": "30"}
    assert audited.facts() == right


def test_a_truncate_of_the_archive_takes_its_purged_rows_away(audited: Audited) -> None:
    with audited.follow():
        audited.purge(30)
        audited.stage()
        audited.build()
        # One TRUNCATE is applied, the other is brought forward by the audit.
        for _ in range(2):
            audited.source.execute("truncate notification_history")
            audited.source.execute(ARCHIVE)
            audited.purge(1)
            fact = audited_fact(audited)
            assert fact.comparison.differences == []
            assert fact.purged == {"archived_count": "1"}
            audited.stage()
            audited.build()
            assert written_down(audited) == 1
