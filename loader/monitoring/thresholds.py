"""Which thresholds a status report passes, and what to do. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from loader.preflight.remedies import RELOAD
from loader.staging.units import duration, size
from waltally.errors import LoaderError, Unhealthy

_MORE_TIME = "start `loader run --build`, or end the oldest transaction of the source"


@dataclass(frozen=True)
class Thresholds:
    """What counts as unhealthy."""

    lag_seconds: float
    wal_held_bytes: int
    min_safe_wal_bytes: int = 2**30
    """Counts only where the slot also holds more than is left: the server's limit may be lower."""


def passed(
    body: dict[str, Any], thresholds: Thresholds, is_followable: bool = True
) -> list[LoaderError]:
    """Return a finding for each threshold that is passed.

    Where the slot is not followable another finding says so: a loader cannot run.
    """
    slot, limit = body["slot"], thresholds.lag_seconds
    findings: list[LoaderError] = []
    if is_followable and (stands := body["position"]["lag_seconds"]) > limit:
        findings.append(_stands(bool(slot.get("active_pid")), stands))
    for fact in body["facts"]:
        # Why one stands still that waits or has failed is a finding of its own.
        is_said = fact["state"] != "follows" and fact["is_finding"]
        if fact["lag_seconds"] > limit and not is_said:
            findings.append(
                Unhealthy(
                    f"The builds have stopped: the fact {fact['name']} was not built for "
                    f"{duration(fact['lag_seconds'])}, and more is staged",
                    "see that `loader run --build` or a scheduled `dbt build` runs, and what it "
                    "logs",
                )
            )
    held = slot.get("wal_held_bytes") or 0
    if held > thresholds.wal_held_bytes:
        findings.append(
            Unhealthy(f"The slot holds {size(held)} of WAL on the source's disk", _MORE_TIME)
        )
    idle, timeout = slot.get("inactive_seconds"), slot.get("idle_timeout_seconds")
    if idle and timeout and idle > timeout / 2 and slot["wal_status"] != "lost":
        findings.append(
            Unhealthy(
                f"Nobody has followed the slot for {duration(idle)}, and after "
                f"{duration(timeout)} the source gives it up (idle_replication_slot_timeout)",
                "start the loader; to gain time: alter system set idle_replication_slot_timeout = "
                f"0; {RELOAD}",
            )
        )
    safe = slot.get("safe_wal_bytes")
    if safe is not None and safe < min(thresholds.min_safe_wal_bytes, held):
        findings.append(
            Unhealthy(
                f"The slot is lost after {size(max(0, safe))} more of the source's WAL "
                "(max_slot_wal_keep_size)",
                f"{_MORE_TIME}; raising max_slot_wal_keep_size there gains time",
            )
        )
    return findings


def _stands(is_followed: bool, seconds: float) -> Unhealthy:
    if is_followed:
        return Unhealthy(
            f"The loader has stored nothing for {duration(seconds)}, while the source went on",
            "see what `loader run` logs",
        )
    return Unhealthy(
        f"The loader does not run: nothing was stored for {duration(seconds)}, while the source "
        "went on",
        "start `loader run --build`",
    )
