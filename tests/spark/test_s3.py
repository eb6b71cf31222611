"""An archive in a bucket is what one in a folder is; the S3 server is moto's."""

from __future__ import annotations

import subprocess
import urllib.request
import venv
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyarrow import fs
from waltally_jobs.archiving.files import read_archive

from testkit.commands import wait_until
from testkit.servers import free_port
from tests.spark.archives import Log
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
    source.must_seed()
    log = Log(source, tmp_path)
    source.execute("update cdc.baseline set snapshot_lsn = %s", lsn.show(log.position))
    log.append(3, 3, 12, 1)
    staged = log.read()
    send("PUT", f"{server}/backups")

    def job(name: str, *flags: str) -> str:
        code, out, err = source.submit(*flags, job=name)
        assert code == 0, err
        return out

    to = ("--to", "s3://backups/waltally")
    assert "19 changes from" in job("archive", *to, "--slice-changes", "5", "--format", "delta")
    assert "nothing new" in job("archive", *to)
    # The changes name no table, which no model can count.
    begin = ("--at", "0/100000")
    assert "ft_service_stats:" in job(
        "replay", "--from", "s3://backups/waltally", "--to", "s3://backups/replayed", *begin
    )
    bucket, _ = fs.FileSystem.from_uri("s3://backups")
    replayed = pq.read_table("backups/replayed/ft_service_stats", filesystem=bucket)
    live = sum(source.recount()["public.notifications"].values())
    assert sum(replayed["live_count"].to_pylist()) == live > 0
    log.prune(log.position)

    for place in ("s3://backups/waltally", "s3a://backups/waltally"):
        assert source.read_apart(archive=place)[1] == staged

    changes = DeltaTable(f"s3://backups/waltally/slot={source.slot}/changes").to_pyarrow_dataset()
    read = duckdb.from_arrow(changes).project("commit_lsn, ordinal, payload").fetchall()
    assert sorted(map(list, read)) == staged

    with pytest.raises(LoaderError, match="s3://missing/x has no changes of the slot waltally"):
        read_archive("s3://missing/x", source.slot)
    send("POST", f"{server}/moto-api/reset-auth", b"0")  # From now on it knows no key.
    with pytest.raises(LoaderError, match=r"waltally cannot be read: .*INVALID_ACCESS_KEY_ID"):
        read_archive("s3://backups/waltally", source.slot)
