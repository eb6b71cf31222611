"""The status for a person: tables, and a view that refreshes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rich.console import Group, RenderableType
from rich.filesize import decimal
from rich.live import Live
from rich.table import Table

_REFRESH_SECONDS = 2.0


def render(body: dict[str, Any]) -> RenderableType:
    """Return the status report as tables, with the problems and their remedies below."""
    slot, position = body["slot"], body["position"]
    facts = Table("", "", show_header=False, box=None)
    facts.add_row("slot", slot["name"])
    if slot["exists"]:
        follower = f"followed by pid {slot['active_pid']}" if slot["active_pid"] else "not followed"
        facts.add_row("", f"{follower}, WAL {slot['wal_status']}")
        facts.add_row("WAL held back", decimal(slot["wal_held_bytes"] or 0))
    if position:
        facts.add_row("position", f"{position['lsn']}, moved {position['moved_at']}")
        facts.add_row("lag", _lag(position))
    models = Table("model", "applied up to", "lag", box=None)
    for model in body["models"]:
        models.add_row(model["name"], model["applied_lsn"], _lag(model))
    parts: list[RenderableType] = [facts]
    if body["models"]:
        parts.append(models)
    parts.append("healthy" if body["healthy"] else "not healthy:")
    for problem in body["problems"]:
        parts.append(f"  {problem['message']}\n  Try: {problem['remedy']}")
    return Group(*parts)


def watch(report: Callable[[], dict[str, Any]]) -> None:
    """Show the report again and again until Ctrl-C. Raises what the report raises."""
    try:
        with Live(render(report()), auto_refresh=False) as live:
            while True:
                time.sleep(_REFRESH_SECONDS)
                live.update(render(report()), refresh=True)
    except KeyboardInterrupt:
        return


def _lag(place: dict[str, Any]) -> str:
    return f"{decimal(place['lag_bytes'])}, {place['lag_seconds']:.0f} s"
