"""Histories put into the change log batch by batch, and what the models make of them."""

from __future__ import annotations

import copy
from typing import Any, cast

from dbt.cli.main import dbtRunner
from dbt.contracts.graph.manifest import Manifest
from psycopg2.extras import execute_values

from tests.input.bench import SLOT, Bench
from tests.oracle import Outcome, Transaction
from tests.properties.histories import payload
from waltally import lsn

START = 0x10_0000
STEP = 0x30
_QUIET = ("--quiet", "--log-level", "none", "--log-level-file", "none", "--no-write-json")


class Warehouse:
    """A change log without a source."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.position = START
        self.manifest: Manifest | None = None
        self.bench.execute(
            "create table cdc.change_log_first partition of cdc.change_log "
            "for values from ('0/0') to ('1/0')"
        )
        self.bench.build()

    def empty(self) -> None:
        """Forget every change and every count."""
        self.position = START
        self.bench.execute(
            "truncate cdc.change_log, cdc.model_watermark, analytics.ft_service_stats, "
            "analytics.rejected_changes; "
            "update cdc.slot_position set (start_lsn, position_lsn) = (%s::pg_lsn, %s::pg_lsn)",
            lsn.show(START),
            lsn.show(START),
        )

    def append(self, history: list[Transaction]) -> None:
        """Stage one batch of whole transactions."""
        rows = []
        for transaction in history:
            for ordinal, change in enumerate(transaction, 1):
                rows.append((SLOT, lsn.show(self.position), ordinal, payload(change)))
            self.position += STEP
        with self.bench.database.connection.cursor() as cursor:
            execute_values(
                cursor,
                "insert into cdc.change_log (slot_name, commit_lsn, ordinal, xid, committed_at, "
                "payload) values %s",
                rows,
                "(%s, %s, %s, 1, now(), %s)",
            )
        self.bench.execute(
            "update cdc.slot_position set position_lsn = %s", lsn.show(self.position)
        )

    def refresh(self) -> None:
        """dbt run --full-refresh."""
        if self.manifest is None:
            self.manifest = cast(Manifest, dbtRunner().invoke(["parse", *_QUIET]).result)
            self.nodes = copy.deepcopy(self.manifest.nodes)
        # As in build.Models: a run leaves its code in the nodes.
        self.manifest.nodes = copy.deepcopy(self.nodes)
        done = dbtRunner(self.manifest).invoke(
            ["run", "--full-refresh", "--select", "config.materialized:incremental", *_QUIET]
        )
        assert done.success, [str(each.message) for each in getattr(done.result, "results", ())]

    def outcome(self) -> Outcome:
        """What the models made of it."""
        live, archived = self.bench.fact()
        rejected = self.bench.execute(
            "select ((commit_lsn - %s::pg_lsn) / %s)::int, ordinal::int "
            "from analytics.rejected_changes order by 1, 2",
            lsn.show(START),
            STEP,
        )
        return Outcome(live, archived, rejected)

    def contents(self) -> list[tuple[Any, ...]]:
        """Every row that is not all zero, with its id."""
        return self.bench.execute(
            "select * from analytics.ft_service_stats "
            "where live_count <> 0 or archived_count <> 0 order by id"
        )
