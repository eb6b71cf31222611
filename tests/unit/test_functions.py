"""The functions of the staging schema stand in layers, and docs/architecture.md draws them."""

from __future__ import annotations

import re
from pathlib import Path

from testkit.commands import ROOT

FUNCTIONS = ROOT / "loader/staging/functions"
PICTURE = (ROOT / "docs/architecture.md").read_text().partition("## The functions\n")[2]
LAYERS = re.findall(r"^(\w+) +\S.*$", PICTURE.split("```")[1], re.MULTILINE)
"""The folders, the highest first."""
FOLDERS = {path.stem: path.parent.name for path in FUNCTIONS.rglob("*.sql")}
_NAME = re.compile(r"'cdc\.\w+\([^)]*\)'::regprocedure")
_TEXT = re.compile(r"\$(\w+)\$.*?\$\1\$|'(?:[^']|'')*'", re.DOTALL)


def called(path: Path) -> set[str]:
    """Return the folders of what a function calls; what one of write writes is called later."""
    code = _NAME.sub("", re.sub("--.*", "", path.read_text()))
    code = _TEXT.sub("", code) if path.parent.name == "write" else code
    return {FOLDERS[name] for name in re.findall(r"\bcdc\.(\w+)\(", code) if name in FOLDERS}


def test_a_function_calls_its_own_folder_or_a_lower_one() -> None:
    assert sorted(LAYERS) == sorted(set(FOLDERS.values()))
    assert {
        f"{path.parent.name}/{path.stem} calls {folder}"
        for path in FUNCTIONS.rglob("*.sql")
        for folder in called(path)
        if LAYERS.index(folder) < LAYERS.index(path.parent.name)
    } == set()


def test_the_picture_says_who_calls_whom() -> None:
    for folder in LAYERS:
        calls = set().union(*(called(path) for path in (FUNCTIONS / folder).glob("*.sql")))
        drawn = [lower for lower in LAYERS if lower in calls - {folder}]
        assert re.search(rf"^{folder} .*{'▸ ' + ' '.join(drawn) if drawn else ''}$", PICTURE, re.M)


def test_one_folder_writes_sql() -> None:
    writers = {
        p.parent.name for p in FUNCTIONS.rglob("*.sql") if p.read_text().startswith("-- SQL")
    }
    assert writers == {"write"}
