"""An audited pipeline: a source that is its own target, its loader, its builds and its audits."""

from __future__ import annotations

import re
import shlex
from contextlib import closing
from random import Random
from typing import Any

import psycopg2
from waltally_jobs.common.command import Settings

from testkit.notify_changes import Session, templates_of
from testkit.notify_traffic import mix
from testkit.pipeline import Pipeline
from tests.spark.support import MOVE, run_command
from waltally import lsn

ARCHIVE = MOVE.format(
    "id in (select id from notifications where notification_status = 'created'"
    " and num_nulls(service_id, template_id) = 0 limit 4)"
)
SESSIONS = "select pid from pg_stat_activity where application_name = 'waltally audit'"
DIMENSIONS = "service_id, template_id, notification_type, notification_status"
SLOTS = "select slot_name from pg_replication_slots where slot_name ~ '^waltally_audit_'"


class Audited(Pipeline):
    """A source that is its own target, and the audits of it."""

    @property
    def dsn(self) -> str:
        return self.source.cluster.dsn(self.source.name)

    def settings(self, *models: str, timeout: float = 120.0) -> Settings:
        return Settings(self.dsn, self.slot, "cdc", self.dsn, models, timeout=timeout, work="audit")

    def run(self, *flags: str, job: str = "audit") -> tuple[int, str, str]:
        """Run the job's command in this process; return exit code, output and errors."""
        return run_command(job, flags, self.environment())

    def purge(self, rows: int) -> None:
        """Delete archived rows that belong to a group."""
        self.source.execute(
            "delete from notification_history where id in (select id from notification_history"
            f" where num_nulls({DIMENSIONS}) = 0 order by id limit %s)",
            rows,
        )

    def put_off(self, rows: int) -> tuple[str, ...]:
        """Change one archived_count by hand; return its group."""
        [group] = self.source.execute(
            "update analytics.ft_service_stats set archived_count = archived_count + %s,"
            " count = count + %s where id ="
            " (select id from analytics.ft_service_stats where archived_count > 0"
            " order by archived_count < 5, id limit 1) returning service_id::text,"
            " template_id::text, notification_type, notification_status",
            rows,
            rows,
        )
        return group

    def models(self) -> list[tuple[Any, ...]]:
        return self.source.execute(
            f"select {DIMENSIONS}, live_count, archived_count, count"
            " from analytics.ft_service_stats where live_count <> 0 or archived_count <> 0"
            " order by 1, 2, 3, 4"
        )

    def remedies(self, said: str) -> list[list[str]]:
        """The commands that an error names, in their order."""
        return [
            shlex.split(command) for command in re.findall(r"`([^`]+)`", said.split("Try: ")[1])
        ]

    def archived(self) -> int:
        return int(self.source.value("select sum(archived_count) from analytics.ft_service_stats"))

    def write(self, seed: int) -> None:
        """Each kind of change in a transaction of its own, before and after TRUNCATEs."""
        kinds = list(mix())
        truncates = [kind for kind in mix(truncates=True) if kind not in kinds]
        with closing(psycopg2.connect(self.dsn)) as connection, connection.cursor() as cursor:
            session = Session(cursor, Random(seed), templates_of(self.dsn), "full")
            for kind in [*kinds, *truncates, *kinds, *kinds]:
                kind(session)
                connection.commit()
        self.source.insert(9, "created")
        self.source.execute(ARCHIVE)

    def traces(self) -> list[tuple[Any, ...]]:
        """Everything that an audit might leave or change."""
        tables = self.source.execute(
            "select format('%I.%I', nspname, relname) from pg_class"
            " inner join pg_namespace on pg_namespace.oid = relnamespace"
            " where nspname in ('cdc', 'analytics', 'public') and relkind in ('r', 'p') order by 1"
        )
        # A loader that follows moves its position by itself, and an audit its models'.
        rows = {
            "cdc.slot_position": "(t.slot_name, t.start_lsn)::text",
            "cdc.model_watermark": "(t.slot_name, t.model_name)::text",
        }
        contents = " union all ".join(
            f"select '{name}', count(*), sum(hashtext({rows.get(name, 't::text')})::bigint)::text"
            f" from {name} as t"
            for (name,) in tables
        )
        return [
            *self.source.execute(f"{contents} order by 1"),
            *self.source.execute(
                "select slot_name, temporary from pg_replication_slots order by 1"
            ),
            *self.source.execute("select relname from pg_class order by relname"),
        ]


def positions(pipeline: Pipeline) -> set[int]:
    """Where the transactions in the change log commit."""
    return {
        lsn.parse(position)
        for (position,) in pipeline.source.execute(
            "select distinct commit_lsn::text from cdc.change_log"
        )
    }
