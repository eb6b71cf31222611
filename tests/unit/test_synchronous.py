"""Which values of synchronous_standby_names make commits wait for the loader, and what to put."""

from __future__ import annotations

import pytest

from loader.source.server_checks import judge_standby_names, parse_standby_names

US = "waltally loader"


@pytest.mark.parametrize(
    ("setting", "method", "number", "names"),
    [
        ("", "FIRST", 1, ()),
        ("  ", "FIRST", 1, ()),
        ("one", "FIRST", 1, ("one",)),
        ("one, two", "FIRST", 1, ("one", "two")),
        ("*", "FIRST", 1, ("*",)),
        ("2 (one, two,three)", "FIRST", 2, ("one", "two", "three")),
        ("FIRST 2 (one, two)", "FIRST", 2, ("one", "two")),
        ('any 3 ("a, b", c , *)', "ANY", 3, ("a, b", "c", "*")),
        ('Any 1("with ""quotes""")', "ANY", 1, ('with "quotes"',)),
        ('"first 1 (x)"', "FIRST", 1, ("first 1 (x)",)),
    ],
)
def test_the_setting_is_read_as_the_server_reads_it(
    setting: str, method: str, number: int, names: tuple[str, ...]
) -> None:
    value = parse_standby_names(setting)
    assert (value.method, value.number, value.names) == (method, number, names)


@pytest.mark.parametrize("setting", ["", "one", "FIRST 1 (one, two)", 'any 1 ("waltally", loader)'])
def test_a_list_without_the_loader_is_no_judge(setting: str) -> None:
    assert judge_standby_names(setting, US, ()) is None


@pytest.mark.parametrize(
    ("setting", "standbys", "wanted"),
    [
        ("*", ("one",), 'FIRST 1 ("one")'),
        ("*", ("a's", "two"), 'FIRST 1 ("a\'\'s", "two")'),
        ("ANY 2 (*)", ("one", "two", "three"), 'ANY 2 ("one", "two", "three")'),
        ("FIRST 3 (*)", ("one",), 'FIRST 1 ("one")'),
        ("first 1 (one, *)", ("one", "two"), 'FIRST 1 ("one", "two")'),
        ('one, "WalTally Loader"', None, 'FIRST 1 ("one")'),
        ('"*"', (), ""),
        ('"waltally loader"', (), ""),
    ],
)
def test_the_remedy_keeps_the_real_standbys(
    setting: str, standbys: tuple[str, ...] | None, wanted: str
) -> None:
    found = judge_standby_names(setting, US, standbys)
    assert found is not None
    assert found.remedy.startswith(
        f"alter system set synchronous_standby_names = '{wanted}'; select pg_reload_conf();"
    )


def test_who_may_not_see_the_standbys_gets_sql_that_finds_them() -> None:
    found = judge_standby_names("ANY 2 (*)", US, None)
    assert found is not None
    assert "least(2, count(" in found.remedy
    assert r"\gexec \\ select pg_reload_conf();" in found.remedy
