"""`loader status`: slot, lag and facts, and whether all is healthy."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from operator import itemgetter
from typing import Any

from loader.monitoring.findings import Thresholds, of_facts, passed, summarize
from loader.monitoring.wal_clock import IDLE_WAL_BYTES
from loader.source.findings import table_findings, tables_replaced
from loader.source.server import ask_server
from loader.source.server_checks import synchronous_finding, waiting_finding
from loader.source.slot import Server, SlotState
from loader.source.slot_admin import read_slot
from loader.staging import target_state
from loader.staging.records import TargetState
from waltally import lsn
from waltally.database import connect, connect_target
from waltally.errors import LoaderError, NotSetUp
from waltally.settings import Settings

JSON_VERSION = 4
"""Increased whenever a field of the JSON changes its meaning or is removed."""


def report(settings: Settings, thresholds: Thresholds) -> dict[str, Any]:
    """Return the status as the JSON contract has it.

    Raises LoaderError where source or target cannot be asked.
    """
    findings: list[LoaderError] = []
    with closing(connect(settings.source, "source")) as source:
        with closing(connect_target(settings)) as target:
            facts = read_slot(settings, source, target)
            state, server = facts.state, facts.server
            found = target_state.read_target_state(target) if facts.record else None
            if found is not None:
                registered = found.registration
                findings += table_findings(registered.facts, source)
                findings += tables_replaced(source, target, registered.facts)
        synchronous = synchronous_finding(source)
        findings += [synchronous] if synchronous else []
        if state is not None and state.is_failover:
            waits = waiting_finding(ask_server(source, settings.slot))
            findings += [waits] if waits else []
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
        findings = [*first, *findings, *of_facts(body["facts"]), *limits]
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
    return body


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
        exact = {"exact_as_of": None, "exact_age_seconds": None}
        return {**exact, "position": None, "facts": []}
    position = found.record.position_lsn
    behind = max(0, server.wal_end - position)
    applied = [each for each in found.facts if each["applied_lsn"] is not None]
    moments = [(each["exact_as_of"], each["exact_age_seconds"]) for each in applied]
    oldest = (None, None) if applied else (found.newest_commit_at, found.newest_commit_age)
    as_of, age = max((each for each in moments if each[0]), key=itemgetter(1), default=oldest)
    return {
        "exact_as_of": as_of,
        "exact_age_seconds": age,
        "position": {
            "lsn": lsn.show(position),
            "start_lsn": lsn.show(found.record.start_lsn),
            "moved_at": found.moved_at,
            "lag_bytes": behind,
            "lag_seconds": found.moved_age if behind > IDLE_WAL_BYTES else 0.0,
            "stored_changes": found.record.stored_changes,
            "newest_commit_at": found.newest_commit_at,
        },
        "facts": found.facts,
    }


def _show(position: int | None) -> str | None:
    return None if position is None else lsn.show(position)
