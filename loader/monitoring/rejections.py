"""What counts rejected changes, once their cause is corrected. Pure."""

from __future__ import annotations

from collections.abc import Iterable

_CAUSES = {
    "the replica identity": "run the SQL that `loader setup --check` prints",
    "the row has no column": "give the table its column back, or declare the fact without it and "
    "run `loader setup`",
    "the value of": "correct the table's values or its column's type, or correct the type in the "
    "declaration and run `loader setup`",
    "the values of": "shorten the table's values, or declare the fact with fewer texts and run "
    "`loader setup`",
    "the text of the row": "name a target in an encoding that can hold the text, or correct the "
    "text in the table",
}
"""How a reason begins, and what removes its cause."""
_OTHERWISE = "read the reason in rejected_changes and remove its cause"


def remedy(fact: str, reasons: Iterable[str] | None) -> str:
    """Return what to do about changes that a fact rejected for these reasons; None: not known.

    Only the tables still have what such a change lacks, so a new seed counts it, and no second try.
    """
    causes = dict.fromkeys(_cause(reason) for reason in reasons or ())
    first = "; ".join(causes) or _OTHERWISE
    return f"{first}; then `spark-submit spark/seed.py --fact {fact}`, then `dbt build`"


def _cause(reason: str) -> str:
    return next((cure for start, cure in _CAUSES.items() if reason.startswith(start)), _OTHERWISE)
