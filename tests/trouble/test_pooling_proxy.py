"""A transaction-pooling proxy, which drops the settings of a login, is refused."""

from __future__ import annotations

from contextlib import closing

import pytest

from loader.staging.change_log import ChangeLog
from testkit.commands import sentence
from testkit.databases import Database
from testkit.pipeline import Pipeline
from testkit.proxy import Pooler
from waltally.errors import LoginRefused
from waltally.settings import SlotSettings


@pytest.mark.parametrize("place", ["source", "target"])
def test_a_proxy_is_refused_whatever_the_role_s_own_settings_are(
    pipeline: Pipeline, place: str
) -> None:
    """Its sessions have what a role or a database sets."""
    pipeline.source.execute(
        f"alter database {pipeline.source.name} set row_security = off;"
        f"alter database {pipeline.source.name} set search_path = pg_catalog, pg_temp"
    )
    pipeline.must("setup")
    with Pooler(pipeline.source.cluster.port) as pooler:
        dsn = f"host=127.0.0.1 port={pooler.port} dbname={pipeline.source.name} user=postgres"
        through = dict.fromkeys(("LOADER_SOURCE_DSN", "LOADER_TARGET_DSN"), pipeline.dsns[0])
        through[f"LOADER_{place.upper()}_DSN"] = dsn
        for words in (("setup", "--check"), ("setup",), ("run", "--once"), ("status",), ("wait",)):
            done = pipeline.loader(*words, **through)
            assert done.returncode == 45, (words, done.stderr)
            said = sentence(done.stderr)
            assert f"The {place} is reached through a pooling proxy: " in said
            assert "name the server itself" in said
        with pytest.raises(LoginRefused, match="pooling proxy"):
            pipeline.spark_job("spark-submit spark/seed.py", **through)


def test_nothing_is_confirmed_by_a_session_that_lost_its_settings(source: Database) -> None:
    """Where a proxy lends another session from some moment on."""
    source.must("setup")
    source.insert(1)
    settings = SlotSettings(source.cluster.dsn(source.name), source.slot, "cdc")
    with closing(ChangeLog(settings)) as log:
        position = log.record().position_lsn
        log.connection.ask("set synchronous_commit to off")
        with pytest.raises(LoginRefused, match="pooling proxy"):
            log.commit_position(position, position + 1, 0)
        assert log.record().position_lsn == position
