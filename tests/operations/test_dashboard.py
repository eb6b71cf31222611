"""examples/dashboard: counts over HTTP, and an ETag that moves with the fact."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from tests.support import LOADER, ROOT, Database, wait_until
from tests.support.commands import profiles


@pytest.fixture
def url(source: Database, tmp_path: Path) -> Iterator[str]:
    source.must("setup")
    build(source, tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "examples.dashboard.app:app", "--port", str(port)]
    with (tmp_path / "uvicorn.log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=source.environment(), stderr=log)
    try:
        wait_until(lambda: "running on" in (tmp_path / "uvicorn.log").read_text(), "it listens")
        service = source.value("select id from services order by id limit 1")
        yield f"http://127.0.0.1:{port}/services/{service}"
    finally:
        process.terminate()
        process.wait()


def build(database: Database, folder: Path) -> None:
    service = database.value("select id from services order by id limit 1")
    database.execute(
        'insert into notifications ("to", service_id, template_id, notification_type, '
        "notification_status) select 'someone', %s, id, 'email', 'delivered' "
        "from templates order by id limit 1",
        service,
    )
    dbt = profiles(folder)
    database.must("run", "--once", "--build", **dbt)
    view = [str(LOADER.parent / "dbt"), "--quiet", "run", "--select", "+service_totals"]
    subprocess.run(view, cwd=ROOT, env=database.environment(**dbt), check=True)


def ask(url: str, etag: str = "") -> tuple[int, str, Any]:
    request = urllib.request.Request(url, headers={"If-None-Match": etag} if etag else {})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.headers["ETag"], json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers["ETag"], refused.read()


def test_an_answer_is_not_sent_again_until_the_fact_has_moved(
    source: Database, url: str, tmp_path: Path
) -> None:
    status, etag, counts = ask(url)
    assert status == HTTPStatus.OK
    assert counts == [{"notification_type": "email", "requested": 1, "delivered": 1, "failed": 0}]
    assert ask(url, etag) == (HTTPStatus.NOT_MODIFIED, etag, b"")
    build(source, tmp_path)
    status, moved, counts = ask(url, etag)
    assert (status, counts[0]["requested"]) == (HTTPStatus.OK, 2)
    assert moved != etag
