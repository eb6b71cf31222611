"""What dbt executes for a model, kept to be executed again without dbt. Pure.

For a table that is there, dbt executes the same statements in each run: what a batch is, is decided
in them, by the server. So a run can be recorded and executed again, for a fiftieth of dbt's own
time. That holds only while nothing has changed that dbt looked at; a plan is thrown away then, and
dbt runs as before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Rows = list[list[str | None]]


@dataclass(frozen=True)
class Statement:
    """One statement of a run."""

    sql: str
    found: Rows | None = None
    """The rows on which the rest of the run depends; None where the run looks at none."""


Statements = tuple[Statement, ...]


class Plans:
    """The statements of each model, usable once two runs of dbt have executed the same ones.

    A hook may write a time or an id into its statement. Two runs tell.
    """

    def __init__(self) -> None:
        self._recorded: dict[str, Statements] = {}
        self._confirmed: set[str] = set()

    def learn(self, recorded: Mapping[str, Statements]) -> None:
        """Take the statements of a run of dbt, by model."""
        for model, statements in recorded.items():
            if self._recorded.get(model) == statements:
                self._confirmed.add(model)
            else:
                self._recorded[model] = statements
                self._confirmed.discard(model)

    def forget(self, model: str) -> None:
        """Throw a model's plan away; dbt has to confirm the next one anew."""
        self._recorded.pop(model, None)
        self._confirmed.discard(model)

    @property
    def confirmed(self) -> dict[str, Statements]:
        """The plans that can be executed, by model, in the order in which dbt ran them first."""
        return {
            model: statements
            for model, statements in self._recorded.items()
            if model in self._confirmed
        }
