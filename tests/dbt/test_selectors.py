"""What dbt builds and tests where it is told by the options that the service files use."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from testkit.commands import ROOT
from tests.dbt.project import Project, messages

SCHEDULED = ("--exclude-resource-type", "unit_test")


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = Project(tmp_path_factory.mktemp("shipped"))
    (made.home / "selectors.yml").symlink_to(ROOT / "selectors.yml")
    return made


def listed(project: Project, *words: str) -> set[tuple[str, str]]:
    """Return kind and name of what dbt would build."""
    output = ("--output", "json", "--output-keys", "resource_type", "name")
    done = project.invoke("ls", *output, *words)
    assert done.success, messages(done)
    found = [yaml.safe_load(line) for line in done.result]  # type: ignore[union-attr]
    return {(each["resource_type"], each["name"]) for each in found}


def test_a_scheduled_build_is_all_but_the_unit_tests(shipped: Project) -> None:
    everything = listed(shipped)
    scheduled = listed(shipped, *SCHEDULED)
    left_out = everything - scheduled
    assert {kind for kind, _ in left_out} == {"unit_test"}
    assert {"model", "test"} <= {kind for kind, _ in scheduled}
    assert ("test", "no_rejected_changes") in scheduled


def test_facts_are_the_models_of_the_package_alone(shipped: Project) -> None:
    found = listed(shipped, "--selector", "facts")
    assert {("model", "ft_service_stats"), ("model", "rejected_changes")} <= found
    assert ("model", "service_totals") not in found
    assert {kind for kind, _ in found} == {"model"}


def test_checks_are_the_tests_of_the_data_alone(shipped: Project) -> None:
    found = listed(shipped, "--selector", "checks")
    assert found == {each for each in listed(shipped) if each[0] == "test"} != set()


def test_every_schedule_leaves_unit_tests_out() -> None:
    files = ["crontab.example", "systemd/waltally-dbt.service", "kubernetes/jobs.yaml"]
    for file in files:
        text = Path(ROOT / "ops" / file).read_text()
        (line,) = re.findall(r"^.*dbt(?: --quiet)?,? build.*$", text, re.MULTILINE)
        assert all(word in line for word in SCHEDULED), line
