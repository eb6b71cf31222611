"""A server's error is judged by SQLSTATE, whichever driver reports it."""

from __future__ import annotations

import psycopg
import psycopg2
import pytest

from loader.source.remedies import slot_finding
from waltally import errors
from waltally.server_errors import ServerError, explain

LIST = "the setting output_plugin_libraries allows no wal2json"


@pytest.mark.parametrize(
    ("sqlstate", "kind"),
    [
        ("25006", errors.TargetReadOnly),
        ("54000", errors.RowTooLarge),
        ("22P05", errors.EncodingUnfit),
        ("53100", errors.TargetFull),
        ("42501", errors.MissingRight),
        ("42P01", errors.NotSetUp),
        ("40P01", errors.Interrupted),
        ("57P01", errors.CannotConnect),
        ("22012", errors.LoaderError),
    ],
)
def test_each_code_has_its_meaning(sqlstate: str, kind: type[errors.LoaderError]) -> None:
    found = explain(ServerError("said", sqlstate, is_connection_lost=sqlstate == "57P01"), "target")
    assert type(found) is kind


@pytest.mark.parametrize(
    "error",
    [
        psycopg2.errors.AdminShutdown("terminating connection"),
        psycopg.errors.AdminShutdown("terminating connection"),
    ],
)
def test_both_drivers_report_the_same(error: Exception) -> None:
    said = ServerError.of(error)
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
    assert finding.exit_code == code
    assert remedy in finding.remedy


def test_any_other_error_is_no_finding_about_the_slot() -> None:
    assert slot_finding(ServerError("said", "22012"), "s") is None
