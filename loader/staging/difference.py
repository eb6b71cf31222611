"""How the declared models differ from the registered ones. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loader.staging.records import Registration
from waltally.models import Model
from waltally.tables import Table


@dataclass(frozen=True)
class Difference:
    """How the declared models differ from the registered ones: by name."""

    new: tuple[str, ...]
    changed: tuple[str, ...]
    """Declared otherwise than registered: they need a new baseline."""
    moved: Mapping[str, Table]
    """Only their relation is another one; with the one that it was."""
    removed: tuple[Model, ...]

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.moved or self.removed)

    def __str__(self) -> str:
        clauses = [
            *(f"{name} is new" for name in self.new),
            *(f"{name} has changed" for name in self.changed),
            *(f"{name} is now another table" for name in self.moved),
            *(f"{model.name} is no longer declared" for model in self.removed),
        ]
        return ", ".join(clauses)


def difference(registered: Registration, declared: Sequence[Model]) -> Difference:
    """Return what registering the declared models would change."""
    before = {model.name: model for model in registered.models}
    now = {model.name: model for model in declared}
    both = [(before[name], model) for name, model in now.items() if name in before]
    return Difference(
        tuple(name for name in now if name not in before),
        tuple(new.name for old, new in both if old.declaration != new.declaration),
        {
            new.name: old.relation
            for old, new in both
            if old.declaration == new.declaration and old.relation != new.relation
        },
        tuple(model for name, model in before.items() if name not in now),
    )
