"""What a server, a table or a setting must be like, and the remedy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loader.source import server_checks as checks
from loader.source import table_checks
from loader.source.server import ServerInfo
from loader.source.standbys.names import judge_standby_names
from loader.source.table import TableInfo, Writes
from testkit.model import parsed
from waltally.errors import LoaderError, WalLevelTooLow
from waltally.tables import Table

SOUND = ServerInfo(
    role="loader",
    in_recovery=False,
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
COLUMNS = dict.fromkeys(("id", "shop", "Paid At", "amount"), True)
TABLE = TableInfo(
    Table("public", "n"),
    "r",
    "p",
    COLUMNS,
    "i",
    frozenset(COLUMNS),
    ("id",),
    types={"shop": "uuid", "Paid At": "timestamp without time zone", "amount": "numeric"},
    index_sizes=dict.fromkeys(COLUMNS, 16),
)
MODEL = parsed("ft_paid", ("shop", "Paid At", "amount"), "public.n")


@pytest.mark.parametrize(
    ("info", "code", "remedy"),
    [
        (SOUND, None, ""),
        (replace(SOUND, allowed_plugins="pgoutput, wal2json"), None, ""),
        # A slot that is there needs no free place.
        (replace(SOUND, slots_used=10, slot_exists=True), None, ""),
        (replace(SOUND, in_recovery=True), 16, "primary"),
        (replace(SOUND, allowed_plugins=""), 13, "output_plugin_libraries = 'wal2json'"),
        (replace(SOUND, allowed_plugins="pgoutput"), 13, "= 'pgoutput', 'wal2json'"),
        (replace(SOUND, senders_used=10), 14, "max_wal_senders = 15"),
    ],
)
def test_each_server_fault_has_its_code_and_remedy_and_a_sound_one_none(
    info: ServerInfo, code: int | None, remedy: str
) -> None:
    found = checks.server_findings(info)
    assert [finding.exit_code for finding in found] == ([code] if code else [])
    assert all(remedy in finding.remedy for finding in found)


def finding(models: TableInfo) -> LoaderError | None:
    found = table_checks.table_findings(models, [MODEL])
    return found[0] if found else None


@pytest.mark.parametrize("identity", ["i", "d", "f"])
def test_a_wide_identity_is_sound(identity: str) -> None:
    columns = frozenset() if identity == "f" else TABLE.identity_columns
    assert finding(replace(TABLE, identity=identity, identity_columns=columns)) is None


@pytest.mark.parametrize(
    ("broken", "remedy"),
    [
        (replace(TABLE, kind="v"), "name in the declaration"),
        (replace(TABLE, table=Table("information_schema", "n")), "name in the declaration"),
        (
            replace(TABLE, virtual={"amount": "int generated always as (1) stored"}),
            'drop "amount", add "amount" int generated always as (1) stored; -- ',
        ),
    ],
)
def test_a_table_that_no_slot_can_follow_is_refused(broken: TableInfo, remedy: str) -> None:
    found = finding(broken)
    assert found is not None
    assert (found.exit_code, remedy in found.remedy) == (17, True)


def test_rows_need_their_key_alone_of_an_old_row() -> None:
    rows = parsed("rows", ("shop", "amount"), "public.n", identity=["shop"])
    narrow = replace(
        TABLE, identity="d", identity_columns=frozenset({"shop"}), primary_key=("shop",)
    )
    assert table_checks.table_findings(narrow, [rows]) == []
    (found,) = table_checks.table_findings(narrow, [rows, MODEL])
    assert "does not carry Paid At, amount: " in str(found)
    for key, said in (("id", "shop"), "id, shop"), ((), "gone or deferrable"):
        (found,) = table_checks.table_findings(replace(narrow, primary_key=key), [rows])
        assert f"not as rows was compiled for it: its primary key is {said} now" in str(found)


@pytest.mark.parametrize(
    ("writes", "cost_of_full"),
    [
        (Writes(5e6, 1e9, inserts=5e6), "200 bytes"),
        (Writes(5e6, 1e9, inserts=5e6, deletes=5e6), None),
        (Writes(5e6, 0.8e9, inserts=5e6, deletes=5e6), "160 bytes"),
        (Writes(5e6, 5e9, inserts=1, updates=9e6), None),
        (Writes(5e6, 5e9), None),
        (Writes(1e5, 2e7, inserts=5e6), None),
        (Writes(-1, 0, inserts=5e6), None),
    ],
)
def test_a_large_table_gets_the_identity_that_writes_less(
    writes: Writes, cost_of_full: str | None
) -> None:
    narrow = replace(TABLE, identity="d", identity_columns=frozenset({"id"}), writes=writes)
    found = finding(narrow)
    assert found is not None
    if cost_of_full:
        assert "replica identity full; -- an index would take about" in found.remedy
        assert f"full writes about {cost_of_full} of WAL more" in found.remedy
    else:
        assert "replica identity using index" in found.remedy


US = "waltally loader"


@pytest.mark.parametrize(
    ("setting", "standbys", "wanted"),
    [
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
    ],
)
def test_a_list_with_the_loader_is_refused_and_the_remedy_keeps_the_real_standbys(
    setting: str, standbys: tuple[str, ...] | None, wanted: str | None
) -> None:
    found = judge_standby_names(setting, US, standbys)
    remedy = f"alter system set synchronous_standby_names = '{wanted}'; select pg_reload_conf();"
    assert (found is None) == (wanted is None)
    assert found is None or found.remedy.startswith(remedy)


def test_a_missing_column_hides_no_other_finding() -> None:
    """But the SQL for an identity would be another once the columns are right."""
    without = {name: True for name in COLUMNS if name != "shop"}
    virtual = {"amount": "int generated always as (1) stored"}
    info = replace(TABLE, columns=without, identity="n", virtual=virtual)
    missing, not_stored, narrow = table_checks.table_findings(info, [MODEL, MODEL])
    assert "has no column shop" in missing.sentence
    assert "has amount as a virtual generated column" in not_stored.sentence
    assert "correct the columns of public.n first" in str(narrow.remedy)


def test_postgresql_19_raises_the_wal_level_by_itself_where_a_slot_is_made() -> None:
    at_replica = replace(SOUND, wal_level="replica")
    assert isinstance(checks.wal_level(at_replica), WalLevelTooLow)
    assert checks.wal_level(replace(at_replica, version=190_000)) is None
    minimal = replace(SOUND, wal_level="minimal", version=190_000)
    assert isinstance(checks.wal_level(minimal), WalLevelTooLow)
