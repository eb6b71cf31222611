"""`loader status`: slot, lag and facts, and whether all is healthy."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from datetime import datetime
from typing import Any

from loader.monitoring import rejections
from loader.monitoring.summary import summarize
from loader.monitoring.thresholds import Thresholds, passed
from loader.monitoring.wal_clock import IDLE_WAL_BYTES
from loader.preflight import failover, slot_facts, standby_facts
from loader.preflight.findings import table_findings, tables_replaced
from loader.preflight.slot_state import Server, SlotState
from loader.staging import target_state
from loader.staging.records import Baseline, FactState, TargetState, say_state
from waltally import lsn
from waltally.database import connect
from waltally.errors import LoaderError, NotSetUp, Unhealthy
from waltally.plural import plural
from waltally.settings import Settings

JSON_VERSION = 3
"""Increased whenever a field of the JSON changes its meaning or is removed."""


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
                findings += table_findings(registered.facts, source)
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
        findings.append(
            NotSetUp(
                f"The slot {settings.slot} is not set up in schema {settings.schema} of the target",
                "run `loader setup`",
            )
        )
    else:
        first = [facts.finding] if facts.finding else []
        limits = passed(body, thresholds, is_followable=facts.finding is None)
        findings = [*first, *findings, *_states(found), *_rejected(found), *limits]
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
    body["summary"] = asdict(summarize(body))
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
        return {
            **_exact(None, None),
            "position": None,
            "facts": [],
            "last_error": None,
        }
    position = found.record.position_lsn
    behind = max(0, server.wal_end - position)
    applied = [each.watermark for each in found.facts if each.watermark]
    moments = [mark.newest_commit_at for mark in applied if mark.newest_commit_at]
    return {
        **_exact(found, min(moments, default=None if applied else found.newest_commit_at)),
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
        "last_error": None
        if found.last_error is None or found.last_error_at is None
        else {
            "message": found.last_error,
            "at": found.last_error_at.isoformat(),
            "age_seconds": found.age(found.last_error_at),
        },
    }


def _exact(found: TargetState | None, moment: datetime | None) -> dict[str, Any]:
    return {
        "exact_as_of": _iso(moment),
        "exact_age_seconds": found.age(moment) if found and moment else None,
    }


def _fact(found: TargetState, state: FactState) -> dict[str, Any]:
    mark = state.watermark
    position = found.record.position_lsn
    waits_since = mark.waits_since if mark else None
    rejected = mark.rejected if mark else {}
    return {
        "name": state.name,
        "relation": state.relation,
        "is_registered": state.is_registered,
        "rows": state.rows,
        "state": state.state,
        "reason": state.reason,
        "remedy": state.remedy,
        "is_finding": state.is_finding,
        "applied_lsn": _show(mark.applied_lsn if mark else None),
        "moved_at": _iso(mark.moved_at if mark else None),
        "lag_bytes": max(0, position - mark.applied_lsn) if mark and waits_since else 0,
        # A source that was quiet for long is not behind for long.
        "lag_seconds": found.age(max(mark.moved_at, waits_since)) if mark and waits_since else 0.0,
        **_exact(found, mark.newest_commit_at if mark else None),
        "rejected_lsn": _show(mark.rejected_lsn if mark else None),
        "rejected_count": None if rejected is None else sum(rejected.values()),
        "rejected_reasons": rejected,
        "rejected_remedy": rejections.remedy(state.fact_name, rejected)
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
        "rejected_count": None if reasons is None else sum(reasons.values()),
        "rejected_reasons": reasons,
    }


def _states(found: TargetState) -> list[LoaderError]:
    """Return a finding for each fact whose state only a person can change."""
    return [
        Unhealthy(f"The fact {say_state(each.name, each.state, each.reason)}", each.remedy or "")
        for each in found.facts
        if each.is_finding
    ]


def _rejected(found: TargetState) -> list[LoaderError]:
    """Return a finding for each fact that could not count all changes."""
    findings: list[LoaderError] = []
    for each in found.facts:
        mark = each.watermark
        if mark is None or mark.rejected_lsn is None:
            continue
        reasons = mark.rejected
        count = "some changes" if reasons is None else plural(sum(reasons.values()), "change")
        why = "; ".join(f"{reason} ({n:,})" for reason, n in (reasons or {}).items())
        findings.append(
            Unhealthy(
                f"The fact {each.name} could not count {count}, the newest at "
                f"{lsn.show(mark.rejected_lsn)}" + (f": {why}" if why else ""),
                rejections.remedy(each.fact_name, reasons),
            )
        )
    return findings


def _show(position: int | None) -> str | None:
    return None if position is None else lsn.show(position)


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
