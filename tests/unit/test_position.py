"""What is confirmed is never ahead of what is stored, nor that of what was received."""

from __future__ import annotations

from loader.capture.position import Position


def test_a_position_is_confirmed_only_once_it_is_stored() -> None:
    position = Position(100)
    position.receive(200)
    assert (position.confirmed, position.stored, position.received) == (100, 100, 200)
    position.store()
    assert (position.confirmed, position.stored) == (200, 200)


def test_a_held_position_is_confirmed_once_its_record_has_come_back() -> None:
    position = Position(90)
    for received, record_end in ((100, 110), (110, 120), (120, 130)):
        position.receive(received)
        position.store(record_end)
        position.confirm_held()
    assert (position.confirmed, position.stored) == (110, 120)
    position.receive(130)
    position.confirm_held()
    assert position.confirmed == 120


def test_to_receive_only_up_to_a_position_takes_the_first_record_in() -> None:
    position = Position(100)
    assert position.to_receive(50) == 50
    position.hold(110)
    assert (position.to_receive(50), position.to_receive(200)) == (110, 200)
