"""Errors of a server or a stream are judged by SQLSTATE, and say whether waiting helps."""

from __future__ import annotations

from types import ModuleType

import psycopg
import psycopg2
import pytest

from loader.capture.protocol import ProtocolError
from loader.capture.protocol_errors import protocol_error
from loader.source.remedies import slot_finding
from waltally import errors
from waltally.errors import TRANSIENT, CannotConnect, SlotLost
from waltally.server_errors import ServerError, explain

LIST = "the setting output_plugin_libraries allows no wal2json"


@pytest.mark.parametrize(
    ("sqlstate", "kind", "is_healed"),
    [
        ("25006", errors.TargetReadOnly, True),
        ("54000", errors.RowTooLarge, False),
        ("22P05", errors.EncodingUnfit, False),
        ("53100", errors.DiskFull, True),
        ("42501", errors.MissingRight, False),
        ("42P01", errors.NotSetUp, False),
        ("40P01", errors.Interrupted, True),
        ("57P01", errors.CannotConnect, True),
        ("22012", errors.LoaderError, False),
    ],
)
def test_each_code_has_its_meaning_and_some_are_waited_for(
    sqlstate: str, kind: type[errors.LoaderError], is_healed: bool
) -> None:
    found = explain(ServerError("said", sqlstate, is_connection_lost=sqlstate == "57P01"), "target")
    assert (type(found), isinstance(found, TRANSIENT)) == (kind, is_healed)


@pytest.mark.parametrize("driver", [psycopg, psycopg2])
def test_both_drivers_report_the_same(driver: ModuleType) -> None:
    said = ServerError.of(driver.errors.AdminShutdown("terminating connection"))
    assert said.message == "terminating connection"
    assert said.is_connection_lost


@pytest.mark.parametrize(
    ("error", "code", "remedy"),
    [
        (ServerError("said", "XX000", text=LIST), 13, "output_plugin_libraries"),
        (ServerError('could not access file "wal2json"', "58P01"), 12, "postgresql-17-wal2json"),
        (ServerError("said", "53400"), 14, "max_replication_slots = 20; -- then restart"),
        (ServerError("number exceeds max_wal_senders", "53300"), 14, "max_wal_senders = 20"),
        (ServerError("said", "42501"), 15, 'alter role "me" replication; -- as a superuser'),
        (ServerError("said", "55006"), 24, "stop the other loader"),
    ],
)
def test_each_reason_for_no_slot_has_its_remedy(error: ServerError, code: int, remedy: str) -> None:
    finding = slot_finding(error, "s", "me", 17)
    assert finding is not None
    assert (finding.exit_code, remedy in finding.remedy) == (code, True)
    assert slot_finding(ServerError("said", "22012"), "s") is None, "any other error"


@pytest.mark.parametrize(
    ("error", "is_healed"),
    [
        (psycopg2.OperationalError("server closed the connection unexpectedly"), True),
        (psycopg2.InterfaceError("connection already closed"), True),
        # What psycopg2 raises now and then where the server dies amid a COPY.
        (psycopg2.DatabaseError("server closed the connection unexpectedly"), True),
        # Of our own making.
        (psycopg2.ProgrammingError("can't adapt type 'object'"), False),
    ],
)
def test_a_lost_connection_is_something_that_waiting_heals(
    error: psycopg2.Error, is_healed: bool
) -> None:
    assert isinstance(explain(ServerError.of(error), "target"), TRANSIENT) == is_healed


def test_a_decoder_that_fails_for_good_is_not_waited_for_and_any_other_end_of_a_stream_is() -> None:
    # As libpq says it where the loader was just sending a status; there is no SQLSTATE then.
    said = 'sending copy data failed: could not map filenode "base/3" to relation OID\nno COPY'
    found = protocol_error(ProtocolError(said), "a_slot")
    assert isinstance(found, SlotLost)
    assert "cannot decode the WAL of a_slot: sending copy data failed" in str(found)
    assert "loader setup --renew" in found.remedy
    ended = protocol_error(ProtocolError("the server ended the stream"), "a_slot")
    assert isinstance(ended, CannotConnect)
