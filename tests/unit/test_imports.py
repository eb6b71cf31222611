"""The loader starts fast: a verb imports only what it needs. Counted in modules, not in seconds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testkit.commands import ROOT

HEAVY = ("dbt", "prometheus_client", "psycopg2", "pyspark", "rich", "yaml")
"""What takes a tenth of a second or more to import, or is needed by few verbs."""

MAIN = "import sys; from loader.cli import main; sys.argv[0] = 'loader'; main()"


def imported(*arguments: str) -> set[str]:
    """Return which of the heavy packages a loader has imported when it ends; it finds no server."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", MAIN, *arguments],
        cwd=ROOT,
        env={**os.environ, "PGHOST": "/nonexistent", "PGPORT": "1"},
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in done.stderr
    names = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    return names & set(HEAVY)


@pytest.mark.parametrize("verb", ["", "setup", "run"])
def test_help_imports_nothing_heavy(verb: str) -> None:
    assert imported(*verb.split(), "--help") == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ("status", "--json"),
        ("run", "--once"),
    ],
)
def test_a_verb_imports_the_driver_and_no_more(arguments: tuple[str, ...]) -> None:
    assert imported(*arguments) == {"psycopg2"}


def test_setup_imports_dbt_only_to_parse_a_project(tmp_path: Path) -> None:
    manifest = tmp_path / "manifest.json"
    manifest.write_text('{"metadata": {"project_name": "p"}, "nodes": {}}')
    said = ("setup", "--check")
    assert imported(*said, "--manifest", str(manifest)) == {"psycopg2", "yaml"}
    assert "dbt" in imported(*said)
