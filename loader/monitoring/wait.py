"""`loader wait`: until every model of a slot holds what was committed before a position."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing

from loader.findings.lists import COMPLETE, findings
from loader.findings.progress import rejections
from loader.source.read_state import read_state
from loader.staging.records import STATE_COLUMNS, ModelState, builder
from waltally import lsn
from waltally.database import Target, connect, connect_target
from waltally.errors import NotReached, NotSetUp, SettingError, combine
from waltally.settings import Settings
from waltally.units import duration

_STATES = f"""
select {STATE_COLUMNS} from {{}}.model_state
where
    slot_name = %s
    -- A copy in another schema is named by its relation, and not one of all.
    and case when %s::text[] is null then model_name <> relation else model_name = any (%s) end
order by model_state.applied_lsn, model_name
"""
_WAIT = "select {}.wait_for(%s, %s, %s * interval '1 second', %s)"

_ONE_CALL_SECONDS = 1.0
"""Between two calls Ctrl-C is noticed, and the target's vacuum is not held back."""


def wait(
    settings: Settings, position: int | None, timeout: float, models: Sequence[str] = ()
) -> None:
    """Return once every model, or each named one, holds what was committed before the position.

    Without a position: what is committed at the source now. Raises NotReached after `timeout`
    seconds, NotSetUp, MissingRight, CannotConnect, and what `loader status` finds where a model may
    lack what is committed: a position says nothing of another server, or of a table not followed.
    """
    deadline = time.monotonic() + timeout
    named = list(models) or None
    with closing(connect_target(settings)) as target:
        target.give_up_locks()
        _states(target, named)
        end = _judge(settings, target, models)
        position = end if position is None else position
        while True:
            left = max(0.0, deadline - time.monotonic())
            values = (target.slot, lsn.show(position), min(left, _ONE_CALL_SECONDS), named)
            if target.ask_staging(_WAIT, values) == [(True,)]:
                # What was waited for may have been rejected.
                _judge(settings, target, models)
                return
            if left == 0.0:
                raise _not_reached(_states(target, named), settings.slot, position, timeout)


def _judge(settings: Settings, target: Target, names: Sequence[str]) -> int:
    """Return where the source's WAL ends. Raises why a model may lack what is before it."""
    with closing(connect(settings.source, "source")) as source:
        source.give_up_locks()
        state = read_state(settings, source, target, names)
    models = [model for model in state.stored_models if not names or model.name in names]
    if problems := [*findings(COMPLETE, state), *rejections(models)]:
        raise combine(problems)
    return state.slot.server.wal_end


def _states(target: Target, named: Sequence[str] | None) -> list[ModelState]:
    """Return the models of the slot, the one that is furthest behind first. Raises NotSetUp."""
    try:
        rows = target.ask_staging(_STATES, (target.slot, named, named))
    except NotSetUp:
        rows = []
    states = [ModelState.of(row) for row in rows]
    if unknown := set(named or ()).difference(model.name for model in states):
        # Where none is registered, that is what is said.
        _states(target, None)
        raise SettingError(
            f"No model of the slot {target.slot} is named {', '.join(sorted(unknown))}",
            "`loader stats` lists the models",
        )
    if not states:
        raise NotSetUp(
            f"No model of the slot {target.slot} is registered in schema {target.schema} of "
            "the target",
            "run `loader setup`",
        )
    # As cdc.wait_for: a new model has no rows yet.
    return [model for model in states if named or model.applied_lsn is not None] or states


def _not_reached(states: list[ModelState], slot: str, position: int, timeout: float) -> NotReached:
    stopped = [
        NotReached(str(model), model.remedy or "") for model in states if model.state != "follows"
    ]
    if stopped:
        return combine(stopped)
    last = states[0]
    return NotReached(
        f"The slot {slot} did not reach {lsn.show(position)} within {duration(timeout)}: "
        f"{last.name} holds what was committed before {lsn.show(last.applied_lsn or 0)}",
        f"see that {builder(last.engine)} runs; `loader status` says how far it is",
    )
