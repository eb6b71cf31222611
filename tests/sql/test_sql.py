"""Each file of this folder is SQL that prints the cases which fail."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.databases import empty_database
from testkit.servers import BIN, Cluster

FILES = sorted(Path(__file__).parent.glob("*.sql"))


@pytest.fixture(scope="module")
def dsn(cluster: Cluster) -> Iterator[str]:
    """A database with our functions; each file takes back what it does."""
    with empty_database(cluster) as database:
        yield cluster.dsn(database.with_functions().name)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_case_holds(dsn: str, path: Path) -> None:
    options = ("-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1")
    done = subprocess.run(
        [str(BIN / "psql"), *options, "-d", dsn, "-f", str(path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""
