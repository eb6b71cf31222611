"""What an example is for the demo and the tests: its sources, its traffic and its recounts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from testkit.comparison import Recount
from testkit.traffic import Sessions

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples"


class StartTraffic(Protocol):
    """Makes an example's traffic on a source; nothing is written before its `start`."""

    def __call__(
        self, dsn: str, *, seed: int, rate: float | None, truncates: bool
    ) -> Sessions[Any]:
        """Return the sessions; `rate` as there, `truncates` adds TRUNCATE to the changes."""


@dataclass(frozen=True)
class Example:
    """A folder of examples/: a dbt project that lists waltally as a package, and a source."""

    name: str
    slots: tuple[str, ...]
    """One per source."""
    about: str
    """What the sessions write, for the demo's reader."""
    create: Callable[[str], None]
    """Makes the empty tables of a source, given its DSN, with their replica identity."""
    fill: Callable[[str, int, int], None]
    """Fills a source, given its DSN, about how many rows, and a seed of the random numbers."""
    traffic: StartTraffic
    recounts: tuple[Recount, ...]
    """One per model; the first is the one that the demo shows."""
    total: str
    """SQL at the warehouse: one number, what the first model counts altogether."""
    total_of: str
    """What that number counts, in the plural."""
    table: str
    """SQL at the warehouse: a row's name, a column's name and the number in that cell."""
    corner: str
    """What the names of the table's rows are."""

    @property
    def project(self) -> Path:
        """The dbt project's folder."""
        return FOLDER / self.name

    @property
    def has_spark_models(self) -> bool:
        """Whether spark/apply.py applies some of its models."""
        models = self.project.glob("models/*.sql")
        return any("engine='spark'" in model.read_text() for model in models)

    @property
    def has_warehouse(self) -> bool:
        """Whether models and change log are in a database of their own, as several sources need."""
        return len(self.slots) > 1

    @property
    def warehouse(self) -> str:
        """The database of models and change log."""
        return "warehouse" if self.has_warehouse else "postgres"

    def database(self, slot: str) -> str:
        """Return the database that a slot is of."""
        return slot if self.has_warehouse else "postgres"


def names() -> list[str]:
    """Return the examples' names."""
    return sorted(found.parent.name for found in FOLDER.glob("*/example.py"))


def load(name: str) -> Example:
    """Return the example with this name."""
    found: Example = import_module(f"examples.{name}.example").EXAMPLE
    return found
