"""What a server, a table, a setting, a slot must be like, what errors mean, and the remedy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import psycopg
import psycopg2

from loader.capture.protocol import ProtocolError
from loader.capture.protocol_errors import protocol_error
from loader.findings import tables
from loader.findings.server import server_findings
from loader.findings.slot import why_not_followable
from loader.findings.synchronous import judge_standby_names
from loader.source.remedies import slot_finding
from loader.source.server import Server, ServerInfo, Timeline
from loader.source.slot import SlotInfo, SlotState
from loader.source.standbys import parse_history
from loader.source.table import TableInfo, Writes
from loader.staging.records import SlotPosition
from testkit.commands import ROOT
from testkit.model import parsed
from waltally import errors
from waltally.errors import TRANSIENT, CannotConnect, LoaderError, SlotLost
from waltally.server_errors import ServerError, explain
from waltally.tables import Table

SOUND = ServerInfo(
    role="loader",
    wal_level="logical",
    may_replicate=True,
    administrators=None,
    allowed_plugins=None,
    slots_used=1,
    slots_limit=10,
    slot_exists=False,
    senders_used=1,
    senders_limit=10,
    version=150_020,
)
RDS = {"administrators": "rds_superuser"}
COLUMNS = dict.fromkeys(("id", "shop", "Paid At", "amount"), True)
TABLE = TableInfo(
    Table("public", "n"),
    "r",
    "p",
    COLUMNS,
    "i",
    frozenset(COLUMNS),
    ("id",),
    types={"shop": "uuid", "Paid At": "text", "amount": "text"},
    index_sizes=dict.fromkeys(COLUMNS, 16),
)
MODEL = parsed("ft_paid", ("shop", "Paid At", "amount"), "public.n")


SERVERS: list[tuple[dict[str, Any], int | None, str]] = [
    ({}, None, ""),
    ({"allowed_plugins": "pgoutput, wal2json"}, None, ""),
    # A slot that is there needs no free place.
    ({"slots_used": 10, "slot_exists": True}, None, ""),
    ({"allowed_plugins": ""}, 11, "output_plugin_libraries = 'wal2json'"),
    ({"allowed_plugins": "pgoutput"}, 11, "= 'pgoutput', 'wal2json'"),
    ({"senders_used": 10}, 11, "max_wal_senders = 15"),
    # PostgreSQL 19 raises it by itself where a slot is made.
    ({"wal_level": "replica"}, 11, "wal_level = "),
    ({"wal_level": "replica", "version": 190_000}, None, ""),
    ({"wal_level": "minimal", "version": 190_000}, 11, "wal_level = "),
    # Where a provider manages the server.
    ({"wal_level": "replica", **RDS}, 11, "rds.logical_replication = 1, then reboot"),
    ({"slots_used": 10, **RDS}, 11, "max_replication_slots = 15, then reboot"),
    ({"may_replicate": False, **RDS}, 15, 'grant rds_replication to "loader";'),
]


def test_each_server_fault_has_its_code_and_remedy_and_a_sound_one_none() -> None:
    for changed, code, remedy in SERVERS:
        found = [*server_findings(replace(SOUND, **changed))]
        assert [finding.exit_code for finding in found] == ([code] if code else []), changed
        assert all(remedy in finding.remedy for finding in found)


def finding(models: TableInfo) -> LoaderError | None:
    found = tables.table_findings(models, [MODEL])
    return found[0] if found else None


def test_a_wide_identity_is_sound_and_a_table_that_no_slot_can_follow_is_refused() -> None:
    for identity, columns in (("i", COLUMNS), ("d", COLUMNS), ("f", ())):
        sound = replace(TABLE, identity=identity, identity_columns=frozenset(columns))
        assert finding(sound) is None
    virtual = {"amount": "int generated always as (1) stored"}
    for broken, remedy in (
        (replace(TABLE, kind="v"), "name in the declaration"),
        (replace(TABLE, table=Table("information_schema", "n")), "name in the declaration"),
        (replace(TABLE, virtual=virtual), f'drop "amount", add "amount" {virtual["amount"]}; -- '),
    ):
        found = finding(broken)
        assert found is not None
        assert (found.exit_code, remedy in found.remedy) == (17, True)


def test_rows_need_their_key_alone_of_an_old_row() -> None:
    rows = parsed("rows", ("shop", "amount"), "public.n", identity=["shop"])
    narrow = replace(
        TABLE, identity="d", identity_columns=frozenset({"shop"}), primary_key=("shop",)
    )
    assert tables.table_findings(narrow, [rows]) == []
    (found,) = tables.table_findings(narrow, [rows, MODEL])
    assert "does not carry Paid At, amount: " in str(found)
    for key, said in (("id", "shop"), "id, shop"), ((), "gone or deferrable"):
        (found,) = tables.table_findings(replace(narrow, primary_key=key), [rows])
        assert f"not as rows was compiled for it: its primary key is {said} now" in str(found)


def test_a_large_table_gets_the_identity_that_writes_less() -> None:
    for writes, cost_of_full in (
        (Writes(5e6, 1e9, inserts=5e6), "200 bytes"),
        (Writes(5e6, 1e9, inserts=5e6, deletes=5e6), None),
        (Writes(5e6, 0.8e9, inserts=5e6, deletes=5e6), "160 bytes"),
        (Writes(5e6, 5e9, inserts=1, updates=9e6), None),
        (Writes(5e6, 5e9), None),
        (Writes(1e5, 2e7, inserts=5e6), None),
        (Writes(-1, 0, inserts=5e6), None),
    ):
        narrow = replace(TABLE, identity="d", identity_columns=frozenset({"id"}), writes=writes)
        found = finding(narrow)
        assert found is not None
        if cost_of_full:
            assert "replica identity full; -- an index would take about" in found.remedy
            assert f"full writes about {cost_of_full} of WAL more" in found.remedy
        else:
            assert "replica identity using index" in found.remedy


STANDBY_NAMES: list[tuple[str, tuple[str, ...] | None, str | None]] = [
    *((setting, (), None) for setting in ("", "one", "FIRST 1 (one, two)")),
    ('any 1 ("waltally", loader)', (), None),
    ("*", ("one",), 'FIRST 1 ("one")'),
    ("*", ("a's", "two"), 'FIRST 1 ("a\'\'s", "two")'),
    ("ANY 2 (*)", ("one", "two", "three"), 'ANY 2 ("one", "two", "three")'),
    ("FIRST 3 (*)", ("one",), 'FIRST 1 ("one")'),
    ("first 1 (one, *)", ("one", "two"), 'FIRST 1 ("one", "two")'),
    ('one, "WalTally Loader"', None, 'FIRST 1 ("one")'),
    ('2 (one, "waltally loader",two)', None, 'FIRST 2 ("one", "two")'),
    ('any 3 ("a, b", c , *)', ("c", "d", "e"), 'ANY 3 ("a, b", "c", "d", "e")'),
    ('Any 1("with ""quotes""", "waltally loader")', None, 'ANY 1 ("with ""quotes""")'),
    ('"first 1 (x)", "waltally loader"', None, 'FIRST 1 ("first 1 (x)")'),
    ('"*"', (), ""),
    ('"waltally loader"', (), ""),
]


def test_a_list_with_the_loader_is_refused_and_the_remedy_keeps_the_real_standbys() -> None:
    for setting, standbys, wanted in STANDBY_NAMES:
        found = judge_standby_names(setting, "waltally loader", standbys)
        sql = f"alter system set synchronous_standby_names = '{wanted}'; select pg_reload_conf();"
        assert (found is None) == (wanted is None), setting
        assert found is None or found.remedy.startswith(sql)


def test_a_missing_column_hides_no_other_finding() -> None:
    """But the SQL for an identity would be another once the columns are right."""
    without = {name: True for name in COLUMNS if name != "shop"}
    virtual = {"amount": "int generated always as (1) stored"}
    info = replace(TABLE, columns=without, identity="n", virtual=virtual)
    missing, not_stored, narrow = tables.table_findings(info, [MODEL, MODEL])
    assert "has no column shop" in missing.sentence
    assert "has amount as a virtual generated column" in not_stored.sentence
    assert "correct the columns of public.n first" in str(narrow.remedy)


SERVER = Server("7", "notify", wal_end=200)
SLOT = SlotState("wal2json", "notify", None, "reserved", 100, 90, None)
RECORD = SlotPosition("s", "7", "notify", start_lsn=50, position_lsn=100, timeline=2)


def promoted(**left_at: int) -> Server:
    """Return a server on timeline 4, which left each of the former ones there: t2=100."""
    ends = {int(name[1:]): position for name, position in left_at.items()}
    return replace(SERVER, timeline=Timeline(4, ends))


def test_what_can_be_followed_goes_on() -> None:
    for server, slot, record in (
        (SERVER, SLOT, RECORD),
        # The server saves a slot's position lazily.
        (SERVER, replace(SLOT, confirmed_flush_lsn=60), RECORD),
        # A promotion at or after the position; and where its timeline is not known yet, any.
        (promoted(t1=10, t2=100, t3=150), SLOT, replace(RECORD, baseline_lsn=100)),
        (replace(SERVER, timeline=Timeline(2, {1: 10})), SLOT, replace(RECORD, baseline_lsn=100)),
        (promoted(t2=1), SLOT, replace(RECORD, timeline=None)),
    ):
        assert why_not_followable(SlotInfo("s", slot, record, server)) is None


def refusal(server: Server, slot: SlotState | None, record: SlotPosition = RECORD) -> LoaderError:
    found = why_not_followable(SlotInfo("s", slot, record, server))
    assert found is not None and found.remedy
    return found


def test_what_cannot_be_followed_is_refused() -> None:
    for server, slot, code in (
        (replace(SERVER, system_identifier="8"), SLOT, 23),
        (replace(SERVER, database="other"), SLOT, 23),
        (SERVER, None, 21),
        (SERVER, replace(SLOT, wal_status="lost"), 21),
        (SERVER, replace(SLOT, confirmed_flush_lsn=101), 21),
        (SERVER, replace(SLOT, plugin="pgoutput"), 21),
        (replace(SERVER, wal_end=99), replace(SLOT, confirmed_flush_lsn=99), 23),
        (promoted(t1=10, t2=99, t3=150), replace(SLOT, confirmed_flush_lsn=90), 23),
        (promoted(t1=10, t3=150), replace(SLOT, confirmed_flush_lsn=90), 23),
        (replace(SERVER, timeline=Timeline(1)), SLOT, 23),
    ):
        found = refusal(server, slot)
        assert found.exit_code == code, (server, slot)
        assert "everything before 0/64 is stored" in str(found) or isinstance(
            found, errors.SourceBehind
        )
    beyond = refusal(promoted(t2=100, t3=150), SLOT, replace(RECORD, baseline_lsn=101))
    assert (beyond.exit_code, "newest baseline 0/65" in str(beyond)) == (23, True)


def test_a_slot_that_the_server_gave_up_says_why() -> None:
    for reason, words in (
        (None, "max_slot_wal_keep_size"),
        ("wal_removed", "max_slot_wal_keep_size"),
        ("idle_timeout", "set idle_replication_slot_timeout = 0"),
        ("of_a_later_server", "of_a_later_server"),
    ):
        lost = refusal(SERVER, replace(SLOT, wal_status="lost", invalidation_reason=reason))
        assert (lost.exit_code, words in lost.sentence) == (21, True), reason


SHARED: list[tuple[dict[int, int], int, int | None, int | None]] = [
    ({}, 1, None, None),
    ({1: 30}, 2, 30, None),
    ({1: 30}, 2, None, None),
    ({}, 2, 30, None),
    ({1: 30}, 2, 40, 30),
    ({1: 30}, 2, 20, 20),
    ({1: 30, 2: 60}, 2, 30, 60),
    ({1: 30, 2: 60}, 2, 40, 30),
    ({1: 30, 2: 60}, 1, None, 30),
    ({1: 30}, 3, 60, 0),
]
"""Where timelines were left, another one's number and where it began, and where both part."""


def test_a_timeline_is_known_by_its_number_and_by_where_it_began() -> None:
    for left_at, number, began_at, shared in SHARED:
        here = Timeline(max(left_at, default=number - 1) + 1, left_at)
        assert here.shared_with(number, began_at) == shared


def test_a_history_file_says_where_each_timeline_was_left() -> None:
    text = "1\t0/3000000\tno recovery target specified\n\n# a remark\n2\tA/64\tbefore 2026\n"
    assert parse_history(text) == {1: 0x3000000, 2: 0xA00000064}


LIST = "the setting output_plugin_libraries allows no wal2json"


def test_each_code_has_its_meaning_and_some_are_waited_for() -> None:
    for sqlstate, kind, is_healed in (
        ("25006", errors.TargetReadOnly, True),
        ("54000", errors.RowTooLarge, False),
        ("22P05", errors.EncodingUnfit, False),
        ("53100", errors.DiskFull, True),
        ("42501", errors.MissingRight, False),
        ("42P01", errors.NotSetUp, False),
        ("40P01", errors.Interrupted, True),
        ("57P01", errors.CannotConnect, True),
        ("22012", errors.LoaderError, False),
    ):
        error = ServerError("said", sqlstate, is_connection_lost=sqlstate == "57P01")
        found = explain(error, "target")
        assert (type(found), isinstance(found, TRANSIENT)) == (kind, is_healed), sqlstate


def test_each_reason_for_no_slot_has_its_remedy() -> None:
    for error, code, remedy in (
        (ServerError("said", "XX000", text=LIST), 11, "output_plugin_libraries"),
        (ServerError('could not access file "wal2json"', "58P01"), 11, "postgresql-17-wal2json"),
        (ServerError("said", "53400"), 11, "max_replication_slots = 20; -- then restart"),
        (ServerError("number exceeds max_wal_senders", "53300"), 11, "max_wal_senders = 20"),
        (ServerError("said", "42501"), 15, 'alter role "me" replication; -- as a superuser'),
        (ServerError("said", "55006"), 24, "stop the other loader"),
    ):
        finding = slot_finding(error, "s", "me", 17)
        assert finding is not None
        assert (finding.exit_code, remedy in finding.remedy) == (code, True), error
    assert slot_finding(ServerError("said", "22012"), "s") is None, "any other error"


def test_a_lost_connection_is_something_that_waiting_heals() -> None:
    closed = "server closed the connection unexpectedly"
    for error, is_healed in (
        (psycopg.errors.AdminShutdown("terminating connection"), True),
        (psycopg2.errors.AdminShutdown("terminating connection"), True),
        (psycopg2.OperationalError(closed), True),
        (psycopg2.InterfaceError("connection already closed"), True),
        # What psycopg2 raises now and then where the server dies amid a COPY.
        (psycopg2.DatabaseError(closed), True),
        # Of our own making.
        (psycopg2.ProgrammingError("can't adapt type 'object'"), False),
    ):
        said = ServerError.of(error)
        assert isinstance(explain(said, "target"), TRANSIENT) == is_healed
        assert said.message == str(error)


def test_a_decoder_that_fails_for_good_is_not_waited_for_and_any_other_end_of_a_stream_is() -> None:
    # As libpq says it where the loader was just sending a status; there is no SQLSTATE then.
    said = 'sending copy data failed: could not map filenode "base/3" to relation OID\nno COPY'
    found = protocol_error(ProtocolError(said), "a_slot")
    assert isinstance(found, SlotLost)
    assert "cannot decode the WAL of a_slot: sending copy data failed" in str(found)
    assert "loader setup --renew" in found.remedy
    ended = protocol_error(ProtocolError("the server ended the stream"), "a_slot")
    assert isinstance(ended, CannotConnect)


def test_no_remedy_drops_what_another_may_need() -> None:
    """`loader teardown` and `setup --renew` drop a slot, after they have seen that it is ours."""
    dropping = {
        str(path.relative_to(ROOT)): path.read_text().count("pg_drop_replication_slot")
        for folder in ("loader", "waltally", "spark")
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix in (".py", ".sql")
    }
    assert {name: count for name, count in dropping.items() if count} == {
        "loader/source/slot_admin.py": 1
    }
