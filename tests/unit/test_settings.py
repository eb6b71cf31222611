"""Settings, positions and ages are read, or refused with a sentence."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict
from typer.testing import CliRunner
from waltally_jobs.seeding import job as seeding

from loader.cli import app
from testkit.commands import ROOT
from waltally import lsn, session_settings
from waltally.errors import SettingError
from waltally.settings import Settings
from waltally.tables import Table, parse_table
from waltally.units import parse_age


def settings(**changed: str) -> Settings:
    given = {"source": "", "target": "", "slot": "s", "schema": "cdc"}
    return Settings.of(**{**given, **changed})


def test_the_target_defaults_to_the_source_and_what_the_user_says_of_a_connection_wins() -> None:
    made = settings(source="host=a dbname=b keepalives_idle=5")
    assert "keepalives_idle=5" in made.source
    assert conninfo_to_dict(made.target).items() <= conninfo_to_dict(made.source).items()


def test_what_cannot_be_read_is_refused() -> None:
    readers: tuple[tuple[Callable[[str], object], str, list[str]], ...] = (
        (parse_table, "is no table", ["", ",", "a", "a.", ".a", "a.b.c", "a.b,", "a.b;c.d"]),
        (parse_age, "--keep", ["", "7", "d", "-1d", "7 d", "1.5d", "7y"]),
        (lsn.parse, "a WAL position", ["", "0", "0/", "/0", "0/G", "123456789/0", "0/0/0"]),
        (lambda slot: settings(slot=slot), "LOADER_SLOT", ["", "Upper", "with-dash", "a" * 64]),
        # A schema of the server's own, and those that could not be written.
        (lambda name: settings(schema=name), "LOADER_SCHEMA is", ["pg_a", "100%", "a\x1b"]),
    )
    for read, said, texts in readers:
        for text in texts:
            with pytest.raises((SettingError, ValueError), match=said):
                read(text)


def test_no_password_shows_in_the_settings_or_in_a_refusal() -> None:
    with pytest.raises(SettingError, match="LOADER_TARGET_DSN") as caught:
        settings(target="host=h password='se cret")
    assert "cret" not in caught.value.sentence
    assert "hunter2" not in repr(settings(source="password=hunter2"))


def test_a_password_in_a_flag_is_refused_and_not_repeated() -> None:
    for words in ["--source", "sslpassword=hunter2"], ["--target=password=hunter2"]:
        for verb in (["setup"], ["run", "--once"]):
            done = CliRunner().invoke(app, [*verb, *words])
            assert done.exit_code == SettingError.exit_code
            said = "has a password, which every user of this machine could read\nTry: "
            assert said in done.stderr and "hunter2" not in done.output
        done = CliRunner().invoke(seeding.app, words)
        assert isinstance(done.exception, SettingError)
        assert "hunter2" not in f"{done.output}{done.exception}{done.exception.remedy}"


def test_an_option_is_not_given_twice_where_one_of_its_values_would_not_count() -> None:
    for words in (
        ["wait", "--timeout", "1s", "--timeout=2s"],
        ["init", "folder", "--query", "a", "--timezone", "UTC", "--timezone", "Asia/Tokyo"],
        ["stats", "ft_orders", "--by", "a", "--by", "b"],
    ):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == SettingError.exit_code, words
        option = next(word for word in words if words.count(word) > 1 or word == "--timeout")
        assert f"Error: Option '{option}' is given twice, and takes one value\nTry: " in done.stderr
    done = CliRunner().invoke(seeding.app, ["--timeout", "1", "--timeout", "2"])
    assert done.exit_code == SettingError.exit_code
    assert "given twice" in done.output


def test_tables_and_ages_are_read() -> None:
    assert parse_table(" public.a ") == Table("public", "a")
    assert parse_table('"My, ""S""".b') == Table('My, "S"', "b")
    day = 86_400
    ages = {"0s": 0, "45s": 45, "2m": 120, "3h": day / 8, "6d": 6 * day, "8w": 56 * day}
    assert {text: parse_age(text) for text in ages} == ages


@given(st.integers(min_value=0, max_value=2**64 - 1))
def test_a_position_survives_printing(position: int) -> None:
    assert lsn.parse(lsn.show(position)) == position


def test_dbt_pins_what_every_session_pins() -> None:
    text = (ROOT / "dbt_project/macros/postgres/pins.sql").read_text()
    pins = re.findall(r"set_config\('(\w+)', '([^']*)', true\)", text)
    # The first is set where rows are written, the other is known to newer servers alone.
    own = ("synchronous_commit", "transaction_timeout")
    sent = [f"-c {name}={value.replace(', ', ',')} " for name, value in pins if name not in own]
    assert len(sent) == 16
    assert not [pin for pin in sent if pin not in session_settings.PINS + " "]
