"""On a cluster a password shows on no page, in no file, command line, log or message."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urljoin, urlsplit
from urllib.request import ProxyHandler, build_opener

import pytest
from waltally_jobs.common import submitted

from testkit.commands import wait_until
from testkit.hostile import SECRET
from testkit.servers import free_port
from testkit.spark_cluster import SparkCluster
from tests.operations.secret_watch import SecretWatch, files_with
from tests.spark.support import Source
from waltally.errors import SettingError

APPLICATION = (
    *("", "/environment", "/jobs", "/stages?details=true", "/executors", "/storage/rdd"),
    "/sql?details=true&planDescription=true",
)
"""What the UI's API has of an application."""


@contextmanager
def wants_a_password(source: Source, passwords: Path) -> Iterator[None]:
    """Let the role `keeper` in only with the password, which is in the file."""
    passwords.write_text(f"127.0.0.1:{source.cluster.port}:*:keeper:{SECRET}\n")
    passwords.chmod(0o600)
    hba = source.cluster.data / "pg_hba.conf"
    before = hba.read_text()
    source.execute(f"create role keeper login superuser password '{SECRET}'")
    hba.write_text("host all keeper 127.0.0.1/32 scram-sha-256\n" + before)
    source.execute("select pg_reload_conf()")
    try:
        yield
    finally:
        hba.write_text(before)
        source.execute("select pg_reload_conf()")


class Pages:
    """What the web UIs of a cluster and of a job show."""

    def __init__(self, *roots: str) -> None:
        self._open = build_opener(ProxyHandler({})).open
        self._hosts = {urlsplit(root).netloc for root in roots}
        self.texts: dict[str, str] = {}
        """By address."""
        waiting = list(roots)
        while waiting and len(self.texts) < 300:
            page = waiting.pop(0)
            if page not in self.texts and urlsplit(page).netloc in self._hosts:
                text = self.read(page)
                # Scripts have pieces of links.
                links = re.findall(r"""href=["']([^"'#\s]+)""", text) if "<html" in text else []
                waiting += [urljoin(page, link.replace("&amp;", "&")) for link in links]

    def read(self, page: str) -> str:
        """Read a page, and keep it."""
        try:
            with self._open(page, timeout=30) as answer:
                said = answer.read()
        except HTTPError as refused:
            said = refused.read()
        self.texts[page] = said.decode(errors="replace")
        return self.texts[page]


@pytest.mark.slow
def test_a_password_shows_nowhere_on_a_cluster(
    source: Source, workers: SparkCluster, tmp_path: Path
) -> None:
    source.fill_many()
    events = workers.home / "events"
    events.mkdir()
    ui = f"http://127.0.0.1:{free_port()}"
    conf = {
        "spark.ui.enabled": "true",
        "spark.ui.port": ui.rpartition(":")[2],
        "spark.ui.killEnabled": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
        "spark.local.dir": str(workers.home),
        "spark.executor.memory": "512m",
        # As with a table of hundreds of gigabytes: what tasks need is sent by way of files.
        "spark.broadcast.UDFCompressionThreshold": "1",
    }
    passwords = tmp_path / "passwords"
    login = {"PGUSER": "keeper", "PGPASSFILE": str(passwords), "SPARK_LOCAL_IP": "127.0.0.1"}
    with wants_a_password(source, passwords), SecretWatch(SECRET, source.dsn, workers.home) as seen:
        # The executors have neither the variables nor the password file.
        with source.seed_that_waits_to_write(
            master=workers.url, conf=conf, environment=login
        ) as seed:
            pages = Pages(ui, workers.ui, *(worker.ui for worker in workers.workers))
            api = f"{ui}/api/v1/applications"
            [application] = json.loads(pages.read(api))
            for name in APPLICATION:
                pages.read(f"{api}/{application['id']}{name}")
            pages.read(f"{ui}/executors/threadDump/?executorId=driver")
        out, err = seed.communicate(timeout=120)
    assert seed.returncode == 0, err
    assert source.baseline() == source.recount()

    assert seen.found == set()
    assert SECRET not in out + err
    assert [page for page, text in pages.texts.items() if SECRET in text] == []
    found = " ".join(pages.texts)
    for page in ("/environment/", "/SQL/execution/", "/stages/stage/", "/logPage"):
        assert page in found, (page, sorted(pages.texts))
    assert "spark.executor.memory" in pages.texts[f"{api}/{application['id']}/environment"]
    assert any(file.stat().st_size for file in workers.home.rglob("app-*/*/stderr"))
    wait_until(lambda: "SparkListenerApplicationEnd" in read_all(events))
    assert files_with(workers.home, SECRET) == set()


def read_all(folder: Path) -> str:
    return "".join(file.read_text() for file in folder.rglob("*") if file.is_file())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.executorEnv.PGPASSWORD", SECRET),
        ("spark.yarn.appMasterEnv.PGPASSWORD", SECRET),
        ("spark.kubernetes.driverEnv.LOADER_SOURCE_DSN", f"postgresql://keeper:{SECRET}@db/notify"),
        ("spark.executorEnv.LOADER_TARGET_DSN", f"host=db password={SECRET}"),
    ],
)
def test_a_password_in_a_property_is_refused(name: str, value: str) -> None:
    with pytest.raises(SettingError) as refused:
        submitted.refuse_passwords([("spark.app.name", "x"), (name, value)])
    assert name in refused.value.sentence
    assert SECRET not in refused.value.sentence


def test_properties_without_a_password_are_taken() -> None:
    submitted.refuse_passwords(
        [
            ("spark.executorEnv.PGPASSFILE", "/etc/waltally/passwords"),
            ("spark.yarn.appMasterEnv.LOADER_SOURCE_DSN", "host=db user=waltally_spark"),
            ("spark.kubernetes.driver.secretKeyRef.PGPASSWORD", "waltally:password"),
        ]
    )
