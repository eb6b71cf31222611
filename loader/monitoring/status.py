"""`loader status`: slot, lag and facts, and whether all is healthy."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from loader.monitoring import rejections, waiting
from loader.monitoring.wal_clock import IDLE_WAL_BYTES
from loader.preflight import failover, slot_facts, standby_facts
from loader.preflight.findings import table_findings, tables_replaced
from loader.preflight.remedies import RELOAD
from loader.preflight.slot_state import Server, SlotState
from loader.staging import target_state
from loader.staging.records import Baseline, FactState, TargetState
from waltally import lsn
from waltally.database import connect
from waltally.errors import LoaderError, NotSetUp, Unhealthy
from waltally.settings import Settings

JSON_VERSION = 2
"""Increased whenever a field of the JSON changes its meaning or is removed."""


@dataclass(frozen=True)
class Thresholds:
    """What counts as unhealthy."""

    lag_seconds: float
    wal_held_bytes: int
    min_safe_wal_bytes: int = 2**30
    """Counts only where the slot also holds more than is left: the server's limit may be lower."""


def report(settings: Settings, thresholds: Thresholds) -> tuple[dict[str, Any], LoaderError | None]:
    """Return the status as the JSON contract has it, and the first finding if there is one.

    Raises LoaderError where source or target cannot be asked.
    """
    findings: list[LoaderError] = []
    with closing(connect(settings.source, "source")) as source:
        with closing(connect(settings.target, "target")) as target:
            facts = slot_facts.read_facts(settings, source, target)
            state, server = facts.state, facts.server
            found = (
                target_state.read_target_state(target, settings.schema, settings.slot)
                if facts.record
                else None
            )
            if found is not None:
                registered = found.registration
                findings += table_findings(registered.facts, registered.logged, source)
                findings += tables_replaced(settings, source, target, registered.facts)
        synchronous = standby_facts.synchronous_finding(source)
        findings += [synchronous] if synchronous else []
        if state is not None and state.is_failover:
            waits = failover.waiting_note(failover.ask(source))
            findings += [Unhealthy(*waits)] if waits else []
    body: dict[str, Any] = {
        "version": JSON_VERSION,
        "source": {
            "system_identifier": server.system_identifier,
            "database": server.database,
            "wal_lsn": lsn.show(server.wal_end),
            "in_recovery": server.in_recovery,
        },
        "slot": {"name": settings.slot, **_slot(state, server)},
        **_positions(found, server),
        "thresholds": asdict(thresholds),
    }
    if found is None:
        findings.append(NotSetUp(f"The slot {settings.slot} is not set up", "run `loader setup`"))
    else:
        first = [facts.finding] if facts.finding else []
        findings = [*first, *findings, *_waiting(found), *_passed(body, thresholds)]
    body["findings"] = [
        {
            "code": finding.exit_code,
            "kind": type(finding).__name__,
            "message": str(finding),
            "remedy": finding.remedy,
        }
        for finding in findings
    ]
    body["healthy"] = not findings
    return body, findings[0] if findings else None


def wal_held(state: SlotState, server: Server) -> int | None:
    """Return how much WAL the server keeps for the slot, in bytes; None where it keeps none."""
    return None if state.restart_lsn is None else max(0, server.wal_end - state.restart_lsn)


def _slot(state: SlotState | None, server: Server) -> dict[str, Any]:
    if state is None:
        return {"exists": False}
    return {
        "exists": True,
        "active_pid": state.active_pid,
        "wal_status": state.wal_status,
        "confirmed_lsn": _show(state.confirmed_flush_lsn),
        "restart_lsn": _show(state.restart_lsn),
        "wal_held_bytes": wal_held(state, server),
        "safe_wal_bytes": state.safe_wal_size,
        "invalidation_reason": state.invalidation_reason,
        "inactive_seconds": state.inactive_seconds,
        "idle_timeout_seconds": state.idle_timeout_seconds or None,
        "failover": state.is_failover,
    }


def _positions(found: TargetState | None, server: Server) -> dict[str, Any]:
    if found is None:
        return {"position": None, "facts": [], "logged_tables": [], "last_error": None}
    position = found.record.position_lsn
    behind = max(0, server.wal_end - position)
    return {
        "position": {
            "lsn": lsn.show(position),
            "start_lsn": lsn.show(found.record.start_lsn),
            "moved_at": found.moved_at.isoformat(),
            "lag_bytes": behind,
            "lag_seconds": found.age(found.moved_at) if behind > IDLE_WAL_BYTES else 0.0,
            "stored_changes": found.record.stored_changes,
            "newest_commit_at": _iso(found.newest_commit_at),
        },
        "facts": [_fact(found, each) for each in found.facts],
        "logged_tables": [str(table) for table in found.registration.logged],
        "last_error": None
        if found.last_error is None or found.last_error_at is None
        else {
            "message": found.last_error,
            "at": found.last_error_at.isoformat(),
            "age_seconds": found.age(found.last_error_at),
        },
    }


def _fact(found: TargetState, state: FactState) -> dict[str, Any]:
    mark, waits = state.watermark, waiting.why(found, state)
    position = found.record.position_lsn
    is_behind = mark is not None and mark.is_behind
    rejected = mark.rejected if mark else {}
    return {
        "name": state.name,
        "relation": state.relation,
        "is_registered": state.fact is not None,
        "rows": state.rows,
        "waits_for": None
        if waits is None
        else {"reason": waits.reason, "remedy": waits.remedy, "is_finding": waits.is_finding},
        "applied_lsn": _show(mark.applied_lsn if mark else None),
        "moved_at": _iso(mark.moved_at if mark else None),
        "lag_bytes": max(0, position - mark.applied_lsn) if mark and is_behind else 0,
        "lag_seconds": found.age(mark.moved_at) if mark and is_behind else 0.0,
        "rejected_lsn": _show(mark.rejected_lsn if mark else None),
        "rejected_count": None if rejected is None else sum(rejected.values()),
        "rejected_reasons": rejected,
        "rejected_remedy": rejections.remedy(state.name, rejected)
        if mark and mark.rejected_lsn
        else None,
        "left_out": mark.left_out if mark else None,
        "built_on": mark.baseline_id if mark else None,
        "baseline": None if state.baseline is None else _baseline(found, state.baseline),
    }


def _baseline(found: TargetState, baseline: Baseline) -> dict[str, Any]:
    reasons = baseline.rejected
    return {
        "id": baseline.id,
        "snapshot_lsn": lsn.show(baseline.snapshot_lsn),
        "counted_at": baseline.counted_at.isoformat(),
        "age_seconds": found.age(baseline.counted_at),
        "is_of_declaration": baseline.is_of_declaration,
        "rejected_count": None if reasons is None else sum(reasons.values()),
        "rejected_reasons": reasons,
    }


def _waiting(found: TargetState) -> list[LoaderError]:
    """Return a finding for each fact that waits, or that lacks the rows from before the slot."""
    waits = [(state.name, waiting.why(found, state)) for state in found.facts]
    return [
        Unhealthy(f"The fact {name} {each.reason}", each.remedy)
        for name, each in waits
        if each is not None and each.is_finding
    ]


def _passed(body: dict[str, Any], thresholds: Thresholds) -> list[LoaderError]:
    """Return a finding for each threshold that is passed."""
    findings: list[LoaderError] = []
    limit = thresholds.lag_seconds
    if body["position"]["lag_seconds"] > limit:
        findings.append(
            Unhealthy(
                f"The position has stood still for {body['position']['lag_seconds']:.0f} s while "
                "the source went on",
                "see that `loader run` runs and what it logs",
            )
        )
    for fact in body["facts"]:
        # One that waits stands still until its seed is there, which is a finding of its own.
        waits = fact["waits_for"] is not None and fact["waits_for"]["is_finding"]
        if fact["lag_seconds"] > limit and not waits:
            findings.append(
                Unhealthy(
                    f"The fact {fact['name']} was last applied {fact['lag_seconds']:.0f} s ago "
                    "and more is staged",
                    "see that `loader run --build` or a scheduled `dbt build` runs",
                )
            )
    held = body["slot"].get("wal_held_bytes") or 0
    if held > thresholds.wal_held_bytes:
        findings.append(
            Unhealthy(
                f"The slot holds {held / 2**30:.1f} GiB of WAL on the source's disk",
                "start the loader, or end the oldest transaction of the source",
            )
        )
    idle, timeout = body["slot"].get("inactive_seconds"), body["slot"].get("idle_timeout_seconds")
    if idle and timeout and idle > timeout / 2 and body["slot"]["wal_status"] != "lost":
        findings.append(
            Unhealthy(
                f"Nobody has followed the slot for {idle:.0f} s, and after {timeout:.0f} s the "
                "source gives it up (idle_replication_slot_timeout)",
                "start the loader; to gain time: alter system set idle_replication_slot_timeout = "
                f"0; {RELOAD}",
            )
        )
    safe = body["slot"].get("safe_wal_bytes")
    if safe is not None and safe < min(thresholds.min_safe_wal_bytes, held):
        findings.append(
            Unhealthy(
                f"The slot is lost after {max(0, safe) / 2**20:.0f} MiB more of the source's WAL "
                "(max_slot_wal_keep_size)",
                "start the loader, or end the oldest transaction of the source; raising "
                "max_slot_wal_keep_size there gains time",
            )
        )
    return findings


def _show(position: int | None) -> str | None:
    return None if position is None else lsn.show(position)


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
