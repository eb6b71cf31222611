"""The status for a person: lines of text, and a view that refreshes."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import typer

from loader.monitoring.text_lines import REMEDY, aligned, echo
from loader.staging.records import say_state
from waltally.errors import TRANSIENT
from waltally.units import ago, duration, plural, size

_REFRESH_SECONDS = 2.0
_CLEAR = "\x1b[2J\x1b[H"
"""What empties a terminal and goes to its first line."""


def show(body: dict[str, Any]) -> None:
    """Print the report; in color whether all is well."""
    lines, color = _lines_of(body)
    echo(lines, first=color)


def _lines_of(body: dict[str, Any]) -> tuple[list[str], str]:
    well = "yellow" if body["summary"]["remedy"] else "green"
    return render(body), well if body["healthy"] else "red"


def render(body: dict[str, Any]) -> list[str]:
    """Return the report's lines: how it is and what to do, the facts, then the positions.

    A remedy is one line, so that its SQL can be pasted.
    """
    summary, facts = body["summary"], body["facts"]
    lines = [summary["sentence"]]
    lines += [f"{REMEDY}{summary['remedy']}"] if summary["remedy"] else []
    for finding in body["findings"][1:]:
        lines += [f"and: {finding['message']}", f"{REMEDY}{finding['remedy']}"]
    if facts:
        lines += ["", *_facts(facts)]
        lines += [line for fact in facts for line in _remarks(fact)]
    return [*lines, "", *aligned(_positions(body))]


def watch(report: Callable[[], dict[str, Any]]) -> None:
    """Show the report every two seconds until Ctrl-C, on a terminal from its first line on.

    A server that cannot be reached for a while is shown as such. Raises other LoaderErrors.
    """
    # A shell starts background processes with Ctrl-C ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        while True:
            try:
                lines, color = _lines_of(report())
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


def _facts(facts: list[dict[str, Any]]) -> list[str]:
    rows = [("fact", "rows", "as of", "behind", "baseline")]
    for fact in facts:
        count, baseline, age = fact["rows"], fact["baseline"], fact["exact_age_seconds"]
        rows.append(
            (
                fact["name"],
                "none" if count is None else f"{count:,}",
                "not built"
                if not fact["applied_lsn"]
                else "its baseline"
                if age is None
                else f"{duration(age)} ago",
                duration(fact["lag_seconds"]) if fact["lag_bytes"] else "no",
                "none" if baseline is None else f"{duration(baseline['age_seconds'])} old",
            )
        )
    return aligned(rows, right=[1])


def _remarks(fact: dict[str, Any]) -> list[str]:
    """Return what else there is to say of a fact; what is a finding is said there."""
    name, baseline = fact["name"], fact["baseline"]
    said = []
    if fact["reason"] and not fact["is_finding"]:
        said.append(say_state(name, fact["state"], fact["reason"]))
    if baseline is not None and baseline["rejected_count"]:
        reasons = "; ".join(f"{why} ({n:,})" for why, n in baseline["rejected_reasons"].items())
        rows = plural(baseline["rejected_count"], "row")
        said.append(f"{name}: its baseline could not count {rows}: {reasons}")
    left_out = [f"{n:,} of {part}" for part, n in (fact["left_out"] or {}).items() if n]
    if left_out:
        said.append(f"{name} leaves out rows that lack a dimension: {', '.join(left_out)}")
    return said


def _positions(body: dict[str, Any]) -> list[tuple[str, str]]:
    slot, position = body["slot"], body["position"]
    lines = [("slot", slot["name"])]
    if not slot["exists"]:
        lines.append(("", "the source does not have it"))
    else:
        pid = slot["active_pid"]
        lines.append(("", f"followed by pid {pid}" if pid else _not_followed(slot)))
        if where := _kept_where(slot, body["source"]):
            lines.append(("", where))
        lines.append(("WAL held back", _held(slot)))
    if position:
        lines.append(("lag", f"{size(position['lag_bytes'])}, {duration(position['lag_seconds'])}"))
        if position["newest_commit_at"]:
            lines.append(("newest change", f"committed {ago(position['newest_commit_at'])}"))
        lines.append(("stored", plural(position["stored_changes"], "change")))
        lines.append(("position", f"{position['lsn']}, moved {ago(position['moved_at'])}"))
    for fact in body["facts"]:
        if fact["applied_lsn"]:
            lines.append(("applied", f"{fact['applied_lsn']} by {fact['name']}"))
    return lines


def _not_followed(slot: dict[str, Any]) -> str:
    idle, timeout = slot["inactive_seconds"], slot["idle_timeout_seconds"]
    if slot["invalidation_reason"]:
        return f"given up by the server: {slot['invalidation_reason']}"
    said = "not followed" if idle is None else f"not followed for {duration(idle)}"
    return f"{said}; given up after {duration(timeout)}" if timeout else said


def _kept_where(slot: dict[str, Any], source: dict[str, Any]) -> str:
    said = ["on a standby"] if source["in_recovery"] else []
    return ", ".join(said + (["kept by standbys"] if slot["failover"] else []))


def _held(slot: dict[str, Any]) -> str:
    held = f"{size(slot['wal_held_bytes'] or 0)} ({slot['wal_status']})"
    safe = slot["safe_wal_bytes"]
    if safe is None:
        return f"{held}, no limit"
    return f"{held}, lost after {size(max(0, safe))} more"
