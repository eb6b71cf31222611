"""The bundle is all that a cluster needs of the project: Python and Spark are there already."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pyspark
import pytest

from testkit.commands import ROOT
from testkit.spark_cluster import SparkCluster
from tests.spark.support import Source

SPARK_HOME = Path(pyspark.__file__).parent
JOBS = ("seed", "apply", "audit", "history")


@pytest.mark.slow
def test_jobs_run_from_the_bundle_on_a_cluster(
    source: Source, workers: SparkCluster, tmp_path: Path
) -> None:
    bundle, driver = tmp_path / "bundle", tmp_path / "driver"
    # The umask of a careful user; every user may read the bundle all the same: in an image it
    # belongs to root, and another user runs the jobs.
    make = [sys.executable, str(ROOT / "ops/spark_bundle.py"), str(bundle)]
    subprocess.run(make, check=True, capture_output=True, umask=0o077)
    code, packed = bundle / "waltally.zip", bundle / "environment.tar.gz"
    assert {*bundle.iterdir()} == {code, packed, *(bundle / f"{job}.py" for job in JOBS)}
    assert {file.stat().st_mode & 0o777 for file in bundle.iterdir()} == {0o644}
    assert packed.stat().st_size < 87_000_000
    with zipfile.ZipFile(code) as opened:
        assert {name.rpartition(".")[2] for name in opened.namelist()} == {"py", "sql"}
    with tarfile.open(packed) as environment:
        for entry in environment:
            assert not entry.isfile() or entry.mode & 0o444 == 0o444, entry
            assert str(ROOT) not in entry.name + entry.linkname
            assert not re.search("site-packages/(pyspark|waltally|dbt)/", entry.name), entry

    # The folder of a driver that a cluster has started: with the environment, without the project.
    unpacked = driver / "environment"
    unpacked.mkdir(parents=True)
    subprocess.run(["tar", "-xzf", packed, "-C", unpacked], check=True)

    def run(*command: object, **environment: str) -> str:
        """Run a command there, where nothing leads to the project."""
        own = {"PATH": "/usr/bin:/bin", "HOME": str(driver), "SPARK_LOCAL_IP": "127.0.0.1"}
        done = subprocess.run(
            [str(word) for word in command],
            cwd=driver,
            env={**own, **environment},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    libraries = ":".join(map(str, (code, *(SPARK_HOME / "python/lib").glob("*.zip"))))
    for job in JOBS:
        help_ = ("environment/bin/python", bundle / f"{job}.py", "--help")
        assert f"spark-submit spark/{job}.py" in run(*help_, PYTHONPATH=libraries)

    def submit(job: str, *flags: str) -> None:
        """Run a job as docs/spark.md says, with Spark's own spark-submit."""
        conf = ("spark.pyspark.python=./environment/bin/python", "spark.executor.memory=512m")
        run(
            *(SPARK_HOME / "bin/spark-submit", "--master", workers.url, "--py-files", code),
            *("--archives", f"{packed}#environment", "--conf", conf[0], "--conf", conf[1]),
            *(bundle / f"{job}.py", *flags),
            **source.cluster.environment(source.name),
        )

    source.fill_many()
    submit("seed")
    source.must_end_as_a_recount()


def submitted(*words: str, **more: str) -> str:
    """What ops/spark-submit, as it is installed, prints."""
    kept = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    program = Path(sys.executable).with_name("spark-submit")
    done = subprocess.run(
        [program, *words], env={**kept, **more}, cwd=ROOT, capture_output=True, text=True
    )
    assert done.stderr == ""
    return done.stdout


def test_nothing_of_this_machine_travels_with_a_driver_that_runs_elsewhere(tmp_path: Path) -> None:
    program = tmp_path / "bin/spark-submit"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexec env\n")
    program.chmod(0o755)
    for elsewhere in (
        ("--deploy-mode", "cluster"),
        ("--deploy-mode=cluster",),
        ("--conf", "spark.submit.deployMode=cluster"),
    ):
        shown = submitted(*elsewhere, "spark/seed.py", SPARK_HOME=str(tmp_path))
        assert "PYSPARK_PYTHON=" not in shown and "SPARK_SUBMIT_OPTS=" not in shown, elsewhere
    here = submitted("--deploy-mode", "client", "spark/seed.py", SPARK_HOME=str(tmp_path))
    assert f"PATH={Path(sys.executable).parent}:" in here


def test_spark_submit_hands_on_every_word_and_imports_what_is_compiled(tmp_path: Path) -> None:
    script = tmp_path / "words.py"
    script.write_text("import json, pyspark, sys\nprint(json.dumps([*sys.argv, pyspark.__file__]))")
    words = ["", "two words", 'a "quote"', "line\nbreak", "$HOME"]
    assert json.loads(submitted(str(script), *words)) == [str(script), *words, pyspark.__file__]
