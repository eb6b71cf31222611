"""What `loader status` says first. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loader.findings.progress import apply_remedy, held
from loader.source.state import State
from loader.staging.records import say_states
from waltally.errors import LoaderError
from waltally.freshness import RECENT_SECONDS
from waltally.units import duration, size

_UNREAD_BYTES = 10**6
"""An idle loader leaves less WAL than this unread."""


@dataclass(frozen=True)
class Summary:
    """How the pipeline is."""

    sentence: str
    remedy: str = ""
    """Empty where nothing has to be done."""


def summarize(state: State, problems: Sequence[LoaderError]) -> Summary:
    """Return what a report says first (docs/monitoring.md)."""
    models = state.registered_models
    if problems:
        more = "" if len(problems) == 1 else f" ({len(problems)} findings)"
        return Summary(f"not healthy{more}: {problems[0]}", problems[0].remedy)
    # A state without findings has a slot and a record, or it would say that nothing is set up.
    if state.slot.state is None or not state.slot.state.active_pid:
        return Summary(f"no loader is running: {_exact(state)}", "start `loader run --build`")
    if waiting := [model for model in models if model.reason]:
        clauses = [clause for _, clause, _ in say_states(waiting)]
        itself = "; where `loader run --build` runs, it does that by itself"
        return Summary(
            f"healthy, but {'; '.join(clauses)}",
            (waiting[0].remedy or "") + (itself if waiting[0].engine == "database" else ""),
        )
    if (seconds := state.lag_seconds) > RECENT_SECONDS:
        return Summary(
            f"behind: the loader has stored nothing for {duration(seconds)}; {_exact(state)}",
            "see what `loader run` logs; a large transaction takes its time",
        )
    late = max(models, key=lambda model: model.lag_seconds, default=None)
    if late is not None and late.lag_seconds > RECENT_SECONDS:
        waits = f"{late.name} was not built for {duration(late.lag_seconds)}"
        return Summary(
            f"behind: {waits}, and more is staged{held(late)}; {_exact(state)}",
            apply_remedy(late),
        )
    return Summary(f"healthy, {_exact(state)}")


def _exact(state: State) -> str:
    """Return until when everything that was committed is counted."""
    assert state.stored is not None, "a finding says so"
    age = state.stored.exact_age_seconds
    is_begun = all(model.applied_lsn or model.is_finding for model in state.registered_models)
    if not is_begun or (age is None and state.stored.newest_commit_at):
        return "nothing is applied yet"
    unread = state.lag_bytes
    is_behind = any(model.lag_seconds for model in state.registered_models)
    if age is None:
        text = "exact: the change log is empty, so nothing is left to count"
    elif age < RECENT_SECONDS or is_behind or unread > _UNREAD_BYTES:
        text = f"exact as of {duration(age)} ago"
    else:
        text = f"exact as of the newest change, {duration(age)} ago"
    if unread > _UNREAD_BYTES:
        text += f", and {size(unread)} of the source's WAL are still to be read"
    return text
