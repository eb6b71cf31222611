"""The server of ops/compose: what its image runs once is all that the loader needs of it."""

from __future__ import annotations

import pytest

from testkit.commands import ROOT
from testkit.databases import application_database, paste
from testkit.servers import PLUGINS, Server

SCRIPT = ROOT / "ops" / "compose" / "allow-wal2json.sql"


@pytest.mark.slow
def test_a_server_with_the_defaults_then_takes_the_loader() -> None:
    with Server({"wal_level": "replica"}) as server:
        if server.settings.pop(PLUGINS, None):
            server.configure({})
            server.stop()
            server.start()
        database = application_database(server)
        assert database.loader("setup").returncode == 11
        paste(server, database.name, SCRIPT.read_text())
        database.connection.close()
        server.stop()
        server.start()
        database = database.reconnect()
        database.must("setup")
        database.insert(3)
        database.must("run", "--once")
        assert database.staged() == 3
        if listed := database.execute("select setting from pg_settings where name = %s", PLUGINS):
            assert "wal2json" in listed[0][0]
            assert "pgoutput" in listed[0][0], "other programs need it"
