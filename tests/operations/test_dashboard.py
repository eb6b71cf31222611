"""examples/dashboard: counts over HTTP with an ETag and as a stream, and what its page runs."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import pytest

from testkit.commands import ROOT, profiles, wait_until
from testkit.databases import Database, application_database
from testkit.servers import Cluster, administer, free_port

HOSTILE = (
    "<b>failed</b>",
    '"><img src=x onerror="isRun = 1">',
    "</script><script>isRun = 1</script>",
    "javascript:isRun=1",
    "a\n\ndata: {}\n\nevent: gone",
    "__proto__",
    "\u2028\u202e${isRun = 1}",
)
"""Statuses that would be HTML, a script or an event of the stream."""


@pytest.fixture(scope="module")
def source(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A database with a delivered notification that is counted."""
    with application_database(cluster) as database:
        database.must("setup")
        dbt = profiles(tmp_path_factory.mktemp("dbt"))
        database.dbt("run", "--select", "+service_totals", **dbt)
        deliver(database)
        yield database


@pytest.fixture(scope="module")
def root(source: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the page."""
    port = free_port()
    app = ["uvicorn", "examples.dashboard.app:app", "--timeout-graceful-shutdown", "1"]
    command = [sys.executable, "-m", *app, "--port", str(port)]
    said = tmp_path_factory.mktemp("app") / "uvicorn.log"
    with said.open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=source.environment(), stderr=log)
    try:
        wait_until(lambda: "running on" in said.read_text(), "it listens")
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait()


def deliver(database: Database, status: str = "delivered") -> None:
    database.insert(1, status)
    database.must("run", "--once", "--build")


def ask(url: str, etag: str = "") -> tuple[int, str, Any]:
    request = urllib.request.Request(url, headers={"If-None-Match": etag} if etag else {})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.headers["ETag"], json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers["ETag"], refused.read()


def test_an_answer_is_not_sent_again_until_the_fact_has_moved_and_a_stream_tells_of_it(
    source: Database, root: str
) -> None:
    url = f"{root}services/{source.value('select service_id from notifications limit 1')}"
    status, etag, counts = ask(url)
    assert status == HTTPStatus.OK
    assert counts == [{"notification_type": "email", "requested": 1, "delivered": 1, "failed": 0}]
    assert ask(url, etag) == (HTTPStatus.NOT_MODIFIED, etag, b"")
    with urllib.request.urlopen(f"{root}events") as stream:
        email = {"name": "email", "requested": 1, "delivered": 1, "failed": 0}
        first = read_counts(stream)
        assert first["types"] == [email]
        assert first["statuses"] == [{"name": "delivered", "count": 1}]
        assert [service["requested"] for service in first["services"]] == [1]
        deliver(source)
        second = read_counts(stream)
        assert second["types"] == [email | {"requested": 2, "delivered": 2}]
        assert second["position"] != first["position"]
    status, moved, counts = ask(url, etag)
    assert (status, counts[0]["requested"]) == (HTTPStatus.OK, 2)
    assert moved != etag


def read_counts(stream: Iterable[bytes]) -> dict[str, Any]:
    data = next(line for line in stream if line.startswith(b"data: "))
    counts: dict[str, Any] = json.loads(data.removeprefix(b"data: "))
    return counts


def sessions(database: Database) -> int:
    return int(
        database.value(
            "select count(*) from pg_stat_activity where datname = current_database() "
            "and backend_type = 'client backend' and pid <> pg_backend_pid()"
        )
    )


def test_more_pages_than_the_server_has_connections_are_served_by_one(
    source: Database, root: str
) -> None:
    """Half of them never read, and all of them vanish."""
    pages = int(source.value("show max_connections")) + 20
    wait_until(lambda: sessions(source) == 0, "the build's sessions have ended")
    with ExitStack() as stack:
        for number in range(pages):
            if number % 2:
                page = socket.create_connection(("127.0.0.1", urlsplit(root).port or 0))
                stack.enter_context(page).sendall(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n")
            else:
                stream = stack.enter_context(urllib.request.urlopen(f"{root}events"))
                [before] = read_counts(stream)["statuses"]
        deliver(source)
        assert read_counts(stream)["statuses"] == [before | {"count": before["count"] + 1}]
        wait_until(lambda: sessions(source) == 1, "one session serves them all")
    wait_until(lambda: sessions(source) == 0, "nobody looks any more")


def test_a_page_says_that_the_database_is_gone_and_goes_on_when_it_is_back(
    source: Database, root: str
) -> None:
    url = f"{root}services/{source.value('select service_id from notifications limit 1')}"
    with urllib.request.urlopen(f"{root}events") as stream:
        first = read_counts(stream)
        administer(source.cluster, f"alter database {source.name} allow_connections false")
        source.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        )
        assert b"event: gone\n" in stream
        assert ask(url)[0] == HTTPStatus.SERVICE_UNAVAILABLE
        administer(source.cluster, f"alter database {source.name} allow_connections true")
        assert read_counts(line for line in stream if line != b"data:\n") == first
        assert ask(url)[0] == HTTPStatus.OK


def test_a_name_from_the_database_is_no_html_no_script_and_no_event(
    source: Database, root: str
) -> None:
    for status in HOSTILE:
        source.insert(1, status)
    source.must("run", "--once", "--build")
    with urllib.request.urlopen(f"{root}events") as stream:
        names = {each["name"] for each in read_counts(stream)["statuses"]}
        assert names == {"delivered", *HOSTILE}
        assert next(stream) == b"\n", "one line of data is the whole event"
    with urllib.request.urlopen(root) as answer:
        policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'self';") and "script" not in policy
    script = (ROOT / "examples/dashboard/page.js").read_text()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", script)
