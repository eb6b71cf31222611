"""What a status report says first, what it finds wrong, and what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loader.source.remedies import RELOAD
from loader.staging.records import builder, say_states
from waltally.errors import LoaderError, Unhealthy
from waltally.freshness import RECENT_SECONDS
from waltally.units import duration, plural, size

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
                    f"see that {builder(fact['engine'])} runs, and what it logs",
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


def of_facts(facts: Sequence[Mapping[str, Any]]) -> Iterator[LoaderError]:
    """Yield a finding for each fact that only a person can help, then for changes not counted."""
    for which, said, remedy in say_states(fact for fact in facts if fact["is_finding"]):
        yield Unhealthy(f"{which} {said}", remedy)
    for fact in facts:
        if fact["rejected_lsn"] is not None:
            count, reasons = fact["rejected_count"], fact["rejected_reasons"] or {}
            changes = "some changes" if count is None else plural(count, "change")
            why = "; ".join(f"{reason} ({n:,})" for reason, n in reasons.items())
            yield Unhealthy(
                f"The fact {fact['name']} could not count {changes}, the newest at "
                f"{fact['rejected_lsn']}" + (f": {why}" if why else ""),
                fact["rejected_remedy"],
            )


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


_UNREAD_BYTES = 10**6
"""An idle loader leaves less WAL than this unread."""


@dataclass(frozen=True)
class Summary:
    """How the pipeline is."""

    sentence: str
    remedy: str = ""
    """Empty where nothing has to be done."""


def summarize(body: dict[str, Any]) -> Summary:
    """Return the summary of a status report (docs/monitoring.md)."""
    findings, facts = body["findings"], body["facts"]
    if findings:
        first = findings[0]
        more = "" if len(findings) == 1 else f" ({len(findings)} findings)"
        return Summary(f"not healthy{more}: {first['message']}", first["remedy"])
    # A report without findings has a position, or it would say that nothing is set up.
    if not body["slot"]["active_pid"]:
        return Summary(f"no loader is running: {_exact(body, facts)}", "start `loader run --build`")
    if waits := [each for each in facts if each["reason"]]:
        said = [clause for _, clause, _ in say_states(waits)]
        itself = "; where `loader run --build` runs, it does that by itself"
        return Summary(
            f"healthy, but {'; '.join(said)}",
            waits[0]["remedy"] + (itself if waits[0]["engine"] == "database" else ""),
        )
    if (stands := body["position"]["lag_seconds"]) > RECENT_SECONDS:
        return Summary(
            f"behind: the loader has stored nothing for {duration(stands)}; {_exact(body, facts)}",
            "see what `loader run` logs; a large transaction takes its time",
        )
    late = max(facts, key=lambda each: float(each["lag_seconds"]), default=None)
    if late is not None and late["lag_seconds"] > RECENT_SECONDS:
        waiting = f"{late['name']} was not built for {duration(late['lag_seconds'])}"
        return Summary(
            f"behind: {waiting}, and more is staged; {_exact(body, facts)}",
            f"see that {builder(late['engine'])} runs",
        )
    return Summary(f"healthy, {_exact(body, facts)}")


def _exact(body: dict[str, Any], facts: list[dict[str, Any]]) -> str:
    """Return until when everything that was committed is counted."""
    age, unread = body["exact_age_seconds"], body["position"]["lag_bytes"]
    is_behind = any(fact["lag_seconds"] for fact in facts)
    if age is None:
        said = "exact: the change log is empty, so nothing is left to count"
    elif age < RECENT_SECONDS or is_behind or unread > _UNREAD_BYTES:
        said = f"exact as of {duration(age)} ago"
    else:
        said = f"exact as of the newest change, {duration(age)} ago"
    if unread > _UNREAD_BYTES:
        said += f", and {size(unread)} of the source's WAL are still to be read"
    return said
