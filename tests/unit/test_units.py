from __future__ import annotations

import pytest

from waltally.errors import SettingError
from waltally.units import parse_age

DAY = 86_400


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0s", 0), ("45s", 45), ("2m", 120), ("3h", 10_800), ("6d", 6 * DAY), ("8w", 56 * DAY)],
)
def test_an_age_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert parse_age(text) == seconds


@pytest.mark.parametrize("text", ["", "7", "d", "-1d", "7 d", "1.5d", "7y"])
def test_an_age_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="--keep"):
        parse_age(text)
