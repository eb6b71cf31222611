"""The container files of ops/ name only what there is, and agree with the service files.

`make lint-containers` has hadolint and Kubernetes' own schemas. No engine runs here:
docs/containers.md says what was tried otherwise, and what was not.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import archiving.cli
import auditing.cli
import pytest
import replaying.cli
import seeding.cli
import typer.main
import yaml

from loader.cli import app
from tests.operations.test_service_files import command, values
from tests.support import ROOT
from tests.support.containers import (
    COMPOSE,
    CONTAINERFILES,
    KUBERNETES,
    copied,
    environment,
    instructions,
    is_ignored,
    objects,
    pods,
    services,
)
from tests.unit.test_reference import REFERENCE

CONTAINERFILE = ROOT / "ops" / "Containerfile"
IGNORED = (ROOT / "ops" / "Containerfile.dockerignore").read_text().splitlines()
RULES = [line for line in IGNORED if line and not line.startswith("#")]
SYSTEMD = ROOT / "ops" / "systemd"
APPS = {"seed": seeding, "audit": auditing, "archive": archiving, "replay": replaying}
DBT_ITSELF = {"DBT_PROFILES_DIR", "DBT_PROJECT_DIR", "DBT_TARGET_PATH", "DBT_LOG_PATH"}
"""Settings of dbt that the reference need not explain."""

COMMANDS = [
    *(pod["containers"][0]["command"] for pod in pods().values()),
    *(each["command"] for each in services().values() if "command" in each),
    *(yaml.safe_load(each.arguments) for each in instructions(CONTAINERFILE) if each.word == "CMD"),
]


def is_setting(name: str) -> bool:
    return name.startswith("PG") or name in DBT_ITSELF or f"| `{name}` |" in REFERENCE


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
    program, verb, *options = words
    if program == "loader":
        group: Any = typer.main.get_command(app)
        group.commands[verb].make_context(verb, options)
    elif program == "spark-submit":
        assert (ROOT / verb).is_file()
        job = typer.main.get_command(APPS[Path(verb).stem].cli.app)
        job.make_context(verb, options)
    else:
        assert words in (["dbt", "run"], ["dbt", "build", "--exclude-resource-type", "unit_test"])


def test_each_setting_is_one_that_there_is() -> None:
    names = {
        *(n for e in objects() if e["kind"] == "Secret" for n in e["stringData"]),
        *(n for name in ("loader", "setup", "seed") for n in services()[name]["environment"]),
        *(n for stage in ("python", "loader", "dbt") for n in environment(CONTAINERFILE, stage)),
    }
    of_others = {"PATH", "HOME", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}
    assert {name for name in names - of_others if not is_setting(name)} == set()


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


def test_one_loader_is_probed_where_it_serves() -> None:
    (deployment,) = [each for each in objects() if each["kind"] == "Deployment"]
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    port = environment(CONTAINERFILE, "loader")["LOADER_METRICS_PORT"]
    assert [str(each["containerPort"]) for each in container["ports"]] == [port]
    served = (ROOT / "loader" / "monitoring" / "metrics.py").read_text()
    for probe, path in (("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"] == {"path": path, "port": "metrics"}
        assert f'"{path}": health.' in served
    (service,) = [each for each in objects() if each["kind"] == "Service"]
    assert service["spec"]["publishNotReadyAddresses"], "or a loader in trouble has no metrics"
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]
    scraped = yaml.safe_load((COMPOSE.parent / "prometheus.yml").read_text())["scrape_configs"]
    assert [(each["job_name"], each["static_configs"]) for each in scraped] == [
        ("waltally", [{"targets": [f"loader:{port}"]}])
    ]


def test_the_loader_has_as_long_to_stop_as_its_service_has() -> None:
    (stop,) = values((SYSTEMD / "waltally-loader.service").read_text(), "TimeoutStopSec")
    assert pods()["waltally-loader"]["terminationGracePeriodSeconds"] == int(stop)
    assert services()["loader"]["stop_grace_period"] == f"{int(stop) // 60}m"


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


def test_setup_and_seed_run_only_by_hand() -> None:
    suspended = {
        each["metadata"]["name"] for each in objects() if each.get("spec", {}).get("suspend")
    }
    assert suspended == {"waltally-setup", "waltally-seed"}


def test_the_compose_file_names_what_is_there() -> None:
    found = services()
    assert {"postgres", "loader", "prometheus", "grafana"} <= set(found)
    volumes = yaml.safe_load(COMPOSE.read_text())["volumes"]
    for name, service in found.items():
        if build := service.get("build"):
            assert (COMPOSE.parent / build["context"]).resolve() == ROOT
            stages = {each.stage for each in instructions(ROOT / build["dockerfile"])}
            assert build.get("target", "") in stages
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            known = source in volumes or (COMPOSE.parent / source).is_file()
            assert known, f"{name}: {source}"
        assert set(service.get("depends_on", [])) <= set(found)
