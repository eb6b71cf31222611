"""How the declared facts differ from the registered ones. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loader.staging.records import Registration
from waltally.facts import Fact


@dataclass(frozen=True)
class Difference:
    """How the declared facts differ from the registered ones: by name."""

    new: tuple[str, ...]
    changed: tuple[str, ...]
    """Declared otherwise than registered: they need a new baseline."""
    moved: tuple[str, ...]
    """Only their relation is another one."""
    removed: tuple[Fact, ...]

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.moved or self.removed)

    def __str__(self) -> str:
        clauses = [
            *(f"{name} is new" for name in self.new),
            *(f"{name} has changed" for name in self.changed),
            *(f"{name} is now another table" for name in self.moved),
            *(f"{fact.name} is no longer declared" for fact in self.removed),
        ]
        return ", ".join(clauses)


def difference(registered: Registration, declared: Sequence[Fact]) -> Difference:
    """Return what registering the declared facts would change."""
    before = {fact.name: fact for fact in registered.facts}
    now = {fact.name: fact for fact in declared}
    both = [(before[name], fact) for name, fact in now.items() if name in before]
    return Difference(
        tuple(name for name in now if name not in before),
        tuple(new.name for old, new in both if old.declaration != new.declaration),
        tuple(
            new.name
            for old, new in both
            if old.declaration == new.declaration and old.relation != new.relation
        ),
        tuple(fact for name, fact in before.items() if name not in now),
    )
