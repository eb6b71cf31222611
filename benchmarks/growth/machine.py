"""Pure: what machine a year's notifications need, from what each kind of change costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from benchmarks.growth.build import Build
from benchmarks.growth.changes import CPU, IDENTITIES, KINDS, Costs, PerChange

MIX = {"insert": 1, "update": 3, "archive": 1, "delete": 1}
"""Changes in the life of a notification: six."""

PEAK = 10
"""The busiest hour beside the average one."""

_YEAR = 365.25 * 86_400
_DAY = 86_400
_GB = 1e9


_MEASURED = {
    ("full", "insert"): "inserts",
    ("covering", "insert"): "inserts",
    ("full", "archive"): "inserts",
    ("covering", "archive"): "inserts",
    ("full", "update"): "updates, whole old row",
    ("covering", "update"): "updates, covering index",
    ("covering", "delete"): "deletes, covering index",
}
"""The rows of benchmarks.apply that stand for a kind of change; it has no delete under full."""


def with_measured(costs: Costs, rows: Sequence[Mapping[str, object]]) -> Costs:
    """Return the costs with the CPU for storing and applying as benchmarks.apply measured it.

    It measures more changes, so more exactly. What decoding and the loader take depends on how
    large the transactions are, and its are large: there ours stay, with one row each.
    """
    found = {str(row["changes"]): row for row in rows}
    return {
        key: replace(
            cost,
            copy=float(str(found[name]["COPY µs"])) / 1e6,
            apply=float(str(found[name]["apply µs"])) / 1e6,
        )
        if (name := _MEASURED.get(key)) in found
        else cost
        for key, cost in costs.items()
    }


def machine(
    costs: Costs, empty_build: Build, group_bytes: float, notifications: float, window_bytes: int
) -> list[dict[str, object]]:
    """Return a row for each quantity, a column for each replica identity.

    `group_bytes` is the fact's size for each group, `window_bytes` the source's WAL that one
    partition of the change log spans.
    """
    columns = [
        _needs(
            {kind: costs[identity, kind] for kind in KINDS},
            empty_build,
            group_bytes,
            notifications,
            window_bytes,
        )
        for identity in IDENTITIES
    ]
    return [
        {
            "quantity": name,
            **{
                f"identity {i}": column[name] for i, column in zip(IDENTITIES, columns, strict=True)
            },
        }
        for name in columns[0]
    ]


def _needs(
    kinds: dict[str, PerChange],
    empty_build: Build,
    group_bytes: float,
    notifications: float,
    window_bytes: int,
) -> dict[str, float]:
    rate = notifications / _YEAR

    def each(name: str) -> float:
        """Return the sum over a notification's life."""
        return sum(MIX[kind] * float(getattr(kinds[kind], name)) for kind in KINDS)

    log = each("heap") + each("index")
    parts = {name: each(name) * rate * PEAK for name in CPU}
    window_life = window_bytes / each("source_wal")
    return {
        "changes a second, average": sum(MIX.values()) * rate,
        "changes a second, peak": sum(MIX.values()) * rate * PEAK,
        "change log, bytes a notification": log,
        "change log, GB a day": log * rate * _DAY / _GB,
        "change log, GB in 7 days": log * rate * _DAY * 7 / _GB,
        "change log, GB a year": log * rate * _YEAR / _GB,
        "fact of 1,000,000 groups, GB": group_bytes * 1e6 / _GB,
        "WAL at the source, GB a day": each("source_wal") * rate * _DAY / _GB,
        "WAL at the target from staging, GB a day": each("staging_wal") * rate * _DAY / _GB,
        "partitions a day": rate * _DAY / window_life,
        "GB in one partition": window_life * log / _GB,
        "cores at the source at peak, decoding": parts["decode"],
        "cores of the loader at peak": parts["loader"],
        "cores at the target at peak, storing": parts["copy"],
        "cores at the target at peak, applying": parts["apply"],
        "cores at peak, all four": sum(parts.values()),
        "cores on average, all four": sum(parts.values()) / PEAK,
        "cores of one empty build after the other": (empty_build.dbt + empty_build.server)
        / empty_build.seconds,
    }
