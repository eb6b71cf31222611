"""One call of cdc.apply, and what it says of each model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from waltally import failpoints, lsn
from waltally.database import Connection

Part = Literal["all", "front", "behind"]
"""The models that follow, at one position; those that are behind them, one at a call; or both."""


@dataclass(frozen=True)
class ModelState:
    """A model after a call: a row of cdc.fact_state, and whether another call has more to do."""

    name: str
    state: str
    """`follows`, `waits` or `failed`."""
    reason: str | None
    remedy: str | None
    applied_lsn: int | None
    is_behind: bool


def apply(connection: Connection, schema: str, slot: str, part: Part) -> list[ModelState]:
    """Apply what is staged, in one transaction: the call itself, which saves two messages.

    Raises LoaderError.

    Front tells of the models that follow alone.
    """
    call = "select model_name, state, reason, remedy, applied_lsn, is_behind from {}.apply(%s, %s)"
    rows = connection.ask(call, (slot, part), schema)
    failpoints.reach("applied")
    return [
        ModelState(name, state, reason, remedy, lsn.parse(at) if at else None, is_behind)
        for name, state, reason, remedy, at, is_behind in rows
    ]


def newest_rejections(connection: Connection, schema: str, slot: str) -> dict[str, int]:
    """Return, by model, the newest change that it could not count; nothing where it counted all."""
    rows = connection.ask(
        "select model_name, rejected_lsn from {}.model_watermark "
        "where slot_name = %s and rejected_lsn is not null",
        (slot,),
        schema,
    )
    return {model: lsn.parse(rejected) for model, rejected in rows}


def newest_age(
    connection: Connection, schema: str, slot: str, begin: int, end: int
) -> float | None:
    """Return how long ago, in seconds, the newest change between two positions was committed.

    None where there is none. Raises LoaderError.
    """
    rows = connection.ask(
        "select extract(epoch from clock_timestamp() - committed_at)::float8 from {}.change_log "
        "where slot_name = %s and commit_lsn >= %s and commit_lsn < %s "
        "order by slot_name desc, commit_lsn desc, ordinal desc limit 1",
        (slot, lsn.show(begin), lsn.show(end)),
        schema,
    )
    return max(0.0, rows[0][0]) if rows else None
