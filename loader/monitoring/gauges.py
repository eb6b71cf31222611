"""Metrics that are read every few seconds: the slot at the source, the models at the target."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from loader.capture.events import RunState
from loader.capture.poller import Poller
from loader.monitoring.status import report
from loader.monitoring.wal_clock import WalClock
from loader.source.asking import read_server, read_slot_state
from loader.source.slot import SlotState
from loader.staging import target_state
from loader.staging.records import ModelStatus
from waltally.database import Connection, Target, connect, connect_target
from waltally.limits import limits
from waltally.settings import Settings

_WAL_STATES = ("reserved", "extended", "unreserved", "lost")
_MODEL_STATES = ("follows", "waits", "failed")


_METRICS = {
    "waltally_source_up": ("1 where the source answered in the last 15 seconds.",),
    "waltally_target_up": ("1 where the target answered in the last 15 seconds.",),
    "waltally_healthy": ("1 where `loader status` finds nothing wrong, asked once a minute.",),
    "waltally_findings": ("How many findings `loader status` has of a kind.", "kind"),
    "waltally_batch_open_seconds": ("How long the present batch has been open; 0 where none is.",),
    "waltally_position_bytes": ("The position of record, as bytes of the source's WAL.",),
    "waltally_source_wal_bytes": ("Where the source's WAL ends.",),
    "waltally_lag_bytes": ("WAL of the source beyond the position of record.",),
    "waltally_lag_seconds": (
        "How long ago the source's WAL ended at the position of record; 0 below 16 KiB.",
    ),
    "waltally_slot_exists": ("1 where the source has the slot.",),
    "waltally_wal_held_bytes": ("WAL on the source's disk for the slot.",),
    "waltally_safe_wal_size_bytes": (
        "WAL the source may still write before the slot is lost; absent without "
        "max_slot_wal_keep_size.",
    ),
    "waltally_wal_status": (
        "1 for the state of the slot's WAL: reserved, extended, unreserved or lost.",
        "status",
    ),
    "waltally_slot_invalidated": (
        "1 for why the server has given the slot up, from PostgreSQL 16 on.",
        "reason",
    ),
    "waltally_slot_inactive_seconds": (
        "How long nobody has followed the slot, from PostgreSQL 17 on.",
    ),
    "waltally_slot_idle_left_seconds": (
        "How much of idle_replication_slot_timeout is left; absent while somebody follows.",
    ),
    "waltally_model_lag_bytes": (
        "WAL between the model's watermark and the position of record; 0 if nothing is left to "
        "apply.",
        "model",
    ),
    "waltally_model_lag_seconds": (
        "How long staged changes wait to be applied.",
        "model",
    ),
    "waltally_model_has_rejected_changes": (
        "1 where the model met changes it could not count, until a new seed.",
        "model",
    ),
    "waltally_model_state": (
        "1 for the model's state: follows, waits or failed; `loader status` says why.",
        *("model", "state"),
    ),
    "waltally_model_baseline_age_seconds": ("How old the model's baseline is.", "model"),
    "waltally_model_audit_age_seconds": (
        "How long ago an audit last found the model right.",
        "model",
    ),
}
"""By name, the meaning and the labels beside the slot."""

_Sample = tuple[Any, ...]
"""A name, a value, and the labels beside the slot."""


_Source = tuple[float, list[_Sample]]
"""How far the position is behind the source in seconds, and all that the source says."""


class GaugeCollector(Collector):
    """Serves the newest answers. If one server is down, only its metrics disappear."""

    def __init__(self, settings: Settings, run_state: RunState) -> None:
        self._settings = settings
        self._run_state = run_state
        self._clock = WalClock()
        self._source = _poller(
            "source", lambda: connect(settings.source, "source"), self._ask_source
        )
        self._target = _poller("target", lambda: connect_target(settings), target_state.read_stored)
        self._findings = _poller(
            "findings",
            lambda: connect_target(settings),
            self._count_findings,
            limits.refresh_findings,
        )

    def lag_seconds(self) -> float | None:
        """Return how far the position is behind the source; None where that does not answer."""
        source = self._source.latest(limits.stale_metrics)
        return None if source is None else source[0]

    def failed_models(self) -> int:
        """Return how many registered models have failed, 0 where the target does not answer."""
        target = self._target.latest(limits.stale_metrics)
        models = target.models if target else ()
        return sum(model.state == "failed" and model.is_registered for model in models)

    def start(self) -> None:
        """Begin to ask both servers."""
        for poller in (self._source, self._target, self._findings):
            poller.start()

    def close(self) -> None:
        """Ask no more."""
        for poller in (self._source, self._target, self._findings):
            poller.stop()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield what is known now, waiting for nothing."""
        slot = self._settings.slot
        families = {
            name: GaugeMetricFamily(name, meaning, labels=["slot", *labels])
            for name, (meaning, *labels) in _METRICS.items()
        }
        for name, value, *labels in self._samples():
            families[name].add_metric([slot, *labels], value)
        yield from families.values()

    def _samples(self) -> Iterator[_Sample]:
        source = self._source.latest(limits.stale_metrics)
        target = self._target.latest(limits.stale_metrics)
        open_since = self._run_state.open_since
        yield "waltally_source_up", source is not None
        yield "waltally_target_up", target is not None
        open_for = time.monotonic() - open_since if open_since else 0.0
        yield "waltally_batch_open_seconds", open_for
        if self._run_state.position.stored:
            yield "waltally_position_bytes", self._run_state.position.stored
        if source is not None:
            yield from source[1]
        for model in target.models if target is not None else ():
            yield from _of_model(model)
        findings = self._findings.latest(3 * limits.refresh_findings)
        if findings is not None:
            yield "waltally_healthy", not findings
            for kind, number in findings.items():
                yield "waltally_findings", number, kind

    def _ask_source(self, connection: Connection) -> _Source:
        # The position is read first, so the end of the WAL cannot be before it.
        position = self._run_state.position.stored
        state = read_slot_state(connection, self._settings.slot)
        server = read_server(connection)
        now = time.monotonic()
        target = self._target.latest(limits.stale_metrics)
        if target is not None:
            since = now - target.moved_age
            self._clock.add_earlier(since, target.record.position_lsn)
        self._clock.add(now, server.wal_end)
        seconds = self._clock.seconds_behind(position, now)
        return seconds, [*_of_source(state, server.wal_end, position, seconds)]

    def _count_findings(self, target: Target) -> Counter[str]:
        """Return how many findings there are by the name of their error."""
        problems = report(self._settings, target=target).findings
        return Counter(type(finding).__name__ for finding in problems)


C = TypeVar("C", bound=Connection)
T = TypeVar("T")


def _poller(
    name: str, open_: Callable[[], C], ask: Callable[[C], T], seconds: float | None = None
) -> Poller[C, T]:
    """Return what asks every so many seconds, over a connection that waits for no long query."""

    def connected() -> C:
        connection = open_()
        connection.ask("set application_name to 'waltally metrics'")
        connection.ask("set statement_timeout to '5s'")
        return connection

    return Poller(f"{name} metrics", connected, ask, seconds or limits.refresh_metrics)


def _of_source(
    state: SlotState | None, wal_end: int, position: int, lag_seconds: float
) -> Iterator[_Sample]:
    yield "waltally_source_wal_bytes", wal_end
    if position:
        yield "waltally_lag_bytes", max(0, wal_end - position)
        yield "waltally_lag_seconds", lag_seconds
    yield "waltally_slot_exists", state is not None
    if state is None:
        return
    held = state.wal_held(wal_end)
    if held is not None:
        yield "waltally_wal_held_bytes", held
    if state.safe_wal_size is not None:
        yield "waltally_safe_wal_size_bytes", state.safe_wal_size
    for status in _WAL_STATES:
        yield "waltally_wal_status", state.wal_status == status, status
    if state.invalidation_reason is not None:
        yield "waltally_slot_invalidated", 1, state.invalidation_reason
    if state.inactive_seconds is not None:
        yield "waltally_slot_inactive_seconds", state.inactive_seconds
        if state.idle_timeout_seconds:
            left = max(0.0, state.idle_timeout_seconds - state.inactive_seconds)
            yield "waltally_slot_idle_left_seconds", left


def _of_model(status: ModelStatus) -> Iterator[_Sample]:
    model = status.relation
    for state in _MODEL_STATES:
        yield "waltally_model_state", status.state == state, model, state
    if status.baseline is not None:
        yield "waltally_model_baseline_age_seconds", status.baseline.age_seconds, model
    if status.audited_age_seconds is not None:
        yield "waltally_model_audit_age_seconds", status.audited_age_seconds, model
    if status.applied_lsn is not None:
        yield "waltally_model_lag_bytes", status.lag_bytes, model
        yield "waltally_model_lag_seconds", status.lag_seconds, model
        yield "waltally_model_has_rejected_changes", status.rejected_lsn is not None, model
