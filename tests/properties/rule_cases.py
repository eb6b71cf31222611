"""The cases of the delta rules, which dbt's unit tests are: changes of a log and what they give."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jinja2
import yaml

from loader.capture import wal2json
from testkit.commands import ROOT, profiles, run_dbt
from testkit.facts import SLOT
from waltally import lsn
from waltally.database import Connection
from waltally.facts import Fact, parse
from waltally.tables import Table

PROJECT = ROOT / "dbt_project/integration_tests"

Raw = tuple[int, int, str | None, str]


@dataclass
class Case:
    """A unit test of the dbt package: its declaration, the changes of its log, what it expects."""

    name: str
    fact: Fact
    changes: list[Raw]
    expected: list[dict[str, Any]]

    @property
    def truncates(self) -> bool:
        return any('"T"' in text for *_, text in self.changes)


def declared(home: Path) -> dict[str, Fact]:
    """By model, what the cases declare, as dbt has parsed it."""
    project = home / "project"
    shutil.copytree(PROJECT, project, ignore=shutil.ignore_patterns("dbt_packages", "target"))
    # As `dbt deps` does for a local package.
    (project / "dbt_packages").mkdir()
    (project / "dbt_packages" / "waltally").symlink_to(ROOT)
    done = run_dbt(("parse", "--project-dir", str(project)), {**os.environ, **profiles(home)})
    assert done.returncode == 0, done.stdout + done.stderr
    nodes = json.loads((home / "target/manifest.json").read_text())["nodes"].values()
    found = {
        node["name"]: node["config"]["meta"]["waltally_rules"]
        for node in nodes
        if "waltally_rules" in node["config"].get("meta", {})
    }
    return {name: parse(name, Table("rules", name), each) for name, each in found.items()}


def cases(connection: Connection, facts: dict[str, Fact]) -> list[Case]:
    environment = jinja2.Environment(extensions=["jinja2.ext.do"], autoescape=False)
    environment.globals["tojson"] = json.dumps
    environment.globals["waltally"] = SimpleNamespace(get_slot_name=lambda: SLOT)
    files = sorted((PROJECT / "macros").glob("make_*.sql"))
    macros = environment.from_string("".join(file.read_text() for file in files))
    environment.globals |= {file.stem: getattr(macros.module, file.stem) for file in files}
    found = []
    for file in sorted((PROJECT / "models").rglob("*.yml")):
        for test in (yaml.safe_load(file.read_text()) or {}).get("unit_tests", ()):
            if test["model"] not in facts:
                continue
            (given_changes,) = (each["rows"] for each in test["given"])
            query = environment.from_string(
                given_changes.replace("{% raw %}", "").replace("{% endraw %}", "")
            ).render()
            rows = connection.ask(
                f"select commit_lsn::text, ordinal, action::text, payload from ({query}) as staged"
            )
            raw = [(lsn.parse(at), ordinal, action, text) for at, ordinal, action, text in rows]
            # How many rows belong to no group is nothing that Spark asks the log.
            expected = [row for row in test["expect"]["rows"] if not row.get("left_out")]
            found.append(Case(test["name"], facts[test["model"]], raw, expected))
    return found


def letter(text: str) -> str | None:
    return wal2json.action(text.encode()).decode() or None


def says(expected: dict[str, Any], actual: dict[str, Any]) -> bool:
    if expected.get("rejected_reason") != actual["rejected_reason"]:
        return False
    if expected.get("is_ignored", False) != actual.get("is_ignored", False):
        return False
    compared = expected.keys() & actual.keys() - {"is_ignored"}
    return all(is_same(expected[key], actual[key]) for key in compared)


def is_same(expected: Any, actual: Any) -> bool:
    if expected is None or actual is None:
        return expected is actual
    if isinstance(expected, bool):
        return bool(str(expected).lower() == actual)
    if isinstance(expected, int | float):
        return Decimal(str(expected)) == Decimal(actual)
    return str(expected) == str(actual)


def must_match(name: str, expected: list[dict[str, Any]], actual: list[dict[str, Any]]) -> None:
    left = list(actual)
    for row in expected:
        for _ in range(row.get("change_count", 1)):
            match = next((each for each in left if says(row, each)), None)
            assert match is not None, f"{name}: {row} is not in {left}"
            left.remove(match)
    assert not left, name
