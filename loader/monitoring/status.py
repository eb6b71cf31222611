"""`loader status`: slot, lag and models, and whether all is healthy."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from typing import Any

from loader.findings.lists import STATUS, findings
from loader.monitoring.summary import Summary, summarize
from loader.source.read_state import read_state
from loader.source.state import State, Thresholds
from waltally import lsn
from waltally.database import Target, connect, connect_target
from waltally.errors import LoaderError
from waltally.settings import Settings

JSON_VERSION = 6
"""Increased whenever a field of the JSON changes its meaning or is removed."""


@dataclass(frozen=True)
class Report:
    """A state and its findings."""

    state: State
    findings: list[LoaderError]

    @property
    def summary(self) -> Summary:
        """How it is and what to do, in a sentence each."""
        return summarize(self.state, self.findings)

    def as_json(self) -> dict[str, Any]:
        """Return the JSON contract."""
        state, server = self.state, self.state.slot.server
        return {
            "version": JSON_VERSION,
            "source": {
                "system_identifier": server.system_identifier,
                "database": server.database,
                "wal_lsn": lsn.show(server.wal_end),
            },
            "slot": {"name": state.slot.name, **_slot(state)},
            "exact_as_of": state.stored and state.stored.exact_as_of,
            "exact_age_seconds": state.stored and state.stored.exact_age_seconds,
            "position": _position(state),
            "models": [asdict(model) for model in state.stored_models],
            "thresholds": asdict(state.thresholds),
            "findings": [
                {
                    "code": finding.exit_code,
                    "kind": type(finding).__name__,
                    "message": str(finding),
                    "remedy": finding.remedy,
                }
                for finding in self.findings
            ],
            "healthy": not self.findings,
            "summary": asdict(self.summary),
        }


def report(
    settings: Settings, thresholds: Thresholds | None = None, target: Target | None = None
) -> Report:
    """Look at source and target. Raises LoaderError where one of them cannot be asked.

    An open session at the `target` is used, and stays open.
    """
    with ExitStack() as opened:
        source = opened.enter_context(closing(connect(settings.source, "source")))
        if target is None:
            target = opened.enter_context(closing(connect_target(settings)))
        source.give_up_locks()
        target.give_up_locks()
        state = replace(read_state(settings, source, target), thresholds=thresholds or Thresholds())
    return Report(state, findings(STATUS, state))


def _slot(state: State) -> dict[str, Any]:
    slot = state.slot.state
    if slot is None:
        return {"exists": False}
    return {
        "exists": True,
        "active_pid": slot.active_pid,
        "wal_status": slot.wal_status,
        "confirmed_lsn": _show(slot.confirmed_flush_lsn),
        "restart_lsn": _show(slot.restart_lsn),
        "wal_held_bytes": slot.wal_held(state.slot.server.wal_end),
        "safe_wal_bytes": slot.safe_wal_size,
        "invalidation_reason": slot.invalidation_reason,
        "inactive_seconds": slot.inactive_seconds,
        "idle_timeout_seconds": slot.idle_timeout_seconds or None,
        "failover": slot.has_copies,
    }


def _position(state: State) -> dict[str, Any] | None:
    stored = state.stored
    if stored is None:
        return None
    return {
        "lsn": lsn.show(stored.record.position_lsn),
        "start_lsn": lsn.show(stored.record.start_lsn),
        "moved_at": stored.moved_at,
        "lag_bytes": state.lag_bytes,
        "lag_seconds": state.lag_seconds,
        "stored_changes": stored.record.stored_changes,
        "newest_commit_at": stored.newest_commit_at,
    }


def _show(position: int | None) -> str | None:
    return None if position is None else lsn.show(position)
