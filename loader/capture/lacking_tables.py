"""What keeps tables that are new to the slot from being followed: their models wait, and say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from loader.findings.tables import leaves_fit, no_partition_is_declared, table_findings
from loader.source.asking_tables import ask_table
from loader.source.state import State
from waltally.database import Connection
from waltally.errors import LoaderError
from waltally.models import Model
from waltally.tables import Table

Lacking = Mapping[Table, LoaderError]
"""By table, what has to be mended first."""


def find_lacking(source: Connection, state: State) -> Lacking:
    """Return which of the tables that nothing is held of yet cannot be followed, and why."""
    lacking: dict[Table, LoaderError] = {}
    followed = {*state.registration.followed}
    for table in state.registration.tables:
        if table in followed:
            continue
        found = _findings(source, state, table, _over(state, {*followed, table}))
        if found:
            lacking[table] = found[0]
        else:
            followed.add(table)
    return lacking


def of_followed(state: State) -> State:
    """Return the state with the models alone whose tables the log holds already."""
    return replace(state, models=_over(state, {*state.registration.followed}))


def _over(state: State, tables: set[Table]) -> tuple[Model, ...]:
    return tuple(model for model in state.models if {p.table for p in model.tables} <= tables)


def _findings(
    source: Connection, state: State, table: Table, models: tuple[Model, ...]
) -> list[LoaderError]:
    needing = tuple(model for model in state.models if table in {p.table for p in model.tables})
    try:
        info = ask_table(source, table, needing)
    except LoaderError as error:  # somebody has locked it
        return [error]
    own = {root: leaves for root, leaves in state.roots.items() if root == table}
    return [
        *table_findings(info, needing),
        *no_partition_is_declared(replace(state, models=models)),
        *leaves_fit(replace(state, roots=own)),
    ]
