"""Random histories of a few rows as wal2json sends them, and what they must come to.

Independent of the models: rows are kept as the plugin's changes say, and judged by the rules of
the README in plain Python.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

Image = dict[str, Any]
Change = dict[str, Any] | str
Transaction = list[Change]
Group = tuple[str, ...]

DIMENSIONS = ("service_id", "template_id", "notification_type", "notification_status")
PARTS = {"notifications": "live", "notification_history": "archived"}

IDS = ["00000000-0000-0000-0000-00000000000a", "B0000000-0000-0000-0000-00000000000B"]
VALUES: dict[str, list[Any]] = {
    "service_id": [*IDS, None, "no uuid"],
    "template_id": [IDS[0], None],
    "notification_type": ["email", "sms"],
    "notification_status": ["created", "sent", None, "x" * 1001],
}
ODD = ["no json", "{", "[]", "null", '{"action":"I"}', '{"action":"Z"}', '{"action":"T","table":1}']

images = st.fixed_dictionaries({n: st.sampled_from(v) for n, v in VALUES.items()})
"""A row; which columns an image lacks is drawn apart."""

absences = st.one_of(st.just(frozenset[str]()), st.frozensets(st.sampled_from(DIMENSIONS)))


def columns(image: Image, absent: frozenset[str]) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in image.items() if name not in absent]


@st.composite
def changes(draw: st.DrawFn) -> Change:
    """One change; now and then one that no plugin would send."""
    action = draw(st.sampled_from("IIIIUUUDTTT?"))
    if action == "?":
        return draw(st.sampled_from(ODD))
    table = draw(st.sampled_from(["notifications", "notifications", "notification_history", "x"]))
    change: dict[str, Any] = {"action": action, "schema": "public", "table": table}
    if action in "IU":
        change["columns"] = columns(draw(images), draw(absences))
    if action in "UD" and draw(st.integers(0, 9)):
        change["identity"] = columns(draw(images), draw(absences))
    return change


histories: st.SearchStrategy[list[Transaction]] = st.lists(
    st.lists(changes(), min_size=1, max_size=4), min_size=1, max_size=12
)


@dataclass
class Outcome:
    """The counts and how many changes of each transaction were rejected, by ordinal."""

    live: Counter[Group] = field(default_factory=Counter)
    archived: Counter[Group] = field(default_factory=Counter)
    rejected: list[tuple[int, int]] = field(default_factory=list)


def outcome(history: list[Transaction]) -> Outcome:
    """Judge change by change."""
    result = Outcome()
    for number, transaction in enumerate(history):
        for ordinal, change in enumerate(transaction, 1):
            if not apply(result, change):
                result.rejected.append((number, ordinal))
    return result


def apply(result: Outcome, change: Change) -> bool:
    """Add a change up; False where it cannot be counted."""
    if isinstance(change, str):
        return False
    if change["table"] not in PARTS:
        return True
    counts: Counter[Group] = getattr(result, PARTS[change["table"]])
    action = change["action"]
    if action == "T":
        counts.clear()
        return True
    if action == "D" and PARTS[change["table"]] == "archived":
        return True
    new = {c["name"]: c["value"] for c in change.get("columns", ())}
    old = {c["name"]: c["value"] for c in change.get("identity", ())}
    if action != "I" and "identity" not in change:
        return False
    if action == "U":
        new = old | new
        if set(old) == set(new) == set(DIMENSIONS) and old == new:
            return True
    moves = [(new, 1)] if action in "IU" else []
    moves += [(old, -1)] if action in "UD" else []
    moves = [(image, sign) for image, sign in moves if None not in image.values()]
    if not all(countable(image) for image, _ in moves):
        return False
    for image, sign in moves:
        counts[group(image)] += sign
    return True


def countable(image: Image) -> bool:
    return (
        set(image) == set(DIMENSIONS)
        and image["service_id"] != "no uuid"
        and len(image["notification_status"]) <= 1000
    )


def group(image: Image) -> Group:
    return tuple(image[n].lower() if n.endswith("_id") else image[n] for n in DIMENSIONS)


def payload(change: Change) -> str:
    return change if isinstance(change, str) else json.dumps(change)
