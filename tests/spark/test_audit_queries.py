"""An audit compares a model with its query, both at one position."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testkit.databases import empty_database
from testkit.fixtures import WAREHOUSE
from testkit.servers import Cluster
from tests.spark.kept import MODELS, Kept


@pytest.fixture
def kept(cluster: Cluster, tmp_path: Path) -> Iterator[Kept]:
    """Models of each kind that are right, with rows from before their seed and from after it."""
    with empty_database(cluster, WAREHOUSE) as database:
        made = Kept(database, tmp_path)
        made.write(300)
        made.write(100, "old_orders")
        made.declare(MODELS)
        made.must_run("seed")
        made.write(100)
        made.source.execute("update orders set status = 'paid', amount = 3 where id %% 9 = %s", 1)
        made.source.execute("delete from orders where id % 11 = 1")
        made.source.execute("delete from old_orders where id % 3 = 1")
        made.must("run", "--once")
        made.apply()
        yield made


def audited(kept: Kept, *flags: str, code: int = 0) -> dict[str, Any]:
    found, out, err = kept.run("audit", "--json", *flags)
    assert found == code, out + err
    report: dict[str, Any] = json.loads(out)
    return report


def test_models_that_are_right_equal_their_queries(kept: Kept) -> None:
    with kept.follow():
        report = audited(kept)
    assert report["equal"], report
    assert set(report["facts"]) == set(MODELS)
