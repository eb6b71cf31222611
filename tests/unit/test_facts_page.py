"""docs/facts.md is whole: every argument and key that a declaration takes is on it."""

from __future__ import annotations

import re

import pytest

from demo import example as examples
from testkit.commands import ROOT

MACROS = ROOT / "dbt_project" / "macros"
PAGE = (ROOT / "docs" / "facts.md").read_text()


@pytest.mark.parametrize(
    "path", ["facts/fact.sql", "rows/current_rows.sql", "roll_ups/roll_up.sql"]
)
def test_every_argument_is_on_the_page(path: str) -> None:
    found = re.search(r"macro \w+\((.*)\) %}", (MACROS / path).read_text())
    assert found
    for argument in found[1].split(", "):
        name = argument.partition("=")[0]
        assert f"`{name}`" in PAGE or f"{name}=" in PAGE, name


def test_every_key_is_on_the_page() -> None:
    lists = [
        keys
        for path in (MACROS / "declaration").glob("declare_*.sql")
        for keys in re.findall(r"check_keys\((.*?)\]\s*\)", path.read_text(), re.DOTALL)
    ]
    assert len(lists) == 5
    keys = {key for each in lists for key in re.findall(r"'(\w+)'", each.partition("[")[2])}
    assert {"deletes", "date_of", "sum", "not_in"} <= keys
    assert not {key for key in keys if f"'{key}'" not in PAGE and f"`{key}`" not in PAGE}


@pytest.mark.parametrize("name", examples.names())
def test_an_example_has_a_page_that_says_how_to_run_it(name: str) -> None:
    command = "make demo" if name == "notify" else f"make demo EXAMPLE={name}"
    page = (examples.FOLDER / name / "README.md").read_text()
    assert f"```sh\n{command}\n```" in page
    for link in re.findall(r"\]\(([^)#]+)", page):
        assert (examples.FOLDER / name / link).exists(), link
    assert f"examples/{name}" in PAGE
