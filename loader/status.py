"""`loader status`: where everything stands, and whether that is well."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from psycopg2 import extensions, sql

from loader import lsn, standing
from loader.change_log import Record
from loader.database import connect, explained
from loader.errors import LoaderError, NotSetUp, Unhealthy
from loader.settings import Settings
from loader.setup import table_findings, table_replaced
from loader.verdict import Server, SlotState

JSON_VERSION = 1
"""Raised whenever a field of the JSON changes its meaning or goes."""

_AT_REST = 16 * 1024
"""Bytes of WAL that an idle loader may leave unconfirmed; less than this is no lag."""


@dataclass(frozen=True)
class Thresholds:
    """What counts as unhealthy."""

    lag_seconds: float
    wal_held_bytes: int


def report(settings: Settings, thresholds: Thresholds) -> tuple[dict[str, Any], LoaderError | None]:
    """Return the status as the JSON contract has it, and the first problem if there is one.

    Raises LoaderError where source or target cannot be asked.
    """
    with closing(connect(settings.source, "source")) as source:
        problems = table_findings(settings, source)
        with closing(connect(settings.target, "target")) as target:
            stands = standing.read(settings, source, target)
            state, server = stands.state, stands.server
            stored = _read_stored(target, settings, stands.record)
            replaced = table_replaced(settings, source, target) if stored else None
    problems += [replaced] if replaced else []
    body: dict[str, Any] = {
        "version": JSON_VERSION,
        "source": {
            "system_identifier": server.system_identifier,
            "database": server.database,
            "wal_lsn": lsn.show(server.wal_end),
        },
        "slot": {"name": settings.slot, **_slot(state, server)},
        **_positions(stored, server),
        "thresholds": asdict(thresholds),
    }
    if stored is None:
        problems.append(NotSetUp(f"The slot {settings.slot} is not set up", "run `loader setup`"))
    else:
        first = [stands.complaint] if stands.complaint else []
        problems = [*first, *problems, *_passed(body, thresholds)]
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


@dataclass(frozen=True)
class _Stored:
    record: Record
    moved_at: datetime
    models: list[tuple[str, str, datetime, bool]]
    """Name, watermark, when it moved, and whether more is staged than it has applied."""


def _read_stored(
    target: extensions.connection, settings: Settings, record: Record | None
) -> _Stored | None:
    if record is None:
        return None
    schema = sql.Identifier(settings.schema)
    with explained("target"), target, target.cursor() as cursor:
        cursor.execute(
            sql.SQL("select moved_at from {}.slot_position where slot_name = %s").format(schema),
            (settings.slot,),
        )
        row = cursor.fetchone()
        cursor.execute(
            sql.SQL(
                "select model_name, applied_lsn, moved_at, exists ("
                "select 1 from {0}.change_log as staged where staged.slot_name = mark.slot_name "
                "and staged.commit_lsn >= mark.applied_lsn) "
                "from {0}.model_watermark as mark where slot_name = %s order by model_name"
            ).format(schema),
            (settings.slot,),
        )
        models = cursor.fetchall()
    assert row is not None
    return _Stored(record, row[0], models)


def _slot(state: SlotState | None, server: Server) -> dict[str, Any]:
    if state is None:
        return {"exists": False}
    return {
        "exists": True,
        "active_pid": state.active_pid,
        "wal_status": state.wal_status,
        "confirmed_lsn": _show(state.confirmed_lsn),
        "restart_lsn": _show(state.restart_lsn),
        "wal_held_bytes": _behind(server.wal_end, state.restart_lsn),
        "safe_wal_bytes": state.safe_wal_size,
    }


def _positions(stored: _Stored | None, server: Server) -> dict[str, Any]:
    if stored is None:
        return {"position": None, "models": []}
    position = stored.record.position_lsn
    behind = max(0, server.wal_end - position)
    return {
        "position": {
            "lsn": lsn.show(position),
            "start_lsn": lsn.show(stored.record.start_lsn),
            "moved_at": stored.moved_at.isoformat(),
            "lag_bytes": behind,
            "lag_seconds": _age(stored.moved_at) if behind > _AT_REST else 0.0,
        },
        "models": [
            {
                "name": name,
                "applied_lsn": applied,
                "moved_at": moved_at.isoformat(),
                "lag_bytes": max(0, position - lsn.parse(applied)) if is_behind else 0,
                "lag_seconds": _age(moved_at) if is_behind else 0.0,
            }
            for name, applied, moved_at, is_behind in stored.models
        ],
    }


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
    return problems


def _show(position: int | None) -> str | None:
    return None if position is None else lsn.show(position)


def _behind(end: int, position: int | None) -> int | None:
    return None if position is None else max(0, end - position)


def _age(moment: datetime) -> float:
    return max(0.0, round((datetime.now(UTC) - moment).total_seconds(), 1))
