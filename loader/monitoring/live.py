"""Says once when all models of a slot follow, and what a reader may select."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from contextlib import closing

from loader.monitoring import text_lines
from waltally.database import Target, connect_target
from waltally.errors import LoaderError
from waltally.freshness import say
from waltally.limits import limits
from waltally.settings import Settings
from waltally.tables import Table

log = logging.getLogger("loader")

# A copy for development has its relation as its name.
_WAITING = """
select count(*) from {}.model_state
where slot_name = %s and state <> 'follows' and model_name <> relation
"""
_AGE = "select extract(epoch from clock_timestamp() - {}.exact_as_of(%s))::float"
_ROWS = "select count(*) from (select from {}.{} limit %s) as rows"
_MANY = 100_000


class Live:
    """A thread that looks until all models follow, then says so and ends."""

    def __init__(self, settings: Settings, tables: Sequence[Table]) -> None:
        """`tables`: what readers select from."""
        self._settings = settings
        self._tables = tables
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, name="live", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(limits.stop_apply)

    def _look(self) -> None:
        while not self._stop.wait(limits.look_behind):
            try:
                with closing(connect_target(self._settings)) as target:
                    ((waiting,),) = target.ask_staging(_WAITING, (target.slot,))
                    if not waiting:
                        text_lines.write(self._lines(target))
                        return
            except LoaderError as error:
                log.debug("whether all follow is not known: %s", error)

    def _lines(self, target: Target) -> list[str]:
        ((age,),) = target.ask_staging(_AGE, (target.slot,))
        lines = []
        for table in self._tables:
            ((rows,),) = target.ask(_ROWS, (_MANY + 1,), table.schema, table.name)
            counted = f"{rows:,} rows" if rows <= _MANY else f"more than {_MANY:,} rows"
            lines.append(f"live: {table}, {say(age)}, {counted}; select * from {table.quoted}")
        return lines
