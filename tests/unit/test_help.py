"""Help is documentation: verbs, defaults, settings and examples; completion knows them all."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest
import typer.main
from typer.core import TyperGroup, TyperOption
from typer.testing import CliRunner

from loader.cli import app
from tests.support import LOADER, ROOT

GROUP = cast(TyperGroup, typer.main.get_command(app))
VERBS = sorted(GROUP.commands)
JOBS = sorted(path.name for path in (ROOT / "spark").glob("*.py"))

OPENINGS = {
    "Check",
    "Compare",
    "Copy",
    "Count",
    "Drop",
    "Follow",
    "Print",
    "Rebuild",
    "Show",
    "Wait",
    "Write",
}
"""What a command's help may begin with; a new verb belongs here."""


def help_of(*arguments: str) -> str:
    done = CliRunner().invoke(app, [*arguments, "--help"], terminal_width=400)
    assert done.exit_code == 0, done.output
    return done.output


def options(verb: str) -> list[TyperOption]:
    found = [each for each in GROUP.commands[verb].params if isinstance(each, TyperOption)]
    return [each for each in found if each.name != "help"]


def examples(verb: str) -> list[list[str]]:
    text = GROUP.commands[verb].help or ""
    return [shlex.split(line) for line in re.findall(r"^ *Example: (.+)$", text, re.MULTILINE)]


def test_the_loader_s_help_names_every_verb_with_what_it_does() -> None:
    said = help_of()
    for verb in VERBS:
        (line,) = [line for line in said.splitlines() if line.strip(" │").startswith(f"{verb} ")]
        assert (GROUP.commands[verb].help or "").split(",")[0].split(".")[0] in line


@pytest.mark.parametrize("verb", VERBS)
def test_help_opens_with_a_verb(verb: str) -> None:
    text = GROUP.commands[verb].help
    assert text
    assert text.split()[0] in OPENINGS


@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_each_option_with_its_setting_and_default(verb: str) -> None:
    lines = help_of(verb).splitlines()
    for option in options(verb):
        (line,) = [line for line in lines if re.search(rf"^[│ ]*{option.opts[0]}(?![\w-])", line)]
        assert option.envvar is None or f"env var: {option.envvar}" in line
        if option.default and not option.is_flag:
            assert f"default: {option.default}" in line


@pytest.mark.parametrize("verb", VERBS)
def test_examples_parse(verb: str) -> None:
    found = examples(verb)
    assert found
    for program, name, *arguments in found:
        assert (program, name) == ("loader", verb)
        with GROUP.commands[verb].make_context(verb, arguments):
            pass


def test_an_example_that_does_not_parse_would_be_seen() -> None:
    with pytest.raises(Exception, match="No such option"):
        GROUP.commands["run"].make_context("run", ["--no"])


@pytest.mark.parametrize("job", JOBS)
def test_a_spark_job_s_help_has_an_example_and_the_settings(job: str) -> None:
    done = subprocess.run(
        [sys.executable, f"spark/{job}", "--help"],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "400", "NO_COLOR": "1", "TERM": "dumb"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert f"spark-submit spark/{job}" in done.stdout
    reference = (ROOT / "docs" / "reference.md").read_text()
    for name in re.findall(r"env var: (\w+)", done.stdout):
        assert f"`{name}`" in reference


def complete(words: str, **environment: str) -> list[str]:
    """Return what bash is offered for the last word."""
    done = subprocess.run(
        [str(LOADER)],
        env={
            **os.environ,
            "_LOADER_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
            **environment,
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.split()


def test_completion_offers_the_verbs() -> None:
    assert sorted(complete("loader ")) == VERBS
    assert complete("loader set") == ["setup"]


def test_completion_offers_options_and_connects_nowhere() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        offered = complete(
            "loader run --",
            PGHOST="127.0.0.1",
            PGPORT=port,
            LOADER_SOURCE_DSN=f"host=127.0.0.1 port={port}",
        )
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert {option.opts[0] for option in options("run")} <= set(offered)


def test_completion_can_be_installed_and_then_works(tmp_path: Path) -> None:
    home = {**os.environ, "HOME": str(tmp_path), "PATH": f"{LOADER.parent}:{os.environ['PATH']}"}
    ask = "COMP_WORDS=(loader tear); COMP_CWORD=1; _loader_completion loader; echo ${COMPREPLY[@]}"
    done = subprocess.run(
        # The shell asks who its parent is, so it must not be replaced by the program.
        ["bash", "-c", f"loader --install-completion >/dev/null; . ~/.bashrc; {ask}"],
        env=home,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["teardown"], done.stderr
    shown = subprocess.run(
        ["bash", "-c", "loader --show-completion; true"], env=home, capture_output=True, text=True
    )
    assert "_LOADER_COMPLETE=complete_bash" in shown.stdout
