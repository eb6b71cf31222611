"""The bundle is all that a cluster needs of the project: Python and Spark are there already."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pyspark
import pytest

from testkit.commands import ROOT
from testkit.spark_cluster import SparkCluster
from tests.spark.archives import Log, archived
from tests.spark.support import Source

SPARK_HOME = Path(pyspark.__file__).parent
JOBS = ("seed", "apply", "audit", "archive", "replay")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    program = [sys.executable, str(ROOT / "ops/spark_bundle.py"), str(folder)]
    # The umask of a careful user; every user may read the bundle all the same: in an image it
    # belongs to root, and another user runs the jobs.
    subprocess.run(program, check=True, capture_output=True, umask=0o077)
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o644}
    with tarfile.open(folder / "environment.tar.gz") as archive:
        assert all(entry.mode & 0o444 == 0o444 for entry in archive if entry.isfile())
    return folder


@pytest.fixture
def elsewhere(bundle: Path, tmp_path: Path) -> Path:
    """The folder of a driver that a cluster has started: with the archive, without the project."""
    folder = tmp_path / "driver"
    unpacked = folder / "environment"
    unpacked.mkdir(parents=True)
    subprocess.run(["tar", "-xzf", bundle / "environment.tar.gz", "-C", unpacked], check=True)
    return folder


def clean(home: Path, **more: str) -> dict[str, str]:
    """An environment in which nothing leads to the project."""
    return {"PATH": "/usr/bin:/bin", "HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", **more}


def submit(
    bundle: Path, driver: Path, master: str, job: Path, *flags: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a job as docs/spark.md says, with Spark's own spark-submit."""
    conf = {"spark.pyspark.python": "./environment/bin/python", "spark.executor.memory": "512m"}
    words = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    return subprocess.run(
        [
            *(str(SPARK_HOME / "bin/spark-submit"), "--master", master),
            *("--py-files", str(bundle / "waltally.zip")),
            *("--archives", f"{bundle / 'environment.tar.gz'}#environment"),
            *(*words, str(job), *flags),
        ],
        cwd=driver,
        env=clean(driver, **environment),
        capture_output=True,
        text=True,
        timeout=280,
    )


@pytest.mark.slow
def test_the_jobs_run_from_the_bundle_on_a_cluster(
    source: Source, bundle: Path, elsewhere: Path, workers: SparkCluster, tmp_path: Path
) -> None:
    source.fill_many()
    environment = source.cluster.environment(source.name)
    done = submit(bundle, elsewhere, workers.url, bundle / "seed.py", **environment)
    assert done.returncode == 0, done.stderr
    assert source.baseline() == source.recount()

    (tmp_path / "data").mkdir()
    log = Log(source, tmp_path / "data/archive")
    # Its positions are small ones.
    source.execute("update cdc.baseline set snapshot_lsn = '0/100000'")
    log.append(3, 3, 12, 1)
    path = str(log.home)
    to = ("--to", path, "--slice-changes", "5")
    done = submit(bundle, elsewhere, workers.url, bundle / "archive.py", *to, **environment)
    assert done.returncode == 0, done.stderr
    assert archived(log.slot_home) == log.rows()


@pytest.mark.slow
def test_each_job_starts_from_the_bundle(bundle: Path, elsewhere: Path) -> None:
    spark = ":".join(str(file) for file in (SPARK_HOME / "python/lib").glob("*.zip"))
    path = f"{bundle / 'waltally.zip'}:{spark}"
    for job in JOBS:
        done = subprocess.run(
            ["environment/bin/python", bundle / f"{job}.py", "--help"],
            cwd=elsewhere,
            env=clean(elsewhere, PYTHONPATH=path),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        assert f"spark-submit spark/{job}.py" in done.stdout


@pytest.mark.slow
def test_the_bundle_is_small_and_names_no_place_of_the_project(bundle: Path) -> None:
    files = {file.name: file for file in bundle.iterdir()}
    jobs = {f"{job}.py" for job in JOBS}
    assert set(files) == {"waltally.zip", "environment.tar.gz", *jobs}
    assert files["environment.tar.gz"].stat().st_size < 87_000_000
    listed = subprocess.run(
        ["tar", "-tvzf", files["environment.tar.gz"]], capture_output=True, text=True, check=True
    ).stdout
    assert str(ROOT) not in listed
    assert not any(f"site-packages/{name}/" in listed for name in ("pyspark", "waltally", "dbt"))
    with zipfile.ZipFile(files["waltally.zip"]) as code:
        assert {name.rpartition(".")[2] for name in code.namelist()} == {"py", "sql"}


def environment_of_spark(home: Path, *words: str) -> Mapping[str, str]:
    """The environment that ops/spark-submit, as it is installed, starts another Spark with."""
    program = home / "bin/spark-submit"
    program.parent.mkdir(exist_ok=True)
    program.write_text("#!/bin/sh\nexec env\n")
    program.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    done = subprocess.run(
        [str(Path(sys.executable).parent / "spark-submit"), *words, "spark/seed.py"],
        env={**kept, "SPARK_HOME": str(home)},
        capture_output=True,
        text=True,
    )
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


def test_nothing_of_this_machine_travels_with_a_driver_that_runs_elsewhere(tmp_path: Path) -> None:
    for elsewhere in (
        ("--deploy-mode", "cluster"),
        ("--deploy-mode=cluster",),
        ("--conf", "spark.submit.deployMode=cluster"),
    ):
        shown = environment_of_spark(tmp_path, *elsewhere)
        assert not {"PYSPARK_PYTHON", "SPARK_SUBMIT_OPTS"} & shown.keys(), elsewhere
    here = environment_of_spark(tmp_path, "--deploy-mode", "client")
    assert here["PYSPARK_PYTHON"] == str(Path(sys.executable).parent / "python")
