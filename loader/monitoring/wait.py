"""`loader wait`: until every model of a slot holds what was committed before a position."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing

from loader.findings.lists import COMPLETE, findings
from loader.findings.progress import rejections
from loader.source.read_state import read_state
from loader.source.state import State
from loader.staging.records import ModelStatus, builder
from waltally import lsn
from waltally.database import Target, connect, connect_target
from waltally.errors import NotReached, NotSetUp, SettingError, combine
from waltally.settings import Settings
from waltally.units import duration

_WAIT = "select {}.wait_for(%s, %s, %s * interval '1 second', %s)"

_ONE_CALL_SECONDS = 1.0
"""Between two calls Ctrl-C is noticed, and the target's vacuum is not held back."""


def wait(
    settings: Settings, position: int | None, timeout: float, names: Sequence[str] = ()
) -> None:
    """Return once every model, or each named one, holds what was committed before the position.

    Without a position: what is committed at the source now. Raises NotReached after `timeout`
    seconds, NotSetUp, MissingRight, CannotConnect, and what `loader status` finds where a model may
    lack what is committed: a position says nothing of another server, or of a table not followed.
    """
    deadline = time.monotonic() + timeout
    with closing(connect_target(settings)) as target:
        target.give_up_locks()
        state = _look(settings, target, names)
        _judge(state, names)
        position = state.slot.server.wal_end if position is None else position
        while True:
            left = max(0.0, deadline - time.monotonic())
            seconds = min(left, _ONE_CALL_SECONDS)
            values = (target.slot, lsn.show(position), seconds, [*names] or None)
            if target.ask_staging(_WAIT, values) == [(True,)]:
                # What was waited for may have been rejected.
                _judge(_look(settings, target, names), names)
                return
            if left == 0.0:
                models = _models(_look(settings, target, names), names)
                raise _not_reached(models, settings.slot, position, timeout)


def _look(settings: Settings, target: Target, names: Sequence[str]) -> State:
    with closing(connect(settings.source, "source")) as source:
        source.give_up_locks()
        return read_state(settings, source, target, names)


def _judge(state: State, names: Sequence[str]) -> None:
    """Raise why a model may lack what is before the end of the source's WAL."""
    models = _models(state, names)
    if problems := [*findings(COMPLETE, state), *rejections(models)]:
        raise combine(problems)


def _models(state: State, names: Sequence[str]) -> list[ModelStatus]:
    """Return the models, or the named ones. Raises NotSetUp, SettingError."""
    if not state.registered_models:
        raise NotSetUp(
            f"No model of the slot {state.slot.name} is registered in schema {state.schema} of "
            "the target",
            "run `loader setup`",
        )
    if unknown := set(names).difference(model.name for model in state.stored_models):
        raise SettingError(
            f"No model of the slot {state.slot.name} is named {', '.join(sorted(unknown))}",
            "`loader stats` lists the models",
        )
    if names:
        return [model for model in state.stored_models if model.name in names]
    return state.registered_models


def _not_reached(
    models: Sequence[ModelStatus], slot: str, position: int, timeout: float
) -> NotReached:
    """Return why: the models that do not follow, else the one that has the most to catch up."""
    # As cdc.wait_for: a new model has no rows yet.
    models = [model for model in models if model.applied_lsn is not None] or models
    if stopped := [model for model in models if model.state != "follows"]:
        return combine([NotReached(str(model), model.remedy or "") for model in stopped])
    last = min(models, key=lambda model: lsn.parse(model.applied_lsn or "0/0"))
    return NotReached(
        f"The slot {slot} did not reach {lsn.show(position)} within {duration(timeout)}: "
        f"{last.name} holds what was committed before {last.applied_lsn or '0/0'}",
        f"see that {builder(last.engine)} runs; `loader status` says how far it is",
    )
