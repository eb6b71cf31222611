"""An archive in a bucket is what one in a folder is; the S3 server is moto's."""

from __future__ import annotations

import subprocess
import urllib.request
import venv
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyarrow import fs
from waltally_jobs.archiving.files import read_archive
from waltally_jobs.data_source.change_log import Log as ChangeLog
from waltally_jobs.data_source.change_log import Options

from testkit.commands import wait_until
from testkit.servers import free_port
from tests.spark.archives import COLUMNS, Log, plain, rows_of
from tests.spark.support import Source
from waltally import lsn
from waltally.errors import LoaderError


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of an S3 server, which the environment names."""
    bin_, said, port = tmp_path / "moto/bin", tmp_path / "moto.log", str(free_port())
    venv.create(bin_.parent, with_pip=True)
    packages = Path(__file__).with_name("moto-requirements.txt")
    subprocess.run([bin_ / "pip", "install", "--quiet", "-r", packages], check=True)
    address = f"http://127.0.0.1:{port}"
    own = {"ENDPOINT_URL": address, "ALLOW_HTTP": "true", "REGION": "us-east-1"}
    for name, value in {**own, "ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    with said.open("w") as log:
        process = subprocess.Popen([bin_ / "moto_server", "-p", port], stdout=log, stderr=log)
    try:
        wait_until(lambda: "Running on" in said.read_text())
        yield address
    finally:
        process.kill()
        process.wait()


def send(method: str, url: str, body: bytes = b"") -> None:
    kind = {"Content-Type": "text/plain"}
    urllib.request.urlopen(urllib.request.Request(url, body, kind, method=method)).close()


@pytest.mark.slow
def test_an_archive_is_written_to_a_bucket_and_read_from_it(
    server: str, source: Source, tmp_path: Path
) -> None:
    source.fill()
    code, _, err = source.seed()
    assert code == 0, err
    log = Log(source, tmp_path)
    source.execute("update cdc.baseline set snapshot_lsn = %s", lsn.show(log.position))
    log.append(3, 3, 12, 1)
    send("PUT", f"{server}/backups")
    places = ("s3://backups/waltally", "s3a://backups/waltally")

    def job(name: str, *flags: str) -> str:
        code, out, err = source.submit(*flags, job=name)
        assert code == 0, err
        return out

    for _ in range(2):
        out = job("archive", "--to", places[0], "--slice-changes", "5", "--format", "delta")
    assert "nothing new" in out
    # The changes name no table, which no model can count.
    to = ("--to", "s3://backups/replayed", "--at", "0/100000")
    assert "ft_service_stats:" in job("replay", "--from", places[0], *to)
    bucket, _ = fs.FileSystem.from_uri("s3://backups")
    replayed = pq.read_table("backups/replayed/ft_service_stats", filesystem=bucket)
    live = source.value("select count(*) from notifications")
    assert sum(replayed["live_count"].to_pylist()) == live > 0

    everything = plain(log.rows())
    log.prune(log.position)
    for place in places:
        given = {"target": source.dsn, "slot": source.slot, "archive": place}
        with closing(ChangeLog(Options.of(given))) as found:
            assert rows_of(found.ranges(found.begin, found.end)) == everything
    changes = DeltaTable(f"{places[0]}/slot={source.slot}/changes").to_pyarrow_dataset()
    assert plain(duckdb.from_arrow(changes).project(", ".join(COLUMNS)).fetchall()) == everything

    with pytest.raises(LoaderError, match="s3://missing/x has no changes of the slot waltally"):
        read_archive("s3://missing/x", source.slot)
    send("POST", f"{server}/moto-api/reset-auth", b"0")  # From now on it knows no key.
    with pytest.raises(LoaderError, match=r"waltally cannot be read: .*INVALID_ACCESS_KEY_ID"):
        read_archive(places[0], source.slot)
