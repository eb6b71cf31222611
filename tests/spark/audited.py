"""An audited pipeline: a source that is its own target, its loader, its builds and its audits."""

from __future__ import annotations

import re
import shlex
from typing import Any

from waltally_jobs.common.command import Settings

from testkit.pipeline import Pipeline
from tests.spark.support import MOVE, run_command

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

    def traces(self) -> list[tuple[Any, ...]]:
        """What an audit might leave."""
        slots = "select slot_name, temporary from pg_replication_slots order by 1"
        return [
            *self.models(),
            *self.source.execute(slots),
            *self.source.execute("select relname from pg_class order by relname"),
        ]
