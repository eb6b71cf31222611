"""The one sentence that a status report begins with, and what to do. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from loader.staging.records import say_state
from loader.staging.units import duration, size

_RECENT_SECONDS = 10.0
"""What is older may be a quiet source or a delay, so the sentence says which."""
_UNREAD_BYTES = 10**6
"""An idle loader leaves less WAL than this unread."""


@dataclass(frozen=True)
class Summary:
    """How the pipeline is."""

    sentence: str
    remedy: str = ""
    """Empty where nothing has to be done."""


def summarize(body: dict[str, Any]) -> Summary:
    """Return the summary of a status report (docs/status.md)."""
    findings, facts = body["findings"], body["facts"]
    if findings:
        first = findings[0]
        more = "" if len(findings) == 1 else f" ({len(findings)} findings)"
        return Summary(f"not healthy{more}: {first['message']}", first["remedy"])
    # A report without findings has a position, or it would say that nothing is set up.
    if not body["slot"]["active_pid"]:
        return Summary(f"no loader is running: {_exact(body, facts)}", "start `loader run --build`")
    if waits := [each for each in facts if each["reason"]]:
        said = [say_state(each["name"], each["state"], each["reason"]) for each in waits]
        return Summary(
            f"healthy, but {'; '.join(said)}",
            f"{waits[0]['remedy']}; where `loader run --build` runs, it does that by itself",
        )
    if (stands := body["position"]["lag_seconds"]) > _RECENT_SECONDS:
        return Summary(
            f"behind: the loader has stored nothing for {duration(stands)}; {_exact(body, facts)}",
            "see what `loader run` logs; a large transaction takes its time",
        )
    late = max(facts, key=lambda each: float(each["lag_seconds"]), default=None)
    if late is not None and late["lag_seconds"] > _RECENT_SECONDS:
        waiting = f"{late['name']} was not built for {duration(late['lag_seconds'])}"
        return Summary(
            f"behind: {waiting}, and more is staged; {_exact(body, facts)}",
            "see that `loader run --build` or a scheduled `dbt build` runs",
        )
    return Summary(f"healthy, {_exact(body, facts)}")


def _exact(body: dict[str, Any], facts: list[dict[str, Any]]) -> str:
    """Return until when everything that was committed is counted."""
    age, unread = body["exact_age_seconds"], body["position"]["lag_bytes"]
    is_behind = any(fact["lag_seconds"] for fact in facts)
    if age is None:
        said = "exact: the change log is empty, so nothing is left to count"
    elif age < _RECENT_SECONDS or is_behind or unread > _UNREAD_BYTES:
        said = f"exact as of {duration(age)} ago"
    else:
        said = f"exact as of the newest change, {duration(age)} ago"
    if unread > _UNREAD_BYTES:
        said += f", and {size(unread)} of the source's WAL are still to be read"
    return said
