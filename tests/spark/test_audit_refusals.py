"""What the audit refuses, and how it waits for the loader."""

from __future__ import annotations

from contextlib import closing

import pytest
from auditing.job import audit
from common import session
from common.connections import connect_target
from common.errors import AuditIncomplete
from warehouse import fact, loader_progress

from testkit.commands import wait_until
from testkit.facts import notify
from tests.spark.audited import (
    SESSIONS,
    Audited,
)
from waltally import lsn
from waltally.errors import BuildFailed, LoaderError, NotSetUp


def test_without_a_loader_the_audit_says_so_before_it_starts(
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


BROKEN: list[tuple[str, str, type[LoaderError], str]] = [
    (
        "update cdc.model_watermark set model_name = 'x' || model_name",
        "update cdc.model_watermark set model_name = substr(model_name, 2)",
        NotSetUp,
        "ft_service_stats waits: it was not built yet",
    ),
    (
        "update cdc.model_watermark set declaration = jsonb_set(declaration, '{where}', '[7]')",
        "update cdc.model_watermark set declaration = jsonb_set(declaration, '{where}', '[]')",
        NotSetUp,
        "its rows were counted by another declaration",
    ),
    (
        "update cdc.model_watermark set applied_lsn = '0/0'",
        "delete from cdc.model_watermark",
        BuildFailed,
        "failed: the change log starts at",
    ),
]


def test_a_fact_that_cannot_be_brought_forward_is_refused_at_once(audited: Audited) -> None:
    for breaks, mends, error, words in BROKEN:
        audited.source.execute(breaks)
        try:
            with pytest.raises(error, match=words) as caught:
                audit(audited.settings())
            assert caught.value.remedy
        finally:
            audited.source.execute(mends)


def test_what_the_fact_stands_on_is_read_with_it(audited: Audited) -> None:
    applied = "select max(applied_lsn)::text from cdc.model_watermark"
    own = notify()
    with closing(connect_target(audited.settings(), "audit")) as target:
        with fact.open_facts(target, [own]) as [stored]:
            assert stored.position == lsn.parse(audited.source.value(applied))
            assert stored.baseline_lsn is not None
            assert stored.is_whole
        audited.source.execute(
            "update cdc.model_watermark set baseline_id = null; delete from cdc.baseline"
        )
        with fact.open_facts(target, [own]) as [stored]:
            assert stored.baseline_lsn is None
            assert not stored.is_whole
            assert set(stored.counted) == {str(part.table) for part in own.tables}


def test_the_wait_says_how_far_the_loader_is_and_who_follows(
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
    assert messages[0].startswith("waiting: the loader is at ")


def test_whether_a_loader_follows_a_standby_is_seen_at_the_target(
    audited: Audited, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the standby shows its slot, and the audit reads the primary."""
    audited.source.execute("update cdc.slot_position set on_standby = true")
    try:
        with pytest.raises(AuditIncomplete, match="nobody follows the slot"):
            audit(audited.settings(timeout=3600.0))
    finally:
        audited.source.execute("update cdc.slot_position set on_standby = false")
    with closing(connect_target(audited.settings(), "audit")) as target:
        assert not loader_progress.is_followed(target)
        monkeypatch.setattr(loader_progress, "_FOLLOWER_SECONDS", 120.0)
        with audited.start() as loader:
            loader_progress.require_follower(target, audited.settings())
            loader.wait_for("following the slot")
            loader.end()
