from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict
from typer.testing import CliRunner

from loader.cli import app
from waltally.errors import SettingError
from waltally.settings import Settings
from waltally.tables import Table, parse_table


def settings(**changed: str) -> Settings:
    given = {"source": "", "target": "", "slot": "s", "schema": "cdc"}
    return Settings.of(**{**given, **changed})


def test_the_target_defaults_to_the_source() -> None:
    made = settings(source="host=a dbname=b")
    assert conninfo_to_dict(made.target).items() <= conninfo_to_dict(made.source).items()


def test_a_url_and_a_string_name_the_same_database() -> None:
    assert "host=h" in settings(source="postgresql://u@h/d").source
    assert "host=h" in settings(source="host=h user=u dbname=d").source


def test_what_the_user_says_of_the_connection_wins() -> None:
    assert "keepalives_idle=5" in settings(source="keepalives_idle=5").source


@pytest.mark.parametrize(
    ("text", "table"),
    [
        (" public.a ", Table("public", "a")),
        ('"My, ""S""".b', Table('My, "S"', "b")),
    ],
)
def test_a_table_is_read_with_quotes(text: str, table: Table) -> None:
    assert parse_table(text) == table


@pytest.mark.parametrize("text", ["", ",", "a", "a.", ".a", "a.b.c", "a.b,", "a.b;c.d"])
def test_a_table_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="is no table"):
        parse_table(text)


@pytest.mark.parametrize("slot", ["", "Upper", "with-dash", "a" * 64])
def test_a_slot_that_the_server_would_refuse_is_refused(slot: str) -> None:
    with pytest.raises(SettingError, match="LOADER_SLOT"):
        settings(slot=slot)


def test_a_broken_connection_string_is_refused_without_repeating_it() -> None:
    with pytest.raises(SettingError, match="LOADER_TARGET_DSN") as caught:
        settings(target="host=h password='se cret")
    assert "cret" not in caught.value.sentence


def test_no_password_shows_in_the_settings() -> None:
    assert "hunter2" not in repr(settings(source="password=hunter2"))


@pytest.mark.parametrize(
    "words", [["--source", "sslpassword=hunter2"], ["--target=password=hunter2"]]
)
def test_a_password_in_a_flag_is_refused_and_not_repeated(words: list[str]) -> None:
    done = CliRunner().invoke(app, ["run", "--once", *words])
    assert done.exit_code == SettingError.exit_code
    assert "has a password, which every user of this machine could read\nTry: " in done.stderr
    assert "hunter2" not in done.output
