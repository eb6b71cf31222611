"""The container files of ops/ copy only what there is and run only commands that there are.

`make lint-containers` has hadolint and Kubernetes' own schemas. No engine runs here:
docs/containers.md says what was tried otherwise, and what was not.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.commands import ROOT
from tests.operations.test_service_files import must_parse

CONTAINERFILE = ROOT / "ops" / "Containerfile"
IGNORED = (ROOT / "ops" / "Containerfile.dockerignore").read_text().splitlines()
RULES = [line for line in IGNORED if line and not line.startswith("#")]


def objects() -> list[dict[str, Any]]:
    """Return every object of the Kubernetes manifests."""
    return [
        found
        for file in sorted((ROOT / "ops" / "kubernetes").glob("*.yaml"))
        if file.name != "kustomization.yaml"
        for found in yaml.safe_load_all(file.read_text())
    ]


def services() -> dict[str, dict[str, Any]]:
    """Return the services of the compose file."""
    compose = yaml.safe_load((ROOT / "ops" / "compose" / "compose.yaml").read_text())
    loaded: dict[str, dict[str, Any]] = compose["services"]
    return loaded


def commands() -> Iterator[list[str]]:
    """Yield the command of each pod and service, and what the image runs without one."""
    for each in objects():
        spec = each.get("spec", {})
        if each["kind"] == "CronJob":
            spec = spec["jobTemplate"]["spec"]
        if "template" in spec:
            yield spec["template"]["spec"]["containers"][0]["command"]
    yield from (each["command"] for each in services().values() if "command" in each)
    yield from map(yaml.safe_load, re.findall(r"^CMD (.*)$", CONTAINERFILE.read_text(), re.M))


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_each_command_is_one_that_there_is(words: list[str]) -> None:
    must_parse(words)


def copied(file: Path) -> set[str]:
    """Return what a Containerfile copies from the folder in which it is built."""
    text = re.sub(r"\\\n\s*", "", file.read_text())
    found = [shlex.split(words)[:-1] for words in re.findall(r"^COPY (?!--from=)(.*)$", text, re.M)]
    return {source for sources in found for source in sources}


def is_sent(path: str) -> bool:
    """Say whether a path is sent to the build: of the rules that fit, the last one decides."""
    fitting = [
        rule
        for rule in RULES
        if fnmatch(path, rule.removeprefix("!")) or path.startswith(f"{rule.removeprefix('!')}/")
    ]
    return not fitting or fitting[-1].startswith("!")


def test_what_is_copied_is_there_and_a_profile_with_its_passwords_is_not_sent() -> None:
    for file in (ROOT / "ops").rglob("*Containerfile"):
        assert all((ROOT / source).exists() for source in copied(file)), file
    assert copied(CONTAINERFILE)
    assert [source for source in copied(CONTAINERFILE) if not is_sent(source)] == []
    for path in ("profiles.yml", ".venv", ".git", "target", "loader/__pycache__"):
        assert not is_sent(path), path
