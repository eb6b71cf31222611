from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waltally import lsn


@given(st.integers(min_value=0, max_value=2**64 - 1))
def test_a_position_survives_printing(position: int) -> None:
    assert lsn.parse(lsn.show(position)) == position


def test_a_position_prints_as_postgresql_prints_it() -> None:
    assert lsn.show(0x0_015368E0) == "0/15368E0"
    assert lsn.show(0xA3_00000000) == "A3/0"


@pytest.mark.parametrize("text", ["", "0", "0/", "/0", "0/G", "123456789/0", "0/0/0"])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a WAL position"):
        lsn.parse(text)
