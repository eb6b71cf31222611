"""The status for a person: lines of text, and a view that refreshes."""

from __future__ import annotations

import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

import typer

from loader.monitoring.status import Report
from loader.monitoring.text_lines import REMEDY, aligned, echo
from loader.source.slot import SlotState
from loader.source.state import State
from loader.staging.records import ModelStatus
from waltally import lsn
from waltally.errors import TRANSIENT
from waltally.units import ago, duration, plural, size

_REFRESH_SECONDS = 2.0
_CLEAR = "\x1b[2J\x1b[H"
"""Empties a terminal and goes to its first line."""


def show(report: Report, positions: bool) -> None:
    """Print the report; in color whether all is well."""
    lines, color = _lines_of(report, positions)
    echo(lines, first=color)


def _lines_of(report: Report, positions: bool) -> tuple[list[str], str]:
    well = "yellow" if report.summary.remedy else "green"
    return render(report, positions), "red" if report.findings else well


def render(report: Report, positions: bool = False) -> list[str]:
    """Return the report's lines: how it is and what to do, the models, then the slot.

    `positions`: also where slot and models are in the WAL. A remedy is one line, so that its SQL
    can be pasted.
    """
    summary, models = report.summary, report.state.stored_models
    lines = [summary.sentence]
    lines += [f"{REMEDY}{summary.remedy}"] if summary.remedy else []
    for finding in report.findings[1:]:
        lines += [f"and: {finding}", f"{REMEDY}{finding.remedy}"]
    if models:
        lines += ["", *_models(models)]
        lines += [line for model in models for line in _remarks(model)]
    slot = _slot(report.state)
    if positions:
        slot += _positions(report.state)
    return [*lines, "", *aligned(slot)]


def watch(look: Callable[[], Report], positions: bool) -> None:
    """Show the report every two seconds until Ctrl-C, on a terminal from its first line on.

    A server that cannot be reached for a while is shown as such. Raises other LoaderErrors.
    """
    # A shell starts background processes with Ctrl-C ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        while True:
            try:
                lines, color = _lines_of(look(), positions)
            except TRANSIENT as error:
                lines, color = f"Error: {error.sentence}".split("\n"), "red"
            if sys.stdout.isatty():
                typer.echo(_CLEAR, nl=False)
            echo([f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"])
            # The first line says how it is, and must not scroll out of a small pane.
            echo(lines, first=color, rows=shutil.get_terminal_size().lines - 2)
            sys.stdout.flush()
            time.sleep(_REFRESH_SECONDS)
    except KeyboardInterrupt:
        return


def _models(models: Sequence[ModelStatus]) -> list[str]:
    rows = [("model", "rows", "as of", "behind", "audited", "kept as")]
    for model in models:
        age, audited = model.exact_age_seconds, model.audited_age_seconds
        rows.append(
            (
                model.name,
                "none" if model.rows is None else f"{model.rows:,}",
                "not built"
                if not model.applied_lsn
                else "its baseline"
                if age is None
                else f"{duration(age)} ago",
                duration(model.lag_seconds) if model.lag_bytes else "no",
                "never" if audited is None else f"{duration(audited)} ago",
                # Setup and dbt say of what.
                re.split(r" of |:", model.kind or "")[0],
            )
        )
    return aligned(rows, right=[1])


def _remarks(model: ModelStatus) -> Iterator[str]:
    """Yield remarks on a model that are no findings."""
    baseline = model.baseline
    if model.is_unbuilt:
        yield f"{model.name} is in no dbt project any more, and is still applied"
        yield f"{REMEDY}`loader forget {model.name}`, and drop the table when nobody reads it"
    if model.reason and not model.is_finding:
        yield str(model)
        if not model.is_registered:
            yield f"{REMEDY}{model.remedy}"
    if baseline is not None and baseline.rejected_count:
        reasons = (baseline.rejected_reasons or {}).items()
        why = "; ".join(f"{reason} ({n:,})" for reason, n in reasons)
        rows = plural(baseline.rejected_count, "row")
        yield f"{model.name}: its baseline could not count {rows}: {why}"


def _slot(state: State) -> list[tuple[str, str]]:
    slot, stored = state.slot.state, state.stored
    lines = [("slot", state.slot.name)]
    if slot is None:
        lines.append(("", "the source does not have it"))
    else:
        pid = slot.active_pid
        lines.append(("", f"followed by pid {pid}" if pid else _not_followed(slot)))
        if slot.has_copies:
            lines.append(("", "other servers may keep a copy"))
        lines.append(("WAL held back", _held(state, slot)))
    if stored:
        lines.append(("lag", f"{size(state.lag_bytes)}, {duration(state.lag_seconds)}"))
        if stored.newest_commit_at:
            lines.append(("newest change", f"committed {ago(stored.newest_commit_at)}"))
        lines.append(("stored", plural(stored.record.stored_changes, "change")))
    return lines


def _positions(state: State) -> list[tuple[str, str]]:
    lines = []
    if stored := state.stored:
        position = lsn.show(stored.record.position_lsn)
        lines.append(("position", f"{position}, moved {ago(stored.moved_at)}"))
    for model in state.stored_models:
        if model.applied_lsn:
            lines.append(("applied", f"{model.applied_lsn} by {model.name}"))
    return lines


def _not_followed(slot: SlotState) -> str:
    idle, timeout = slot.inactive_seconds, slot.idle_timeout_seconds
    if slot.invalidation_reason:
        return f"given up by the server: {slot.invalidation_reason}"
    text = "not followed" if idle is None else f"not followed for {duration(idle)}"
    return f"{text}; given up after {duration(timeout)}" if timeout else text


def _held(state: State, slot: SlotState) -> str:
    held, left = f"{size(state.wal_held)} ({slot.wal_status})", slot.safe_wal_size
    return f"{held}, no limit" if left is None else f"{held}, lost after {size(max(0, left))} more"
