"""The container files of ops/ name only what there is, and agree with the service files.

`make lint-containers` has hadolint and Kubernetes' own schemas. No engine runs here:
docs/containers.md says what was tried otherwise, and what was not.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from testkit.commands import ROOT
from testkit.containers import (
    CONTAINERFILES,
    KUBERNETES,
    copied,
    instructions,
    is_ignored,
    objects,
    pods,
    services,
)
from tests.operations.test_service_files import command, must_parse, values

CONTAINERFILE = ROOT / "ops" / "Containerfile"
IGNORED = (ROOT / "ops" / "Containerfile.dockerignore").read_text().splitlines()
RULES = [line for line in IGNORED if line and not line.startswith("#")]
SYSTEMD = ROOT / "ops" / "systemd"
COMMANDS = [
    *(pod["containers"][0]["command"] for pod in pods().values()),
    *(each["command"] for each in services().values() if "command" in each),
    *(yaml.safe_load(each.arguments) for each in instructions(CONTAINERFILE) if each.word == "CMD"),
]


@pytest.mark.parametrize("file", CONTAINERFILES, ids=lambda file: file.name)
def test_what_is_copied_is_there(file: Path) -> None:
    stages = {each.stage for each in instructions(file)}
    found = list(copied(file))
    assert found
    for stage, source in found:
        if stage:
            assert stage in stages
        else:
            assert (ROOT / source).exists(), source
            assert file != CONTAINERFILE or not is_ignored(source, RULES), source


def test_nothing_else_is_sent_to_the_build() -> None:
    """A profile holds passwords."""
    for path in ("profiles.yml", ".venv", ".git", "target", "ops/compose", "loader/__pycache__"):
        assert is_ignored(path, RULES), path
    sent = {source for stage, source in copied(CONTAINERFILE) if not stage}
    assert sent == {rule.removeprefix("!") for rule in RULES if rule.startswith("!")}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_each_command_is_one_that_there_is(words: list[str]) -> None:
    must_parse(words)


def test_what_manifests_refer_to_is_there() -> None:
    names = {(each["kind"], each["metadata"]["name"]) for each in objects()}
    for name, pod in pods().items():
        (container,) = pod["containers"]
        for source in container["envFrom"]:
            assert ("Secret", source["secretRef"]["name"]) in names, name
        volumes = {each["name"] for each in pod["volumes"]}
        assert {each["name"] for each in container["volumeMounts"]} == volumes
        for volume in pod["volumes"]:
            if claim := volume.get("persistentVolumeClaim"):
                assert ("PersistentVolumeClaim", claim["claimName"]) in names
    kustomization = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    assert {*kustomization["resources"], "kustomization.yaml"} == {
        path.name for path in KUBERNETES.iterdir()
    }
    images = {pod["containers"][0]["image"] for pod in pods().values()}
    assert images == {each["name"] for each in kustomization["images"]}


@pytest.mark.parametrize("name", ["archive", "audit", "dbt", "prune"])
def test_a_cron_job_is_what_its_service_is(name: str) -> None:
    (job,) = [each for each in objects() if each["metadata"]["name"] == f"waltally-{name}"][:1]
    program, *rest = command(f"waltally-{name}.service")
    (container,) = pods()[f"waltally-{name}"]["containers"]
    expected = [word.replace("/var/lib/waltally/archive", "/archive") for word in rest]
    assert container["command"] == [Path(program).name, *expected]
    (when,) = values((SYSTEMD / f"waltally-{name}.timer").read_text(), "OnCalendar")
    assert job["spec"]["schedule"] == cron(when)
    (limit,) = values((SYSTEMD / f"waltally-{name}.service").read_text(), "TimeoutStartSec")
    seconds = job["spec"]["jobTemplate"]["spec"]["activeDeadlineSeconds"]
    assert f"{seconds // 3600}h" == limit


def cron(calendar: str) -> str:
    """Return a time of systemd's as cron writes it."""
    if every := re.fullmatch(r"\*:0/(\d+)", calendar):
        return f"*/{every[1]} * * * *"
    at = re.fullmatch(r"(Sun )?\*-\*-\* (\d\d):(\d\d)", calendar)
    assert at, calendar
    return f"{int(at[3])} {int(at[2])} * * {'0' if at[1] else '*'}"
