"""Random histories of the tables of any fact as wal2json sends them."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.properties.counted import Change
from waltally.facts import Fact, FactTable

IDS = ["00000000-0000-0000-0000-00000000000a", "B0000000-0000-0000-0000-00000000000B"]
POOLS: dict[str, list[Any]] = {
    "service_id": [*IDS, None, "no uuid"],
    "template_id": [IDS[0], IDS[1], None],
    "notification_type": ["email", "sms"],
    "notification_status": ["created", "sent", None, "x" * 1001],
    "Channel": ["web", 'ä "quoted" \\ one', None, "", "x" * 1001],
    "placed_at": [
        "2026-03-28 23:59:59.999999",
        "2026-03-29 00:00:00",
        "2026-10-24 23:30:00+00",
        "2026-10-25",
        "noon",
        "2026-02-29 10:00:00",
        None,
    ],
    "amount": [1, -2.5, "0.10", "1e1", 1.005, "much", None],
    "state": ["paid", "sent", "open", None],
    "is_test": [False, True, None],
    "project": [1, "2", "2147483648", "01", None],
    "at": ["2026-06-30 11:59:59", "2026-06-30 12:00:00", "2026-09-30 11:00:00+00", "?", None],
    "details": ['{"note": ["a\\u00e9"]}', '{"note": [1.50, 2]}', '{"note": null}', "{", None],
    "hours": [0.25, "-0.250", 8, "eight", None],
}
"""By column of the declaration; the good values are drawn more often."""

ODD = ["no json", "{", "[]", "null", '{"action":"I"}', '{"action":"Z"}', '{"action":"T","table":1}']


def random_history(dice: Random, fact: Fact) -> list[list[Change]]:
    """Transactions of changes of the fact's tables, some of which no plugin would send."""

    def image(part: FactTable) -> list[dict[str, Any]]:
        found = []
        for name in dict.fromkeys((*fact.used_columns(part), "unrelated")):
            pool = POOLS.get(name, ["a", "b"])
            if dice.random() > 0.03:
                value = dice.choice([*pool[:2] * 3, *pool])
                found.append({"name": part.column(name), "value": value})
        return found

    def change() -> Change:
        action = dice.choice("IIIIIUUUUDD" * 3 + "T?")
        if action == "?":
            return dice.choice(ODD)
        part = dice.choice(fact.tables)
        made: dict[str, Any] = {
            "action": action,
            "schema": part.table.schema,
            "table": part.table.name,
        }
        if action in "IU":
            made["columns"] = image(part)
        if action == "U" and dice.random() < 0.4:
            # Nothing changes, where the old row says all.
            made["identity"] = [each for each in made["columns"] if dice.random() > 0.05]
        elif action in "UD" and dice.random() > 0.1:
            made["identity"] = image(part)
        return made

    return [[change() for _ in range(dice.randint(1, 5))] for _ in range(dice.randint(1, 12))]
