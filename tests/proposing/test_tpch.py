"""The queries of TPC-H: each is kept, and the view gives its rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.tpch import example
from testkit.commands import ROOT
from testkit.databases import Database, empty_database
from testkit.servers import Cluster
from tests.proposing.support import proposed

QUERIES = sorted((ROOT / "examples" / "tpch" / "queries").glob("*.sql"))
SCALE = 0.02
"""The least at which each query has a row."""


@pytest.fixture(scope="module")
def trade(cluster: Cluster) -> Iterator[Database]:
    with empty_database(cluster) as made:
        dsn = cluster.dsn(made.name)
        example.create(dsn)
        example.fill_scale(dsn, SCALE)
        made.execute("analyze")
        yield made.with_functions()


@pytest.mark.slow
@pytest.mark.parametrize("path", QUERIES, ids=lambda path: path.stem)
def test_a_query_of_tpch_is_kept(trade: Database, path: Path) -> None:
    made = proposed(trade, path.read_text(), path.stem)
    assert any("missing 0, surplus 0" in line for line in made.lines)
    assert any("fact of" in line or "fact over" in line for line in made.lines)
