"""What comes from data or names stays in its line, and moves nothing on a terminal."""

from __future__ import annotations

import ast
import io
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from loader.monitoring.text_lines import LogFormatter, aligned, echo, write
from testkit.commands import ROOT
from waltally.errors import SettingError, combine
from waltally.escapes import escaped

HARMFUL = [
    *map(chr, (*range(0x20), *range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A))),
    "\ud800",
    "\udfff",
]
NAME = "a\n2026-01-01 INFO forged\r\x1b]0;title\x07\x9b31m\u202egpj\u2028"


@pytest.mark.parametrize("each", HARMFUL, ids=ascii)
def test_a_character_that_does_more_than_stand_there_is_shown_as_python_writes_it(
    each: str,
) -> None:
    shown = escaped(f"a{each}b")
    assert shown.isprintable() and shown.encode()
    assert shown[0] == "a" and shown[-1] == "b"
    assert ast.literal_eval(f"'{shown}'") == f"a{each}b"
    assert escaped(shown) == shown


@pytest.mark.parametrize("text", ["", "plain", "Größe 数量 🙂", "a\\nb", "e\u0301", "نص", "\u00a0"])
def test_any_other_text_stays_as_it_is(text: str) -> None:
    assert escaped(text) == text


def test_lines_stay_lines(capsys: pytest.CaptureFixture[str]) -> None:
    for printed in (echo, write):
        printed([NAME, "next"])
        assert capsys.readouterr().out == f"{escaped(NAME)}\nnext\n"
    first, second = aligned([(NAME, "7"), ("b", "10")], right=[1])
    assert first == f"{escaped(NAME)}   7"
    assert len(first) == len(second)


def test_an_error_has_the_lines_that_it_should_have() -> None:
    error = combine([SettingError(NAME, f"drop {NAME}"), SettingError("other")])
    assert error.sentence.split("\n") == [
        escaped(NAME),
        f"Try: drop {escaped(NAME)}",
        "Error: other",
    ]
    assert str(error) == NAME, "a program gets it as it is"


def test_a_record_of_the_log_has_the_lines_that_its_message_has() -> None:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(LogFormatter("%(levelname)s %(message)s"))
    logger = logging.Logger("test")
    logger.addHandler(handler)
    logger.error("%s of %d; %.1f\nTry: %s", SettingError(NAME), 7, 0.5, NAME)
    logger.warning(NAME.replace("\n", " "))
    try:
        raise ValueError(NAME)
    except ValueError as error:
        logger.info("it broke", exc_info=error)
    first, remedy, second, broke, *trace = out.getvalue().splitlines()
    assert first == f"ERROR {escaped(NAME)} of 7; 0.5"
    assert remedy == f"Try: {escaped(NAME)}"
    assert second == f"WARNING {escaped(NAME.replace(chr(10), ' '))}"
    assert broke == "INFO it broke"
    assert trace and all(line.startswith("  ") and escaped(line) == line for line in trace)


def printing(file: Path) -> Iterator[str]:
    """What the file prints by itself, but JSON and texts that it has written down."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            said = ast.unparse(node.args[0]) if node.args else ""
            if called in ("print", "typer.echo", "typer.secho", "sys.stdout.write") and not (
                isinstance(node.args[0], ast.Constant)
                or said.isupper()
                or said.startswith(("json.dumps(", "f'{escaped("))
            ):
                yield ast.unparse(node)


@pytest.mark.parametrize(
    ("folder", "place"),
    [("loader", "loader/monitoring/text_lines.py"), ("spark", "spark/common/progress.py")],
)
def test_one_module_prints(folder: str, place: str) -> None:
    files = [file for file in (ROOT / folder).rglob("*.py") if file != ROOT / place]
    assert (ROOT / place).is_file() and len(files) > 20
    assert {str(file): said for file in files if (said := [*printing(file)])} == {}
