"""Help is documentation: verbs, defaults, settings and examples; completion knows them all."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
from typing import cast

import applying.job
import archiving.job
import auditing.job
import pytest
import replaying.job
import seeding.job
import typer.main
from typer.core import TyperGroup, TyperOption
from typer.testing import CliRunner

from loader.cli import app
from testkit.commands import LOADER, ROOT

GROUP = cast(TyperGroup, typer.main.get_command(app))
VERBS = sorted(GROUP.commands)
JOBS = {"apply": applying.job, "archive": archiving.job, "audit": auditing.job} | {
    "replay": replaying.job,
    "seed": seeding.job,
}

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


@pytest.mark.parametrize("job", JOBS)
def test_a_spark_job_s_help_has_an_example_and_the_settings(job: str) -> None:
    done = CliRunner().invoke(JOBS[job].app, ["--help"], terminal_width=400)
    assert done.exit_code == 0, done.output
    assert f"spark-submit spark/{job}.py" in done.stdout
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


def test_completion_offers_verbs_and_options_and_connects_nowhere() -> None:
    assert sorted(complete("loader ")) == VERBS
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        source = f"host=127.0.0.1 port={port}"
        offered = complete("loader run --", PGPORT=port, LOADER_SOURCE_DSN=source)
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert {option.opts[0] for option in options("run")} <= set(offered)
