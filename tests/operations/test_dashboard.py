"""examples/dashboard: counts over HTTP with an ETag, as a stream, and on a page."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from testkit.browser import CHROMIUM, Page, chromium
from testkit.commands import ROOT, profiles, wait_until
from testkit.databases import Database, application_database
from testkit.hostile import MARKUP
from testkit.servers import Cluster, administer, free_port


@pytest.fixture(scope="module")
def source(cluster: Cluster) -> Iterator[Database]:
    with application_database(cluster) as made:
        yield made


@pytest.fixture(scope="module")
def root(source: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the page."""
    home = tmp_path_factory.mktemp("dashboard")
    source.must("setup")
    source.take_baseline()
    source.dbt("run", "--select", "+ft_service_stats", **profiles(home))
    # As dbt does where a project's config says `changes`; the package's own model keeps none.
    source.execute(
        "select cdc.install_changes(project_name, relation_schema, relation_name, model_name,"
        " declaration, '1 hour') from cdc.installed_model"
    )
    build(source)
    port = free_port()
    app = ["uvicorn", "examples.dashboard.app:app", "--timeout-graceful-shutdown", "1"]
    command = [sys.executable, "-m", *app, "--port", str(port)]
    with (home / "uvicorn.log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=source.environment(), stderr=log)
    try:
        wait_until(lambda: "running on" in (home / "uvicorn.log").read_text(), "it listens")
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    with chromium(tmp_path) as opened:
        yield opened


def build(source: Database) -> None:
    """Insert a row and build with it."""
    source.insert(1, "delivered")
    source.must("run", "--once", "--build")


def service_url(source: Database, root: str) -> str:
    """Where the counts of the rows' service are."""
    return f"{root}services/{source.value('select distinct service_id from notifications')}"


def ask(url: str, etag: str = "") -> tuple[int, str, Any]:
    request = urllib.request.Request(url, headers={"If-None-Match": etag} if etag else {})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.headers["ETag"], json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers["ETag"], refused.read()


def test_an_answer_is_not_sent_again_until_the_model_has_moved_and_a_stream_tells_of_it(
    source: Database, root: str
) -> None:
    url = service_url(source, root)
    status, etag, counts = ask(url)
    email = {"requested": 1, "delivered": 1, "failed": 0}
    assert (status, counts) == (HTTPStatus.OK, [{"notification_type": "email", **email}])
    assert ask(url, etag) == (HTTPStatus.NOT_MODIFIED, etag, b"")
    with (
        socket.create_connection(("127.0.0.1", urlsplit(root).port or 0)) as unread,
        urllib.request.urlopen(f"{root}events") as stream,
    ):
        unread.sendall(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n")
        first = read(stream)
        assert first["types"] == [{"id": "email", "count": 1, **email}]
        assert first["statuses"] == [{"id": "delivered", "count": 1, **email}]
        assert [service["requested"] for service in first["services"]] == [1]
        # From here on the page takes what has changed, and does not ask for the rest again.
        source.execute("update analytics.ft_service_stats set count = count + 5")
        build(source)
        second = read(stream)
        two = {"count": 2, "requested": 2, "delivered": 2, "failed": 0}
        assert second["types"] == [{"id": "email", **two}]
        assert second["position"] != first["position"]
        source.execute("insert into analytics.ft_service_stats_changes default values")
        source.execute("notify waltally")
        assert read(stream)["types"][0]["count"] == 7
        source.execute("update analytics.ft_service_stats set count = count - 5")
        source.execute("insert into analytics.ft_service_stats_changes default values")
        source.execute("notify waltally")
        assert read(stream)["types"] == second["types"]
        status, moved, counts = ask(url, etag)
        assert (status, counts[0]["requested"], moved != etag) == (HTTPStatus.OK, 2, True)
        # Nobody follows the slot: what is committed from here on is in no number.
        source.insert(1, "delivered")
        _, *ages = [read(stream, b'{"age"') for _ in range(3)]
        assert ages[0]["age"] < ages[1]["age"]
        assert ages[0]["freshness"] == "fresh"
        others = (
            "select count(*) from pg_stat_activity where datname = current_database() "
            "and backend_type = 'client backend' and pid <> pg_backend_pid()"
        )
        wait_until(lambda: source.value(others) == 1, "one session serves all pages")
    wait_until(lambda: source.value(others) == 0, "nobody looks any more")


def read(stream: Iterable[bytes], event: bytes = b'{"position"') -> Any:
    """Return the next event that begins so: counts, or how old they are."""
    data = next(line for line in stream if line.startswith(b"data: " + event))
    return json.loads(data.removeprefix(b"data: "))


def test_a_page_says_that_the_database_is_gone_and_goes_on_when_it_is_back(
    source: Database, root: str
) -> None:
    url = service_url(source, root)
    with urllib.request.urlopen(f"{root}events") as stream:
        first = read(stream)
        administer(source.cluster, f"alter database {source.name} allow_connections false")
        source.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        )
        assert b"event: gone\n" in stream
        assert ask(url)[0] == HTTPStatus.SERVICE_UNAVAILABLE
        administer(source.cluster, f"alter database {source.name} allow_connections true")
        assert read(line for line in stream if line != b"data:\n") == first
        assert ask(url)[0] == HTTPStatus.OK


@pytest.mark.slow
def test_a_change_at_the_source_moves_the_page_without_a_reload(
    source: Database, root: str, page: Page
) -> None:
    # What another test has left is built first.
    build(source)
    # All are delivered before there are others.
    before = int(source.value("select sum(count) from analytics.ft_service_stats"))
    page.open(root)
    wait_until(lambda: shown(page, "delivered") == f"{before}", "the page shows the count")
    page.evaluate("window.isTheSame = true")
    source.insert(1, "delivered")
    for status in MARKUP:
        source.insert(1, status)
    build(source)
    after, others = before + 2, len(MARKUP)
    wait_until(lambda: shown(page, "requested") == f"{after + others}", "the page has them")
    assert (shown(page, "delivered"), shown(page, "under-way")) == (f"{after}", f"{others}")
    for status in MARKUP:
        assert status in shown(page, "statuses")
    of_markup = "document.querySelectorAll('#statuses :is(a, b, img, script)').length"
    assert page.evaluate(of_markup) == 0
    # Had one of them become HTML after all, its script would not run.
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<p onclick=\"isRun = 1\">')")
    page.evaluate("document.querySelector('p').click()")
    assert page.evaluate("typeof isRun") == "undefined"
    assert page.evaluate("window.isTheSame")
    # The icon is in the page itself: data:
    assert {urlsplit(asked).netloc for asked in page.requests} - {""} == {urlsplit(root).netloc}


def shown(page: Page, element: str) -> Any:
    return page.evaluate(f"document.getElementById('{element}')?.textContent")
