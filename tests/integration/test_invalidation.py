"""A slot that the server gave up says why: in the error, in status, and with its own remedy."""

from __future__ import annotations

import json
import re

from testkit.commands import wait_until
from testkit.databases import paste
from testkit.fixtures import MakePipeline
from testkit.servers import Cluster, administer
from testkit.standbys import from_18

TIMEOUT = "idle_replication_slot_timeout"


@from_18
def test_a_slot_that_nobody_followed_for_too_long(
    make_pipeline: MakePipeline, spare: Cluster
) -> None:
    pipeline = make_pipeline(spare)
    pipeline.begin()
    reload = "select pg_reload_conf()"
    administer(spare, f"alter system set {TIMEOUT} = '1h'", reload)
    said = pipeline.must("setup")
    assert f"nobody has followed it for 1h ({TIMEOUT})" in said
    assert pipeline.loader("status").returncode == 0
    administer(spare, f"alter system set {TIMEOUT} = '5s'", reload)
    wait_until(lambda: pipeline.loader("status").returncode == 3, "status warns of it")
    assert f"the source gives it up ({TIMEOUT})" in pipeline.loader("status").stdout

    def is_lost() -> bool:
        administer(spare, "checkpoint")
        lost = "select count(*) from pg_replication_slots where wal_status = 'lost'"
        return bool(pipeline.source.value(lost))

    wait_until(is_lost, "the slot is lost")
    code, said = pipeline.refused("run")
    assert (code, "(idle_timeout)" in said) == (21, True), said
    shown = json.loads(pipeline.loader("status", "--json").stdout)
    assert shown["slot"]["invalidation_reason"] == "idle_timeout"
    assert shown["slot"]["idle_timeout_seconds"] == 5
    remedy = re.search(r"Try: (alter system .*) -- on the source", said)
    assert remedy
    paste(spare, "postgres", remedy[1])
    pipeline.recovers_from(said)
    assert TIMEOUT not in pipeline.must("setup")
