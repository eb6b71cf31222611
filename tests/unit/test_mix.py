import pytest

from demo.mix import mix


def test_covering_identity_gets_no_nulls() -> None:
    extra = {kind.__name__ for kind in mix("full")} - {kind.__name__ for kind in mix("covering")}
    assert extra == {"null_dimension", "history_null_dimension"}


def test_truncates_are_off_unless_asked_for() -> None:
    assert not [kind for kind in mix() if kind.__name__.startswith("truncate")]


def test_weight_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="no kind of change is called typo"):
        mix(weights={"typo": 1})
