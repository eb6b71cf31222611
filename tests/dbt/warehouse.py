"""The shipped model and two more of its tables, on a slot; dbt runs where a test calls it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any, TypeVar

from loader.staging import target_state
from loader.staging.records import ModelState
from loader.staging.target_state import Part
from testkit.commands import wait_until
from testkit.comparison import apart
from testkit.model import NOTIFY, counting
from testkit.notify_traffic import NO_PURGES, Traffic
from testkit.pipeline import Pipeline
from testkit.servers import connect, connect_target
from waltally.database import Connection

LIVE, ARCHIVE = "public.notifications", "public.notification_history"
MODEL, OTHER, THIRD = "ft_service_stats", "ft_key_types", "ft_services"
MODELS = {
    MODEL: NOTIFY,
    OTHER: counting(LIVE, "service_id", "key_type"),
    THIRD: counting(LIVE, "service_id"),
}
TABLE = f"analytics.{MODEL}"
POSITIONS = "select split_part(relation, '.', 2), applied_lsn::text from cdc.model_watermark"

Returned = TypeVar("Returned")


class Warehouse(Pipeline):
    """The models are registered, over tables that were empty then; a test installs them."""

    def register(self, *names: str) -> None:
        """Register these models, or all."""
        self.source.declare(**{name: MODELS[name] for name in names or MODELS})
        self.must("setup")
        self.target.take_baseline()
        self._seeds = itertools.count()

    def put(self, *names: str, is_refresh: bool = False, slot: str = "") -> None:
        """Install models, as dbt does for its slot."""
        with closing(connect_target(self.dsns[1], slot or self.slot)) as target:
            for name in names:
                MODELS[name].install(target, name, is_refresh)

    def change(self, transactions: int = 20) -> None:
        """Change rows at random."""
        seed = next(self._seeds)
        Traffic(self.dsns[0], sessions=1, seed=seed, weights=NO_PURGES).run(transactions)

    def write(self, transactions: int = 20) -> None:
        """Change rows at random, and stage it."""
        self.change(transactions)
        self.stage()

    def damage(self) -> None:
        """Stage an insert, and let the log have something else instead."""
        self.source.insert(1)
        self.stage()
        self.target.execute(
            'update cdc.change_log set action = null, payload = \'{"action":"Z"}\''
            " where commit_lsn = (select max(commit_lsn) from cdc.change_log)"
        )

    def applied(self, part: Part = "all") -> dict[str, ModelState]:
        """Call cdc.apply once, in a session of its own; return what became of the models."""
        # What waits for a lock that the test holds would wait for ever.
        dsn = f"{self.dsns[1]} options='-c lock_timeout=120s'"
        with closing(connect_target(dsn, self.slot)) as target:
            return {model.name: model for model in target_state.apply(target, part)}

    def must_be_exact(self) -> None:
        """Stage and apply; fail where a model differs from its query."""
        super().must_be_exact()
        for name, keys in (OTHER, "service_id, key_type"), (THIRD, "service_id"):
            stored = f"select {keys}, row_count from analytics.{name}"
            asked = f"select {keys}, count(*) from {LIVE} group by {keys}"
            assert self.target.execute(apart(stored, asked)) == [], name

    def ask_refresh(self, name: str) -> None:
        """Let this model start from its baseline at the next apply."""
        asked = "update cdc.installed_model set is_refresh_asked = true where model_name = %s"
        self.target.execute(asked, name)

    def try_again(self) -> None:
        """Let the pause of each model that failed be over."""
        over = "update cdc.installed_model set retry_at = now() where error is not null"
        self.target.execute(over)

    def prune(self) -> None:
        """Let the log begin where it ends now, as a prune leaves it."""
        self.target.execute(
            "update cdc.slot_position set start_lsn = position_lsn; delete from cdc.change_log"
        )

    # Others, who get into the way.

    @contextmanager
    def holding(self, statement: str) -> Iterator[Connection]:
        """Hold the locks that a statement takes, in a session of its own."""
        with closing(connect(self.dsns[1])) as holder:
            holder.autocommit = False
            holder.cursor().execute(statement)
            yield holder

    @contextmanager
    def waiting(
        self, lock: str, call: Callable[..., Returned], *given: Any
    ) -> Iterator[tuple[Connection, Future[Returned]]]:
        """Let a call wait in a thread for what a statement locks; after the block it goes on."""
        with ThreadPoolExecutor(1) as pool:
            with self.holding(lock) as holder:
                called = pool.submit(call, *given)
                self.wait_for_waiting(1, called)
                yield holder, called
            called.result()

    def stop(self, model: str) -> str:
        """Return a lock for which whoever writes to a model waits, longer than for other locks."""
        self.target.execute(
            "create or replace function stop() returns trigger language plpgsql set lock_timeout = "
            "0 as 'begin perform pg_advisory_xact_lock(1); return null; end'; create trigger stop "
            f"before insert or delete on analytics.{model} execute function stop()"
        )
        return "select pg_advisory_lock(1)"

    def be_patient(self, name: str) -> None:
        """Let a model wait for locks as long as this test likes."""
        routine = "select routine from cdc.installed_model where model_name = %s"
        self.target.execute(
            f"alter routine {self.target.value(routine, name)} set lock_timeout = '1h'"
        )

    @contextmanager
    def late(self, name: str) -> Iterator[None]:
        """Hold a model back while the others are applied."""
        hold = "update cdc.installed_model set error = %s, retry_at = %s where model_name = %s"
        self.target.execute(hold, "held", "infinity", name)
        yield
        self.target.execute(hold, None, None, name)

    def wait_for_waiting(self, sessions: int, *calls: Future[Any]) -> None:
        """Return once so many sessions wait for a lock; fail where a call is over."""
        waiting = (
            "select count(*) >= %s from pg_stat_activity "
            "where wait_event_type = 'Lock' and datname = current_database()"
        )

        def are_there() -> bool:
            assert not any(call.done() for call in calls), "it ended without waiting"
            return bool(self.target.value(waiting, sessions))

        wait_until(are_there, f"{sessions} sessions wait for a lock", pause=0.02)
