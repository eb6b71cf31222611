"""Records what dbt executes for each model, from the events that dbt itself sends."""

from __future__ import annotations

import json
from typing import Any

from loader.build.plan import Statement, Statements

_FOUND = "waltally found "
"""The macro note_found logs this before the rows of a query that its model depends on."""


class Recorder:
    """A callback of dbtRunner. A model's statements end with the commit of its transaction."""

    def __init__(self) -> None:
        self._statements: dict[str, list[Statement]] = {}

    def __call__(self, event: Any) -> None:
        """Take one of dbt's events (dbt_common.events.base_types.EventMsg)."""
        model = getattr(getattr(event.data, "node_info", None), "unique_id", "")
        if not model:
            return
        statements = self._statements.setdefault(model, [])
        if event.info.name == "SQLQuery":
            statements.append(Statement(event.data.sql))
        elif event.info.name == "JinjaLogDebug" and event.data.msg.startswith(_FOUND):
            found = json.loads(event.data.msg.removeprefix(_FOUND))
            statements.append(Statement(statements.pop().sql, found))

    def of(self, model: str) -> Statements:
        """Return what was executed for a model."""
        return tuple(self._statements.get(model, ()))
