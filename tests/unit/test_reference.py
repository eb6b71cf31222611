"""The page of commands, settings and exit codes is true: its tables are the code's own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

import common.errors  # noqa: F401  # the seed's codes stand in the same table
import typer.main
from typer.core import TyperGroup, TyperOption

from loader.cli import app
from testkit.commands import ROOT
from waltally.errors import LoaderError

REFERENCE = (ROOT / "docs" / "reference.md").read_text()
GROUP = cast(TyperGroup, typer.main.get_command(app))


def errors(kind: type[LoaderError] = LoaderError) -> Iterator[type[LoaderError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from errors(below)


def options() -> Iterator[tuple[str, TyperOption]]:
    for name, command in GROUP.commands.items():
        for parameter in command.params:
            if isinstance(parameter, TyperOption) and parameter.name != "help":
                yield name, parameter


def test_every_exit_code_is_on_the_page_with_its_meaning() -> None:
    for kind in errors():
        assert kind.__doc__ is not None
        assert f"| {kind.exit_code} | {kind.__doc__.splitlines()[0]} |" in REFERENCE


def test_the_page_names_no_exit_code_that_is_not_there() -> None:
    listed = re.search(r"\| code \| meaning \|\n\|---\|---\|\n((?:\|.*\|\n)+)", REFERENCE)
    assert listed
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", listed[1], re.MULTILINE)}
    assert codes == {0, *(kind.exit_code for kind in errors())}


def test_every_command_and_option_is_on_the_page() -> None:
    for name in GROUP.commands:
        assert f"`loader {name}`" in REFERENCE
    for name, option in options():
        assert f"`{option.opts[0]}" in REFERENCE, f"{option.opts[0]} of {name}"


def test_every_setting_is_on_the_page_with_its_default() -> None:
    for _, option in options():
        if option.envvar is None:
            continue
        (row,) = [
            line for line in REFERENCE.splitlines() if line.startswith(f"| `{option.envvar}` |")
        ]
        assert f"`{option.opts[0]}`" in row
        if option.default:
            default = option.default
            shown = f"{default:g}" if isinstance(default, float) else str(default)
            assert f"`{shown}`" in row
