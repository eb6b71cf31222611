"""Metrics that are read every few seconds: the slot at the source, the facts at the target."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from psycopg2 import extensions

from loader.capture.events import RunState
from loader.monitoring.sampler import Sampler
from loader.monitoring.status import wal_held
from loader.monitoring.wal_clock import WalClock
from loader.preflight import slot_facts
from loader.preflight.slot_state import Server, SlotState
from loader.staging import target_state
from loader.staging.records import TargetState
from waltally.settings import Settings

_WAL_STATES = ("reserved", "extended", "unreserved", "lost")
_FACT_STATES = ("follows", "waits", "failed")


@dataclass(frozen=True)
class SourceSample:
    """The slot and the end of the WAL, and the position of record just before."""

    state: SlotState | None
    server: Server
    position: int
    lag_seconds: float


class GaugeCollector(Collector):
    """Serves the newest answers. If one server is down, only its metrics disappear."""

    def __init__(self, settings: Settings, run_state: RunState) -> None:
        self._settings = settings
        self._run_state = run_state
        self._clock = WalClock()
        self._source = Sampler(settings.source, "source", self._ask_source)
        self._target = Sampler(settings.target, "target", self._ask_target)

    def lag_seconds(self) -> float | None:
        """Return how far the position is behind the source; None where that does not answer."""
        source = self._source.latest
        return None if source is None else source.lag_seconds

    def failed_facts(self) -> int:
        """Return how many facts have failed, 0 where the target does not answer."""
        target = self._target.latest
        return sum(each.state == "failed" for each in target.facts) if target else 0

    def start(self) -> None:
        """Begin to ask both servers."""
        self._source.start()
        self._target.start()

    def close(self) -> None:
        """Ask no more."""
        self._source.close()
        self._target.close()

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Return no names: they would have to be asked for when the registry is made."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield what is known now, waiting for nothing."""
        source, target = self._source.latest, self._target.latest
        yield self._gauge(
            "waltally_source_up",
            "1 where the source answered in the last 15 seconds; where 0, its figures are absent.",
            float(source is not None),
        )
        yield self._gauge(
            "waltally_target_up",
            "1 where the target answered in the last 15 seconds; where 0, its figures are absent.",
            float(target is not None),
        )
        open_since = self._run_state.open_since
        yield self._gauge(
            "waltally_batch_open_seconds",
            "How long the batch that is not committed yet has been open; 0 where none is.",
            time.monotonic() - open_since if open_since else 0.0,
        )
        if self._run_state.position_lsn:
            yield self._gauge(
                "waltally_position_bytes",
                "The position of record, as bytes of the source's WAL.",
                self._run_state.position_lsn,
            )
        if source is not None:
            yield from self._of_source(source)
        if target is not None:
            yield from self._of_target(target)

    def _of_source(self, source: SourceSample) -> Iterator[GaugeMetricFamily]:
        yield self._gauge(
            "waltally_source_wal_bytes", "Where the source's WAL ends.", source.server.wal_end
        )
        if source.position:
            yield self._gauge(
                "waltally_lag_bytes",
                "WAL of the source beyond the position of record.",
                max(0, source.server.wal_end - source.position),
            )
            yield self._gauge(
                "waltally_lag_seconds",
                "How long ago the source's WAL ended at the position of record; 0 where less than "
                "16 KiB lie beyond it.",
                source.lag_seconds,
            )
        state = source.state
        yield self._gauge(
            "waltally_slot_exists",
            "1 where the source has the slot.",
            float(state is not None),
        )
        if state is None:
            return
        held = wal_held(state, source.server)
        if held is not None:
            yield self._gauge(
                "waltally_wal_held_bytes", "WAL on the source's disk for the slot.", held
            )
        if state.safe_wal_size is not None:
            yield self._gauge(
                "waltally_safe_wal_size_bytes",
                "WAL the source may still write before the slot is lost; absent where "
                "max_slot_wal_keep_size sets no limit.",
                state.safe_wal_size,
            )
        family = GaugeMetricFamily(
            "waltally_wal_status",
            "1 for the state of the slot's WAL: reserved, extended, unreserved or lost.",
            labels=["slot", "status"],
        )
        for status in _WAL_STATES:
            is_so = float(state.wal_status == status)
            family.add_metric([self._settings.slot, status], is_so)
        yield family
        yield from self._of_idle_slot(state)

    def _of_idle_slot(self, state: SlotState) -> Iterator[GaugeMetricFamily]:
        """Yield families that have a series only where there is something to say."""
        slot = self._settings.slot
        invalidated = GaugeMetricFamily(
            "waltally_slot_invalidated",
            "1 for why the server has given the slot up; absent where it has not, and before "
            "PostgreSQL 16.",
            labels=["slot", "reason"],
        )
        inactive = GaugeMetricFamily(
            "waltally_slot_inactive_seconds",
            "How long nobody has followed the slot; absent while somebody does, and before "
            "PostgreSQL 17.",
            labels=["slot"],
        )
        left = GaugeMetricFamily(
            "waltally_slot_idle_left_seconds",
            "How long the slot may still go without a follower before the server gives it up; "
            "absent while somebody follows it, and where idle_replication_slot_timeout sets no "
            "limit.",
            labels=["slot"],
        )
        if state.invalidation_reason is not None:
            invalidated.add_metric([slot, state.invalidation_reason], 1.0)
        if state.inactive_seconds is not None:
            inactive.add_metric([slot], state.inactive_seconds)
            if state.idle_timeout_seconds:
                left.add_metric(
                    [slot], max(0.0, state.idle_timeout_seconds - state.inactive_seconds)
                )
        yield from (invalidated, inactive, left)

    def _of_target(self, target: TargetState) -> Iterator[GaugeMetricFamily]:
        lag_bytes = self._by_fact(
            "waltally_fact_lag_bytes",
            "WAL between the fact's watermark and the position of record; 0 where nothing staged "
            "is left to apply.",
        )
        lag_seconds = self._by_fact(
            "waltally_fact_lag_seconds",
            "How long ago the fact was applied; 0 where nothing staged is left to apply.",
        )
        rejected = self._by_fact(
            "waltally_has_rejected_changes",
            "1 where the fact met changes it could not count, until a new seed has counted them.",
        )
        states = GaugeMetricFamily(
            "waltally_fact_state",
            "1 for the fact's state: follows, waits or failed; `loader status` says why.",
            labels=["slot", "fact", "state"],
        )
        age = self._by_fact("waltally_baseline_age_seconds", "How old the fact's baseline is.")
        for state in target.facts:
            labels = [self._settings.slot, state.relation]
            for name in _FACT_STATES:
                states.add_metric([*labels, name], float(state.state == name))
            if state.baseline is not None:
                age.add_metric(labels, target.age(state.baseline.counted_at))
            mark = state.watermark
            if mark is None:
                continue
            behind = max(0, target.record.position_lsn - mark.applied_lsn)
            is_behind = mark.waits_since is not None
            lag_bytes.add_metric(labels, behind if is_behind else 0)
            lag_seconds.add_metric(labels, target.age(mark.moved_at) if is_behind else 0)
            rejected.add_metric(labels, float(mark.rejected_lsn is not None))
        yield from (lag_bytes, lag_seconds, rejected, states, age)

    def _gauge(self, name: str, meaning: str, value: float) -> GaugeMetricFamily:
        family = GaugeMetricFamily(name, meaning, labels=["slot"])
        family.add_metric([self._settings.slot], value)
        return family

    def _by_fact(self, name: str, meaning: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(name, meaning, labels=["slot", "fact"])

    def _ask_source(self, connection: extensions.connection) -> SourceSample:
        # The position is read first, so the end of the WAL cannot be before it.
        position = self._run_state.position_lsn
        state = slot_facts.read_state(connection, self._settings.slot)
        server = slot_facts.read_server(connection)
        now = time.monotonic()
        target = self._target.latest
        if target is not None:
            since = now - target.age(target.moved_at)
            self._clock.add_earlier(since, target.record.position_lsn)
        self._clock.add(now, server.wal_end)
        return SourceSample(state, server, position, self._clock.seconds_behind(position, now))

    def _ask_target(self, connection: extensions.connection) -> TargetState | None:
        return target_state.read_target_state(
            connection, self._settings.schema, self._settings.slot
        )
