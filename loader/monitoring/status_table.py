"""The status for a person: tables, and a view that refreshes."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.filesize import decimal
from rich.live import Live
from rich.table import Table
from rich.text import Text

from waltally.errors import TRANSIENT, LoaderError

_REFRESH_SECONDS = 2.0
_LOG_WIDTH = 1000


def output_console() -> Console:
    """Return the console of standard output: as wide as the terminal, unwrapped anywhere else."""
    console = Console(markup=False)
    if not console.is_terminal:
        console.width = _LOG_WIDTH
    return console


def render(body: dict[str, Any], rate: float | None = None) -> RenderableType:
    """Return the status report as tables, with the findings and their remedies below.

    `rate` is in changes per second, where it is known.
    """
    slot, position, error = body["slot"], body["position"], body["last_error"]
    facts = Table("", "", show_header=False, box=None)
    facts.add_row("slot", Text(slot["name"]))
    if slot["exists"]:
        pid = slot["active_pid"]
        facts.add_row("", f"followed by pid {pid}" if pid else _not_followed(slot))
        if where := _kept_where(slot, body["source"]):
            facts.add_row("", where)
        facts.add_row("WAL held back", _held(slot))
    if position:
        facts.add_row("position", f"{position['lsn']}, moved {ago(position['moved_at'])}")
        facts.add_row("lag", _lag(position))
        if position["newest_commit_at"]:
            facts.add_row("newest change", f"committed {ago(position['newest_commit_at'])}")
        stored = f"{position['stored_changes']:,} changes"
        facts.add_row("stored", stored if rate is None else f"{stored}, {rate:,.0f}/s")
    if body["logged_tables"]:
        facts.add_row("only logged", Text(", ".join(body["logged_tables"])))
    if error:
        facts.add_row(
            "last error", Text(f"{duration(error['age_seconds'])} ago: {error['message']}")
        )
    parts: list[RenderableType] = [facts]
    if body["facts"]:
        parts.append(_facts(body["facts"]))
        parts += [Text(line) for fact in body["facts"] for line in _remarks(fact)]
    parts.append("healthy" if body["healthy"] else "not healthy:")
    for finding in body["findings"]:
        parts.append(Text(f"  {finding['message']}\n  Try: {finding['remedy']}"))
    return Group(*parts)


def watch(report: Callable[[], dict[str, Any]], console: Console) -> None:
    """Show the report until Ctrl-C: refreshed in place on a terminal, else one after another.

    A server that cannot be reached for a while is shown as such. Raises other LoaderErrors.
    """
    # A shell starts background processes with Ctrl-C ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with Live(console=console, auto_refresh=False) as live:
            display: Callable[[RenderableType], None] = (
                (lambda shown: live.update(shown, refresh=True))
                if console.is_terminal
                else console.print
            )
            before: tuple[float, dict[str, Any]] | None = None
            while True:
                try:
                    body, asked_at = report(), time.monotonic()
                except TRANSIENT as error:
                    display(_away(error, before[1] if before else None))
                else:
                    since = asked_at - before[0] if before else 0.0
                    display(render(body, _rate(before[1], body, since) if before else None))
                    before = asked_at, body
                time.sleep(_REFRESH_SECONDS)
    except KeyboardInterrupt:
        return


def ago(moment: str) -> str:
    """Return how long ago an ISO 8601 time was, such as `12 s ago`."""
    return f"{duration((datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds())} ago"


def duration(seconds: float) -> str:
    """Return a length of time in its largest fitting unit, such as `3.5 h`."""
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def _away(error: LoaderError, last: dict[str, Any] | None) -> RenderableType:
    said = Text(f"Error: {error.sentence}\nasking again every {_REFRESH_SECONDS:g} s")
    return Group(render(last), "", said) if last else said


def _rate(before: dict[str, Any], body: dict[str, Any], seconds: float) -> float | None:
    if not (before["position"] and body["position"] and seconds):
        return None
    stored = body["position"]["stored_changes"] - before["position"]["stored_changes"]
    return float(stored) / seconds


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
    held = f"{decimal(slot['wal_held_bytes'] or 0)} ({slot['wal_status']})"
    safe = slot["safe_wal_bytes"]
    if safe is None:
        return f"{held}, no limit"
    return f"{held}, lost after {decimal(max(0, safe))} more"


def _facts(facts: list[dict[str, Any]]) -> Table:
    heads = ("fact", "rows", "applied up to", "behind", "rejected", "left out", "baseline")
    shown = Table(*heads, box=None)
    for fact in facts:
        rows, baseline = fact["rows"], fact["baseline"]
        shown.add_row(
            Text(fact["name"]),
            "none" if rows is None else f"{rows:,}",
            fact["applied_lsn"] or "not built",
            _lag(fact),
            _rejected(fact),
            _left_out(fact["left_out"]),
            "none" if baseline is None else f"{duration(baseline['age_seconds'])} old",
        )
    return shown


def _remarks(fact: dict[str, Any]) -> list[str]:
    """Return what else there is to say of a fact; what is a finding is said there."""
    said = []
    waits, baseline = fact["waits_for"], fact["baseline"]
    if waits is not None and not waits["is_finding"]:
        said.append(f"{fact['name']} {waits['reason']}")
    if baseline is not None and baseline["rejected_count"]:
        reasons = "; ".join(f"{why} ({n:,})" for why, n in baseline["rejected_reasons"].items())
        said.append(
            f"{fact['name']}: its baseline could not count {baseline['rejected_count']:,} rows: "
            + reasons
        )
    if fact["rejected_remedy"]:
        reasons = "; ".join(f"{why} ({n:,})" for why, n in (fact["rejected_reasons"] or {}).items())
        said.append(
            f"{fact['name']} could not count some changes{reasons and ': '}{reasons}\n"
            f"  Try: {fact['rejected_remedy']}"
        )
    return said


def _rejected(fact: dict[str, Any]) -> str:
    if not fact["rejected_lsn"]:
        return "none"
    count = fact["rejected_count"]
    return f"{'' if count is None else f'{count:,} '}up to {fact['rejected_lsn']}"


def _left_out(rows: dict[str, int] | None) -> str:
    """Return how many rows belong to no group, as a dimension of theirs is null."""
    if rows is None:
        return "unknown"
    return ", ".join(f"{count:,} {part}" for part, count in rows.items() if count) or "none"


def _lag(place: dict[str, Any]) -> str:
    return f"{decimal(place['lag_bytes'])}, {duration(place['lag_seconds'])}"
