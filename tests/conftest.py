"""What holds for every test: which ones run, and the fixtures of testkit/fixtures.py."""

from __future__ import annotations

import atexit
import os
import re
import shutil
from collections.abc import Iterator
from functools import cache
from typing import Any

import hypothesis
import pytest

from testkit import run_folder
from testkit.commands import ROOT, only_environment

pytest_plugins = ["testkit.fixtures"]

# No test measures time: a busy machine would fail it.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


def pytest_configure(config: pytest.Config) -> None:
    """Let everything that the run leaves be in one folder, which is removed at the end.

    The first that is registered here runs last, after other modules have removed their own.
    Nothing of the caller's own databases and Spark has a part in it.
    """
    run_folder.forget_settings()
    if not hasattr(config, "workerinput"):  # xdist's workers use the folder of the first process
        atexit.register(shutil.rmtree, run_folder.make(), ignore_errors=True)


def pytest_keyboard_interrupt() -> None:
    """End at once where workers run tests, as on SIGTERM: the guard of the run's folder ends them.

    xdist would wait for the test that each worker is in.
    """
    if _HAS_WORKERS:
        print("\nInterrupted: the tests and their servers are ended", flush=True)
        os._exit(130)


_HAS_WORKERS: list[str] = []


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadfile`, let the tests that need a session of Spark share one JVM."""
    _HAS_WORKERS.append("yes")
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class FewStarts(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = str(super()._split_scope(nodeid))
            return "Spark" if _needs_session(file) else file

    return FewStarts(config, log)


_OF_A_SESSION = re.compile(r"SparkSession|CHANGES_PER_TASK")
"""Jobs need a session of Spark where a test says that few rows are many."""


@cache
def _needs_session(file: str) -> bool:
    return _OF_A_SESSION.search((ROOT / file).read_text()) is not None


LONGEST = ("spark", "dbt", "queries", "trouble", "runbook", "operations", "partitions")
"""Folders whose files take longest: begun last, one of them would keep a single worker busy."""


def _begins_late(item: pytest.Item) -> int:
    file = item.nodeid.partition("::")[0]
    folder = "spark" if _needs_session(file) else file.split("/")[1]
    return LONGEST.index(folder) if folder in LONGEST else len(LONGEST)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest. Leave the slow out, unless every case is asked for."""
    items.sort(key=_begins_late)
    if "WALTALLY_ALL_CASES" in os.environ:
        return
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="slow: `make acceptance` runs it"))


@pytest.fixture(autouse=True)
def environment_as_it_was() -> Iterator[None]:
    """Put the environment back: a build in this process hands settings to dbt by it."""
    with only_environment(dict(os.environ)):
        yield
