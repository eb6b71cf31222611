"""What `loader status` finds wrong, one rule a function, and what it says first. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from loader.monitoring.wal_clock import IDLE_WAL_BYTES
from loader.source import findings as source_rules
from loader.source.remedies import RELOAD
from loader.source.standbys import findings as standby_rules
from loader.source.state import State
from loader.staging.records import ModelStatus, builder, say_states
from waltally.errors import LoaderError, NotSetUp, Unhealthy
from waltally.freshness import MAX_LAG_SECONDS, RECENT_SECONDS
from waltally.units import duration, plural, size

_MORE_TIME = "start `loader run --build`, or end the oldest transaction of the source"


@dataclass(frozen=True)
class Thresholds:
    """What counts as unhealthy: here and in ops/prometheus-alerts.yml."""

    lag_seconds: float = MAX_LAG_SECONDS
    wal_held_bytes: int = 8 * 2**30
    min_safe_wal_bytes: int = 2**30
    """Counts only where the slot also holds more than is left: the server's limit may be lower."""


def lag_bytes(state: State) -> int:
    """Return how much WAL of the source is after the position of record."""
    record = state.slot.record
    return 0 if record is None else max(0, state.slot.server.wal_end - record.position_lsn)


def lag_seconds(state: State) -> float:
    """Return for how long the position has stood still although there is more."""
    is_behind = state.stored is not None and lag_bytes(state) > IDLE_WAL_BYTES
    return state.stored.moved_age if state.stored is not None and is_behind else 0.0


def wal_held(state: State) -> int:
    """Return how much WAL the source keeps for the slot."""
    slot = state.slot.state
    return 0 if slot is None else slot.wal_held(state.slot.server.wal_end) or 0


def models_of(state: State) -> Sequence[ModelStatus]:
    """Return what is known of the models; nothing before setup."""
    return () if state.stored is None else state.stored.models


def _registered(state: State) -> list[ModelStatus]:
    """Return those that are no copies in another schema, whose trouble is not theirs."""
    return [model for model in models_of(state) if model.is_registered]


Rule = Callable[[State, Thresholds], Iterable[LoaderError]]


def models_go_on(state: State, _: Thresholds) -> Iterator[LoaderError]:
    """No model may wait for a person, and no change may be rejected."""
    yield from of_models(models_of(state))


def of_models(models: Sequence[ModelStatus]) -> Iterator[LoaderError]:
    """Yield a finding for each model that only a person can help, then for changes not counted."""
    for which, clause, remedy in say_states(model for model in models if model.is_finding):
        yield Unhealthy(f"{which} {clause}", remedy)
    yield from rejections(models)


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


def loader_stores(state: State, limits: Thresholds) -> Iterator[LoaderError]:
    """The position of record has to move while the source goes on."""
    slot, seconds = state.slot.state, lag_seconds(state)
    # Where the slot cannot be followed, another finding says so: no loader can run.
    if seconds <= limits.lag_seconds or any(source_rules.slot_goes_on(state)):
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


def models_are_applied(state: State, limits: Thresholds) -> Iterator[LoaderError]:
    """Staged changes have to be applied."""
    for model in _registered(state):
        # Another rule reports one that waits or has failed, with the reason.
        is_reported = model.state != "follows" and model.is_finding
        if model.lag_seconds > limits.lag_seconds and not is_reported:
            yield Unhealthy(
                f"The builds have stopped: the model {model.name} was not built for "
                f"{duration(model.lag_seconds)}, and more is staged{_held(model)}",
                _apply_remedy(model, ", and what it logs"),
            )


def wal_is_freed(state: State, limits: Thresholds) -> Iterator[LoaderError]:
    """The slot must not fill the source's disk."""
    if (held := wal_held(state)) > limits.wal_held_bytes:
        yield Unhealthy(f"The slot holds {size(held)} of WAL on the source's disk", _MORE_TIME)


def slot_is_not_idle(state: State, _: Thresholds) -> Iterator[LoaderError]:
    """Somebody has to follow the slot before the source gives it up."""
    slot = state.slot.state
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


def wal_is_left(state: State, limits: Thresholds) -> Iterator[LoaderError]:
    """The slot must not be near the WAL limit at which it is lost."""
    left = None if state.slot.state is None else state.slot.state.safe_wal_size
    if left is not None and left < min(limits.min_safe_wal_bytes, wal_held(state)):
        yield Unhealthy(
            f"The slot is lost after {size(max(0, left))} more of the source's WAL "
            "(max_slot_wal_keep_size)",
            f"{_MORE_TIME}; raising max_slot_wal_keep_size there gains time",
        )


def _of_source(rule: source_rules.Rule) -> Rule:
    return lambda state, _: rule(state)


COUNTED: tuple[source_rules.Rule, ...] = (
    source_rules.tables_fit,
    source_rules.no_partition_is_declared,
    source_rules.leaves_fit,
    source_rules.tables_are_those_counted,
)
"""What the models count has to be what the application writes."""
ALWAYS: tuple[Rule, ...] = (
    *map(_of_source, COUNTED),
    _of_source(standby_rules.commits_do_not_wait),
    _of_source(standby_rules.standbys_stream),
)
RULES: tuple[Rule, ...] = (
    _of_source(source_rules.slot_goes_on),
    *ALWAYS,
    models_go_on,
    loader_stores,
    models_are_applied,
    wal_is_freed,
    slot_is_not_idle,
    wal_is_left,
)
"""The rules of `loader status`, the most fundamental first."""


def findings(state: State, limits: Thresholds) -> list[LoaderError]:
    """Return everything that is wrong."""
    rules = ALWAYS if state.stored is None else RULES
    problems = [finding for rule in rules for finding in rule(state, limits)]
    if state.stored is None:
        problems.append(
            NotSetUp(
                f"The slot {state.slot.name} is not set up in schema {state.schema} of the target",
                "run `loader setup`",
            )
        )
    return problems


def lacking(state: State, names: Sequence[str]) -> list[LoaderError]:
    """Return why a model may lack what is committed, however far it is; without names, any model.

    How far the models are is not among it, nor what a model waits for.
    """
    of_source = [found for rule in (source_rules.slot_goes_on, *COUNTED) for found in rule(state)]
    models = [model for model in models_of(state) if not names or model.name in names]
    return [*of_source, *rejections(models)]


_UNREAD_BYTES = 10**6
"""An idle loader leaves less WAL than this unread."""


@dataclass(frozen=True)
class Summary:
    """How the pipeline is."""

    sentence: str
    remedy: str = ""
    """Empty where nothing has to be done."""


def summarize(state: State, problems: Sequence[LoaderError]) -> Summary:
    """Return what a report says first (docs/monitoring.md)."""
    models = _registered(state)
    if problems:
        more = "" if len(problems) == 1 else f" ({len(problems)} findings)"
        return Summary(f"not healthy{more}: {problems[0]}", problems[0].remedy)
    # A state without findings has a slot and a record, or it would say that nothing is set up.
    if state.slot.state is None or not state.slot.state.active_pid:
        return Summary(f"no loader is running: {_exact(state)}", "start `loader run --build`")
    if waiting := [model for model in models if model.reason]:
        clauses = [clause for _, clause, _ in say_states(waiting)]
        itself = "; where `loader run --build` runs, it does that by itself"
        return Summary(
            f"healthy, but {'; '.join(clauses)}",
            (waiting[0].remedy or "") + (itself if waiting[0].engine == "database" else ""),
        )
    if (seconds := lag_seconds(state)) > RECENT_SECONDS:
        return Summary(
            f"behind: the loader has stored nothing for {duration(seconds)}; {_exact(state)}",
            "see what `loader run` logs; a large transaction takes its time",
        )
    late = max(models, key=lambda model: model.lag_seconds, default=None)
    if late is not None and late.lag_seconds > RECENT_SECONDS:
        waits = f"{late.name} was not built for {duration(late.lag_seconds)}"
        return Summary(
            f"behind: {waits}, and more is staged{_held(late)}; {_exact(state)}",
            _apply_remedy(late),
        )
    return Summary(f"healthy, {_exact(state)}")


def _held(model: ModelStatus) -> str:
    return (
        "" if model.held_by is None else f", while the {model.held_by} holds the lock of the builds"
    )


def _apply_remedy(model: ModelStatus, more: str = "") -> str:
    """Return what brings the model to what is staged; `more` is what to look at beside."""
    if model.held_by is not None:
        return model.held_by.remedy("target")
    return f"see that {builder(model.engine)} runs{more}"


def _exact(state: State) -> str:
    """Return until when everything that was committed is counted."""
    age = None if state.stored is None else state.stored.exact[1]
    if any(model.applied_lsn is None and not model.is_finding for model in _registered(state)):
        return "nothing is applied yet"
    unread = lag_bytes(state)
    is_behind = any(model.lag_seconds for model in _registered(state))
    if age is None:
        text = "exact: the change log is empty, so nothing is left to count"
    elif age < RECENT_SECONDS or is_behind or unread > _UNREAD_BYTES:
        text = f"exact as of {duration(age)} ago"
    else:
        text = f"exact as of the newest change, {duration(age)} ago"
    if unread > _UNREAD_BYTES:
        text += f", and {size(unread)} of the source's WAL are still to be read"
    return text
