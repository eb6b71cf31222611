from __future__ import annotations

from loader.capture.held_positions import HeldPositions


def test_a_position_is_taken_once_its_record_has_come_back() -> None:
    held = HeldPositions()
    assert held.take(1000) is None
    held.hold(110, 100)
    held.hold(120, 110)
    held.hold(130, 120)
    assert held.take(109) is None
    assert held.take(125) == 110
    assert held.take(125) is None
    assert held.take(130) == 120


def test_to_receive_only_up_to_a_position_takes_the_first_record_in() -> None:
    held = HeldPositions()
    assert held.wanted(50) == 50
    held.hold(110, 100)
    held.hold(120, 110)
    assert (held.wanted(50), held.wanted(200)) == (110, 200)
