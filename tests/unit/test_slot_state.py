from __future__ import annotations

from dataclasses import replace

import pytest

from loader.preflight.slot_state import Server, SlotState, why_not_followable
from loader.staging.records import SlotPosition

SERVER = Server("7", "notify", wal_end=200)
SLOT = SlotState("wal2json", "notify", None, "reserved", 100, 90, None)
RECORD = SlotPosition("s", "7", "notify", start_lsn=50, position_lsn=100)


def test_a_slot_at_the_record_is_sound() -> None:
    assert why_not_followable("s", SERVER, SLOT, RECORD) is None


def test_a_slot_behind_the_record_is_sound_as_the_server_saves_it_lazily() -> None:
    assert why_not_followable("s", SERVER, replace(SLOT, confirmed_flush_lsn=60), RECORD) is None


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
    ],
)
def test_what_cannot_be_followed_is_refused(
    server: Server, slot: SlotState | None, code: int
) -> None:
    finding = why_not_followable("s", server, slot, RECORD)
    assert finding is not None
    assert finding.exit_code == code
    assert "everything before 0/64 is stored" in str(finding) or code == 25
    assert finding.remedy
