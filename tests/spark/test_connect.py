"""Jobs over Spark Connect: the client has no JVM, and the server has nothing of ours.

A killed archive is in test_archive.py; the short soak applies over it, and kills the driver.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet
import pytest

from testkit.spark_connect import connect_server
from tests.spark.archives import Log
from tests.spark.support import Source


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["client", "server"])
def test_a_seed_over_connect_that_loses_its_driver_leaves_the_previous_one_and_the_next_is_exact(
    server: str, source: Source, lost: str
) -> None:
    source.fill_many()
    source.previous_seed()
    with connect_server() as other:
        with source.seed_that_waits_to_write("--forget-purged", remote=other.address) as seed:
            (other.process if lost == "server" else seed).kill()
            if lost == "client":
                _, err = seed.communicate()
                # The server's tasks have not noticed, and write for nobody.
                assert source.waiting("relation"), err
        out, err = seed.communicate(timeout=120)
        assert seed.returncode, err
        assert "Traceback" not in out + err
        assert source.has_previous_seed()
        code, _, err = source.submit("--forget-purged", remote=server)
        assert code == 0, err
    assert source.baseline() == source.recount()
    # What the killed one had copied is gone too.
    assert not source.tables_of_jobs()


STREAM = """
import json, sys, waltally_source
from pyspark.sql import SparkSession
changes = SparkSession.active().readStream.format("waltally").options(**json.loads(sys.argv[1]))
query = changes.load().writeStream.option("checkpointLocation", sys.argv[2] + " checkpoint")
query.format("parquet").trigger(availableNow=True).start(sys.argv[2]).awaitTermination()
"""


@pytest.mark.slow
def test_a_stream_over_connect_has_each_change_once(server: str, log: Log, tmp_path: Path) -> None:
    home = tmp_path / "stream"
    for size in (3, 12):
        log.append(size, 1)
        log.source.python(STREAM, {"maxChanges": "5"}, str(home), remote=server)
    columns = ["commit_lsn", "ordinal", "payload"]
    rows = pyarrow.parquet.read_table(home, columns=columns).to_pylist()
    assert sorted([row[name] for name in columns] for row in rows) == log.read()
    assert log.source.read_apart(server) == ("pyspark.sql.connect.session", log.read())


def test_a_server_that_is_not_there_is_said(source: Source) -> None:
    nowhere = "sc://127.0.0.1:1/;token=secret"
    code, out, err = source.submit("--to", "x", job="archive", remote=nowhere)
    assert code == 47, err
    assert "no session of Spark Connect at 127.0.0.1:1: " in err
    assert "secret" not in out + err
