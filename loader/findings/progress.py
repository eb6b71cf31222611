"""Whether slot, loader and models get on. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loader.findings.slot import why_not_followable
from loader.source.remedies import RELOAD
from loader.source.slot import SlotState
from loader.source.state import State
from loader.staging.records import ModelStatus, builder, say_states
from waltally.errors import LoaderError, Unhealthy
from waltally.units import duration, plural, size

_MORE_TIME = "start `loader run --build`, or end the oldest transaction of the source"


def models_go_on(state: State) -> Iterator[LoaderError]:
    """No model may wait for a person, and no change may be rejected."""
    for which, clause, remedy in say_states(
        model for model in state.stored_models if model.is_finding
    ):
        yield Unhealthy(f"{which} {clause}", remedy)
    yield from rejections(state.stored_models)


def rejections(models: Sequence[ModelStatus]) -> Iterator[LoaderError]:
    """Yield a finding for each model that lacks changes which it could not count."""
    for model in models:
        if model.rejected_lsn is not None and model.is_registered:
            count, reasons = model.rejected_count, model.rejected_reasons or {}
            changes = "some changes" if count is None else plural(count, "change")
            why = "; ".join(f"{reason} ({n:,})" for reason, n in reasons.items())
            yield Unhealthy(
                f"The model {model.name} could not count {changes}, the newest at "
                f"{model.rejected_lsn}" + (f": {why}" if why else ""),
                model.rejected_remedy or "",
            )


def loader_stores(state: State) -> Iterator[LoaderError]:
    """The position of record has to move while the source goes on."""
    slot, seconds = state.slot.state, state.lag_seconds
    # Where the slot cannot be followed, another finding says so: no loader can run.
    if seconds <= state.thresholds.lag_seconds or why_not_followable(state.slot) is not None:
        return
    if slot is not None and slot.active_pid:
        yield Unhealthy(
            f"The loader has stored nothing for {duration(seconds)}, while the source went on",
            "see what `loader run` logs",
        )
    else:
        yield Unhealthy(
            f"The loader does not run: nothing was stored for {duration(seconds)}, while the "
            "source went on",
            "start `loader run --build`",
        )


def models_are_applied(state: State) -> Iterator[LoaderError]:
    """Staged changes have to be applied."""
    for model in state.registered_models:
        # Another rule reports one that waits or has failed, with the reason.
        is_reported = model.state != "follows" and model.is_finding
        if model.lag_seconds > state.thresholds.lag_seconds and not is_reported:
            yield Unhealthy(
                f"The builds have stopped: the model {model.name} was not built for "
                f"{duration(model.lag_seconds)}, and more is staged{held(model)}",
                apply_remedy(model, ", and what it logs"),
            )


def _slot(state: State) -> SlotState | None:
    """Return the slot, None where it is not there or not set up."""
    return None if state.stored is None else state.slot.state


def wal_is_freed(state: State) -> Iterator[LoaderError]:
    """The slot must not fill the source's disk."""
    if _slot(state) is not None and (held := state.wal_held) > state.thresholds.wal_held_bytes:
        yield Unhealthy(f"The slot holds {size(held)} of WAL on the source's disk", _MORE_TIME)


def slot_is_not_idle(state: State) -> Iterator[LoaderError]:
    """Somebody has to follow the slot before the source gives it up."""
    slot = _slot(state)
    if slot is None or slot.wal_status == "lost":
        return
    idle, timeout = slot.inactive_seconds, slot.idle_timeout_seconds
    if idle and timeout and idle > timeout / 2:
        yield Unhealthy(
            f"Nobody has followed the slot for {duration(idle)}, and after "
            f"{duration(timeout)} the source gives it up (idle_replication_slot_timeout)",
            "start the loader; to gain time: alter system set idle_replication_slot_timeout = "
            f"0; {RELOAD}",
        )


def wal_is_left(state: State) -> Iterator[LoaderError]:
    """The slot must not be near the WAL limit at which it is lost."""
    slot = _slot(state)
    left = None if slot is None else slot.safe_wal_size
    if left is not None and left < min(state.thresholds.min_safe_wal_bytes, state.wal_held):
        yield Unhealthy(
            f"The slot is lost after {size(max(0, left))} more of the source's WAL "
            "(max_slot_wal_keep_size)",
            f"{_MORE_TIME}; raising max_slot_wal_keep_size there gains time",
        )


def held(model: ModelStatus) -> str:
    """Return the end of a sentence where a session keeps others from applying the model."""
    return (
        "" if model.held_by is None else f", while the {model.held_by} holds the lock of the builds"
    )


def apply_remedy(model: ModelStatus, more: str = "") -> str:
    """Return what brings the model to what is staged; `more` is what to look at beside."""
    if model.held_by is not None:
        return model.held_by.remedy("target")
    return f"see that {builder(model.engine)} runs{more}"
