"""A connection that breaks is waited for, under whatever name the driver reports it."""

from __future__ import annotations

import psycopg2
import pytest

from waltally.database import explain
from waltally.errors import TRANSIENT


@pytest.mark.parametrize(
    "kind", [psycopg2.OperationalError, psycopg2.InterfaceError, psycopg2.DatabaseError]
)
def test_a_lost_connection_is_something_that_waiting_heals(kind: type[psycopg2.Error]) -> None:
    # DatabaseError is what psycopg2 raises now and then where the server dies amid a COPY.
    error = kind("server closed the connection unexpectedly")
    assert isinstance(explain(error, "target"), TRANSIENT)


def test_an_error_of_our_own_making_is_not_taken_for_a_lost_connection() -> None:
    error = psycopg2.ProgrammingError("can't adapt type 'object'")
    assert not isinstance(explain(error, "target"), TRANSIENT)
