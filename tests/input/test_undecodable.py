"""A byte that is no character of the target: its change is kept and listed, the rest counts."""

from __future__ import annotations

import json
from threading import Event

import pytest

from demo.cluster import Cluster
from loader.build.builder import Models, export_target
from loader.capture.follow import follow
from loader.capture.run_state import RunState
from loader.preflight import setup
from tests.input.bench import SLOT, new_database
from tests.input.test_encodings import TARGET, create, options
from tests.support import Database
from waltally.settings import DEFAULT_SCHEMA, DEFAULT_TABLES, Settings


@pytest.mark.parametrize(("encoding", "byte"), [("WIN1252", b"\x81"), ("EUC_JP", b"\xfe\xfe")])
def test_the_rest_goes_on(
    cluster: Cluster, models: Models, monkeypatch: pytest.MonkeyPatch, encoding: str, byte: bytes
) -> None:
    create(cluster, encoding)
    # The models are parsed for the target's name, so the source has the other one.
    with Database(cluster, TARGET) as source, new_database(cluster, options("UTF8")) as target:
        source.load_notify()
        settings = Settings.of(
            cluster.dsn(TARGET), cluster.dsn(target.name), SLOT, DEFAULT_TABLES, DEFAULT_SCHEMA
        )
        setup.set_up(settings, timeout=30, renew=False)
        source.execute("set client_encoding to sql_ascii")
        source.insert(3)
        with source.connection.cursor() as cursor:
            cursor.execute(
                b'begin; insert into notifications ("to", service_id, template_id, '
                b"notification_type, notification_status) select '" + byte + b"', service_id, id, "
                b"'sms', 'sent' from templates limit 1;"
                b'insert into notifications ("to", service_id, template_id, notification_type, '
                b"notification_status) select 'x', service_id, id, 'sms', 'sent' "
                b"from templates limit 1; commit"
            )
        source.insert(4)
        run_state = RunState()
        follow(settings, Event(), run_state, once=True)
        source.insert(5)
        follow(settings, Event(), run_state, once=True)

        monkeypatch.setenv("LOADER_SLOT", SLOT)
        # What a person's own shell may have for psql; dbt reads the server's words as UTF-8.
        monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
        export_target(settings)
        models.apply()
        rejected = "select source_table, action, reason, payload from analytics.rejected_changes"
        ((table, action, reason, payload),) = target.execute(rejected)
        assert (table, action) == ("public.notifications", "I")
        assert reason == "the text of the row does not fit the target's encoding"
        kept = json.loads(payload)["undecodable"]
        assert kept["encoding"] == encoding
        assert byte in bytes.fromhex(kept["bytes"])
        assert target.value("select sum(live_count) from analytics.ft_service_stats") == 13
        assert source.value("select count(*) from notifications") == 14
