"""examples/lake as its page says: its stream goes on where it was, its view is made anew."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

from testkit.commands import ROOT
from testkit.databases import empty_database
from testkit.servers import Cluster
from tests.spark.kept import MODELS, Kept

CATALOG = ("--conf", "spark.sql.catalogImplementation=hive")


@pytest.mark.slow
def test_a_pipeline_reads_each_change_once_and_makes_its_view_anew(
    cluster: Cluster, tmp_path: Path
) -> None:
    home = tmp_path / "lake"
    shutil.copytree(ROOT / "examples/lake", home)
    spec = home / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("/tmp/waltally-lake", str(tmp_path / "storage")))
    with empty_database(cluster) as source:
        kept = Kept(source, tmp_path)
        orders = home / "transformations/orders.py"
        own = f'reader="lake", slot="{kept.slot}"'
        orders.write_text(orders.read_text().replace('reader="lake"', own))
        kept.keep({"total": MODELS["total"]})
        for expected in (13, 26):
            kept.write(10)
            kept.source.execute(
                "update orders set status = 'sent' where id in"
                " (select id from orders where status = 'new' order by id limit 3)"
            )
            kept.must("run", "--once")
            done = subprocess.run(
                [Path(sys.executable).parent / "spark-pipelines", "run", *CATALOG],
                cwd=home,
                env={
                    **kept.environment(),
                    "PYTHONPATH": str(ROOT / "spark"),
                    "PYSPARK_PYTHON": sys.executable,
                },
                capture_output=True,
                text=True,
            )
            # PySpark 4.3.0 may fail after that: its client does not know what Python tasks report.
            assert "Run is COMPLETED." in done.stdout + done.stderr, done.stdout + done.stderr
            rows = pyarrow.parquet.read_table(home / "spark-warehouse/order_changes").to_pylist()
            assert len(rows) == len({(row["commit_lsn"], row["ordinal"]) for row in rows})
            assert len(rows) == expected
            moved = pyarrow.parquet.read_table(home / "spark-warehouse/status_changes").to_pylist()
            assert [(row["before"], row["status"]) for row in moved] == [("new", "sent")]
            assert sum(row["count"] for row in moved) == 3 * expected // 13
