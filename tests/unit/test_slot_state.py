from __future__ import annotations

from dataclasses import replace

import pytest

from loader.source.findings import why_not_followable
from loader.source.server import Server, Timeline
from loader.source.slot import SlotInfo, SlotState
from loader.source.standbys.actions import parse_history
from loader.staging.records import SlotPosition

SERVER = Server("7", "notify", wal_end=200)
STANDBY = replace(SERVER, in_recovery=True)
SLOT = SlotState("wal2json", "notify", None, "reserved", 100, 90, None)
RECORD = SlotPosition("s", "7", "notify", start_lsn=50, position_lsn=100, timeline=2)


def promoted(**left_at: int) -> Server:
    """Return a server on timeline 4, which left each of the former ones there: t2=100."""
    ends = {int(name[1:]): position for name, position in left_at.items()}
    return replace(SERVER, timeline=Timeline(4, ends))


@pytest.mark.parametrize(
    ("server", "slot", "record"),
    [
        (SERVER, SLOT, RECORD),
        (STANDBY, SLOT, RECORD),
        # The server saves a slot's position lazily.
        (SERVER, replace(SLOT, confirmed_flush_lsn=60), RECORD),
        # A promotion at or after the position; and where its timeline is not known yet, any.
        (promoted(t1=10, t2=100, t3=150), SLOT, replace(RECORD, baseline_lsn=100)),
        (replace(SERVER, timeline=Timeline(2, {1: 10})), SLOT, replace(RECORD, baseline_lsn=100)),
        (promoted(t2=1), SLOT, replace(RECORD, timeline=None)),
    ],
)
def test_what_can_be_followed_goes_on(
    server: Server, slot: SlotState, record: SlotPosition
) -> None:
    assert why_not_followable(SlotInfo("s", slot, record, server)) is None


@pytest.mark.parametrize(
    ("server", "slot", "code"),
    [
        (replace(SERVER, system_identifier="8"), SLOT, 23),
        (replace(SERVER, database="other"), SLOT, 23),
        (SERVER, None, 21),
        (SERVER, replace(SLOT, wal_status="lost"), 21),
        (SERVER, replace(SLOT, confirmed_flush_lsn=101), 22),
        (SERVER, replace(SLOT, plugin="pgoutput"), 22),
        (replace(SERVER, wal_end=99), replace(SLOT, confirmed_flush_lsn=99), 25),
        (promoted(t1=10, t2=99, t3=150), replace(SLOT, confirmed_flush_lsn=90), 25),
        (promoted(t1=10, t3=150), replace(SLOT, confirmed_flush_lsn=90), 25),
        (replace(SERVER, timeline=Timeline(1)), SLOT, 25),
        (STANDBY, None, 16),
        (STANDBY, replace(SLOT, is_copy=True), 16),
        (replace(STANDBY, wal_end=99), SLOT, 29),
    ],
)
def test_what_cannot_be_followed_is_refused(
    server: Server, slot: SlotState | None, code: int
) -> None:
    finding = why_not_followable(SlotInfo("s", slot, RECORD, server))
    assert finding is not None
    assert finding.exit_code == code
    assert "everything before 0/64 is stored" in str(finding) or code == 25
    assert finding.remedy


@pytest.mark.parametrize(
    ("left_at", "number", "began_at", "shared"),
    [
        ({}, 1, None, None),
        ({1: 30}, 2, 30, None),
        ({1: 30}, 2, None, None),
        ({}, 2, 30, None),
        ({1: 30}, 2, 40, 30),
        ({1: 30}, 2, 20, 20),
        ({1: 30, 2: 60}, 2, 30, 60),
        ({1: 30, 2: 60}, 2, 40, 30),
        ({1: 30, 2: 60}, 1, None, 30),
        ({1: 30}, 3, 60, 0),
    ],
)
def test_a_timeline_is_known_by_its_number_and_by_where_it_began(
    left_at: dict[int, int], number: int, began_at: int | None, shared: int | None
) -> None:
    here = Timeline(max(left_at, default=number - 1) + 1, left_at)
    assert here.shared_with(number, began_at) == shared


def test_a_baseline_beyond_the_promotion_is_refused() -> None:
    server, record = promoted(t2=100, t3=150), replace(RECORD, baseline_lsn=101)
    finding = why_not_followable(SlotInfo("s", SLOT, record, server))
    assert finding is not None
    assert (finding.exit_code, "newest baseline 0/65" in str(finding)) == (25, True)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (None, "max_slot_wal_keep_size"),
        ("wal_removed", "max_slot_wal_keep_size"),
        ("rows_removed", "hot_standby_feedback = on"),
        ("wal_level_insufficient", "set wal_level = 'logical'"),
        ("idle_timeout", "set idle_replication_slot_timeout = 0"),
        ("conflict", "hot_standby_feedback = on"),
        ("of_a_later_server", "of_a_later_server"),
    ],
)
def test_a_slot_that_the_server_gave_up_says_why(reason: str | None, words: str) -> None:
    lost = replace(SLOT, wal_status="lost", invalidation_reason=reason)
    finding = why_not_followable(SlotInfo("s", lost, RECORD, SERVER))
    assert finding is not None
    assert (finding.exit_code, words in finding.sentence) == (21, True)


def test_a_history_file_says_where_each_timeline_was_left() -> None:
    text = "1\t0/3000000\tno recovery target specified\n\n# a remark\n2\tA/64\tbefore 2026\n"
    assert parse_history(text) == {1: 0x3000000, 2: 0xA00000064}
