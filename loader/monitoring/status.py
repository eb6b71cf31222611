"""`loader status`: where everything stands, and whether that is well."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from loader.monitoring.wal_clock import IDLE_WAL_BYTES
from loader.preflight import slot_facts, standby_facts
from loader.preflight.setup import table_findings, table_replaced
from loader.preflight.slot_state import Server, SlotState
from loader.staging import target_state
from loader.staging.records import TargetState
from waltally import lsn
from waltally.database import connect
from waltally.errors import LoaderError, NotSetUp, Unhealthy
from waltally.settings import Settings
from waltally.tables import not_registered

SEED = "`spark-submit spark/seed.py`, then `dbt build`"

JSON_VERSION = 1
"""Raised whenever a field of the JSON changes its meaning or goes."""


@dataclass(frozen=True)
class Thresholds:
    """What counts as unhealthy."""

    lag_seconds: float
    wal_held_bytes: int
    min_safe_wal_bytes: int = 2**30
    """Alarming only once the slot also holds more than is left: a limit may be set lower."""


def report(settings: Settings, thresholds: Thresholds) -> tuple[dict[str, Any], LoaderError | None]:
    """Return the status as the JSON contract has it, and the first problem if there is one.

    Raises LoaderError where source or target cannot be asked.
    """
    with closing(connect(settings.source, "source")) as source:
        problems = table_findings(settings, source)
        synchronous = standby_facts.ask(source)
        problems += [synchronous] if synchronous else []
        with closing(connect(settings.target, "target")) as target:
            facts = slot_facts.read(settings, source, target)
            state, server = facts.state, facts.server
            found = (
                target_state.read(target, settings.schema, settings.slot) if facts.record else None
            )
            replaced = table_replaced(settings, source, target) if found else None
    problems += [replaced] if replaced else []
    if facts.record is not None:
        other = not_registered(settings.tables, facts.tables, settings.slot, logged=True)
        problems += [other] if other else []
    body: dict[str, Any] = {
        "version": JSON_VERSION,
        "source": {
            "system_identifier": server.system_identifier,
            "database": server.database,
            "wal_lsn": lsn.show(server.wal_end),
        },
        "slot": {"name": settings.slot, **_slot(state, server)},
        **_positions(found, server),
        "thresholds": asdict(thresholds),
    }
    if found is None:
        problems.append(NotSetUp(f"The slot {settings.slot} is not set up", "run `loader setup`"))
    else:
        first = [facts.finding] if facts.finding else []
        problems = [*first, *problems, *_partial(found), *_passed(body, thresholds)]
    body["problems"] = [
        {
            "code": problem.exit_code,
            "kind": type(problem).__name__,
            "message": str(problem),
            "remedy": problem.remedy,
        }
        for problem in problems
    ]
    body["healthy"] = not problems
    return body, problems[0] if problems else None


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
        "confirmed_lsn": _show(state.confirmed_lsn),
        "restart_lsn": _show(state.restart_lsn),
        "wal_held_bytes": wal_held(state, server),
        "safe_wal_bytes": state.safe_wal_size,
    }


def _positions(found: TargetState | None, server: Server) -> dict[str, Any]:
    if found is None:
        return {"position": None, "seed": None, "models": [], "last_error": None}
    position = found.record.position_lsn
    behind = max(0, server.wal_end - position)
    return {
        "position": {
            "lsn": lsn.show(position),
            "start_lsn": lsn.show(found.record.start_lsn),
            "moved_at": found.moved_at.isoformat(),
            "lag_bytes": behind,
            "lag_seconds": found.age(found.moved_at) if behind > IDLE_WAL_BYTES else 0.0,
            "stored_changes": found.stored_changes,
            "newest_commit_at": _iso(found.newest_commit_at),
        },
        "seed": _seed(found),
        "models": [
            {
                "name": model.name,
                "applied_lsn": lsn.show(model.applied_lsn),
                "moved_at": model.moved_at.isoformat(),
                "lag_bytes": max(0, position - model.applied_lsn) if model.is_behind else 0,
                "lag_seconds": found.age(model.moved_at) if model.is_behind else 0.0,
                "rejected_lsn": _show(model.rejected_lsn),
                "rejected_count": model.rejected_count,
                "left_out": model.left_out,
                "seed_id": model.seed_id,
            }
            for model in found.models
        ],
        "last_error": None
        if found.last_error is None or found.last_error_at is None
        else {
            "message": found.last_error,
            "at": found.last_error_at.isoformat(),
            "age_seconds": found.age(found.last_error_at),
        },
    }


def _seed(found: TargetState) -> dict[str, Any] | None:
    if found.seed_id is None:
        return None
    reasons = found.rejected_in_seed
    return {
        "id": found.seed_id,
        "rejected_count": None if reasons is None else sum(reasons.values()),
        "rejected_reasons": reasons,
    }


def _partial(found: TargetState) -> list[LoaderError]:
    """Return a problem for each fact that lacks the rows from before the slot."""
    partial = "so rows from before the slot are missing, and its counts may be below zero"
    if found.seed_id is None:
        said, remedy = f"stands on no seed, {partial}", SEED
    else:
        said, remedy = f"was not built since the seed was taken, {partial}", "`dbt build`"
    return [
        Unhealthy(f"The fact {model.name} {said}", remedy)
        for model in found.models
        if model.lacks_seed
    ]


def _passed(body: dict[str, Any], thresholds: Thresholds) -> list[LoaderError]:
    """Return a problem for each threshold that is passed."""
    problems: list[LoaderError] = []
    limit = thresholds.lag_seconds
    if body["position"]["lag_seconds"] > limit:
        problems.append(
            Unhealthy(
                f"The position has stood still for {body['position']['lag_seconds']:.0f} s while "
                "the source went on",
                "see that `loader run` runs and what it logs",
            )
        )
    for model in body["models"]:
        if model["lag_seconds"] > limit:
            problems.append(
                Unhealthy(
                    f"The model {model['name']} was last applied {model['lag_seconds']:.0f} s ago "
                    "and more is staged",
                    "see that `loader run --build` or a scheduled `dbt build` runs",
                )
            )
    held = body["slot"].get("wal_held_bytes") or 0
    if held > thresholds.wal_held_bytes:
        problems.append(
            Unhealthy(
                f"The slot holds {held / 2**30:.1f} GiB of WAL on the source's disk",
                "start the loader, or end the oldest transaction of the source",
            )
        )
    safe = body["slot"].get("safe_wal_bytes")
    if safe is not None and safe < min(thresholds.min_safe_wal_bytes, held):
        problems.append(
            Unhealthy(
                f"The slot is lost after {max(0, safe) / 2**20:.0f} MiB more of the source's WAL "
                "(max_slot_wal_keep_size)",
                "start the loader, or end the oldest transaction of the source; raising "
                "max_slot_wal_keep_size there gains time",
            )
        )
    return problems


def _show(position: int | None) -> str | None:
    return None if position is None else lsn.show(position)


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
