"""Jobs over Spark Connect: the client has no JVM, and the server has nothing of ours.

The short soak applies over it, and kills the driver.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

from testkit.commands import ROOT
from testkit.spark_connect import connect_server
from tests.spark.log import Log
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
                assert source.waiting(), err
        out, err = seed.communicate(timeout=120)
        assert seed.returncode, err
        assert "Traceback" not in out + err
        assert source.has_previous_seed()
        code, _, err = source.submit("--forget-purged", remote=server)
        assert code == 0, err
    # What the killed one had copied is gone too.
    source.must_end_as_a_recount()


READ = """
import json, sys, waltally_source
from pyspark.sql import SparkSession
spark, (given, home, columns) = SparkSession.active(), map(json.loads, sys.argv[1:])
read = lambda reader, **more: reader.format("waltally").options(**given, **more).load()
changes = read(spark.readStream, maxChanges="5").writeStream
query = changes.option("checkpointLocation", home + " checkpoint").format("parquet")
query.trigger(availableNow=True).start(home).awaitTermination()
rows = sorted(map(list, read(spark.read).select(columns).collect()))
print(json.dumps([type(spark).__module__, rows]))
"""
"""Lets a stream write to a folder, and prints the kind of its session and all changes."""


@pytest.mark.slow
def test_a_stream_over_connect_has_each_change_once(server: str, log: Log, tmp_path: Path) -> None:
    home, columns = tmp_path / "stream", ["commit_lsn", "ordinal", "payload"]
    given = {"target": log.source.dsn, "slot": log.source.slot}
    for size in (3, 12):
        log.append(size, 1)
        done = subprocess.run(
            [sys.executable, "-c", READ, *map(json.dumps, (given, str(home), columns))],
            env=log.source.environment(PYTHONPATH=str(ROOT / "spark"), SPARK_REMOTE=server),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    rows = pyarrow.parquet.read_table(home, columns=columns).to_pylist()
    everything = [[row[0], row[1], row[6]] for row in log.rows()]
    assert sorted([row[name] for name in columns] for row in rows) == everything
    assert json.loads(done.stdout) == ["pyspark.sql.connect.session", everything]


def test_a_server_that_is_not_there_is_said(source: Source) -> None:
    nowhere = "sc://127.0.0.1:1/;token=secret"
    code, out, err = source.submit(remote=nowhere)
    assert code == 29, err
    assert "no session of Spark Connect at 127.0.0.1:1: " in err
    assert "secret" not in out + err
