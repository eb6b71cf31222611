"""A port is given to one server only, also while nothing listens on it."""

from __future__ import annotations

import random
from itertools import chain, count

import pytest

from testkit.servers import free_port


def test_a_port_is_not_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    first = free_port()
    # So high that no other test draws one of them.
    drawn = chain([first, first], count(31_000))
    monkeypatch.setattr(random, "randrange", lambda *_: next(drawn))
    assert free_port() > 30_000
