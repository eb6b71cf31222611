"""The container files of ops/, parsed as far as their tests need it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

from testkit.commands import ROOT

KUBERNETES = ROOT / "ops" / "kubernetes"
COMPOSE = ROOT / "ops" / "compose" / "compose.yaml"
CONTAINERFILES = sorted((ROOT / "ops").rglob("*Containerfile"))


@dataclass(frozen=True)
class Instruction:
    """One instruction of a Containerfile."""

    stage: str
    """The stage's name, empty before the first one and in a stage without a name."""
    word: str
    arguments: str


def instructions(file: Path) -> list[Instruction]:
    """Return the instructions of a Containerfile, continued lines joined."""
    lines = [line for line in file.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found, stage = [], ""
    for line in filter(None, joined.splitlines()):
        word, _, arguments = line.partition(" ")
        if word == "FROM":
            stage = arguments.partition(" AS ")[2]
        found.append(Instruction(stage, word, arguments))
    return found


def copied(file: Path) -> Iterator[tuple[str, str]]:
    """Yield for each COPY the stage that it copies from, empty for the context, and each source."""
    for each in instructions(file):
        if each.word == "COPY":
            words = shlex.split(each.arguments)
            stage = ""
            if words[0].startswith("--from="):
                stage = words.pop(0).removeprefix("--from=")
            for source in words[:-1]:
                yield stage, source


def environment(file: Path, stage: str) -> dict[str, str]:
    """Return what ENV sets in a stage."""
    return dict(
        assignment.split("=", 1)
        for each in instructions(file)
        if each.word == "ENV" and each.stage == stage
        for assignment in shlex.split(each.arguments)
    )


def is_ignored(path: str, rules: list[str]) -> bool:
    """Say whether a .dockerignore keeps a path of the context out: the last rule that fits wins."""
    ignored = False
    for rule in rules:
        pattern = rule.removeprefix("!")
        if fnmatch(path, pattern) or path.startswith(f"{pattern}/"):
            ignored = not rule.startswith("!")
    return ignored


def objects() -> list[dict[str, Any]]:
    """Return every object of the Kubernetes manifests."""
    return [
        found
        for file in sorted(KUBERNETES.glob("*.yaml"))
        if file.name != "kustomization.yaml"
        for found in yaml.safe_load_all(file.read_text())
    ]


def pods() -> dict[str, dict[str, Any]]:
    """Return the pods' specifications, by the name of the object that makes them."""
    found = {}
    for each in objects():
        spec = each.get("spec", {})
        if each["kind"] == "CronJob":
            spec = spec["jobTemplate"]["spec"]
        if "template" in spec:
            found[each["metadata"]["name"]] = spec["template"]["spec"]
    return found


def services() -> dict[str, dict[str, Any]]:
    """Return the services of the compose file."""
    loaded: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE.read_text())["services"]
    return loaded
