"""Random histories of a few rows as wal2json sends them; `tests.fact_oracle` judges them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from testkit.source import DIMENSIONS
from tests.fact_oracle import Change, Transaction

Image = dict[str, Any]

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


def payload(change: Change) -> str:
    return change if isinstance(change, str) else json.dumps(change)
