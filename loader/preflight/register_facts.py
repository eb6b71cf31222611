"""What `loader setup` registers: the declared facts, and tables that are only logged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg2 import extensions

from loader.preflight import table_identity
from loader.staging import registration
from loader.staging.records import Registration
from loader.staging.registration import Difference
from waltally.facts import Fact, source_tables
from waltally.settings import Settings
from waltally.tables import Table


@dataclass(frozen=True)
class Wanted:
    """What is to be registered."""

    facts: tuple[Fact, ...]
    logged: tuple[Table, ...]
    """Tables that are logged besides those of the facts."""

    @property
    def tables(self) -> tuple[Table, ...]:
        """Every table to be followed, each once."""
        return tuple(dict.fromkeys((*source_tables(self.facts), *self.logged)))

    @classmethod
    def of(cls, facts: Sequence[Fact], tables: Sequence[Table]) -> Wanted:
        """Return what these declarations and LOADER_TABLES ask for."""
        counted = source_tables(facts)
        return cls(tuple(facts), tuple(each for each in tables if each not in counted))


def unchanged(registered: Registration, wanted: Wanted) -> list[Fact]:
    """Return the registered facts that stay as they are: others need a new baseline anyway."""
    declared = {fact.name: fact.declaration for fact in wanted.facts}
    return [each for each in registered.facts if declared.get(each.name) == each.declaration]


def read_identities(
    source: extensions.connection, wanted: Wanted
) -> table_identity.TableIdentities:
    """Return which tables the facts' names mean now. Raises LoaderError."""
    return table_identity.read_current(source, table_identity.wanted(wanted.facts))


def register_facts(cursor: extensions.cursor, settings: Settings, wanted: Wanted) -> list[str]:
    """Register what differs, in the transaction of the cursor; return what to say."""
    registered = registration.read_registered(cursor, settings.schema, settings.slot)
    changes = registration.difference(registered, wanted.facts, wanted.logged)
    if not changes:
        return []
    registration.register(
        cursor, settings.schema, settings.slot, wanted.facts, wanted.logged, changes
    )
    return _said(changes, wanted, is_first=not registered.facts)


def _said(changes: Difference, wanted: Wanted, is_first: bool) -> list[str]:
    seed = "`spark-submit spark/seed.py --fact {0}`, then `dbt build`"
    said = [
        f"registered {name}" + ("" if is_first else f"; it needs {seed.format(name)}")
        for name in changes.new
    ]
    said += [
        f"registered {name} as it is declared now; it stays as it was until {seed.format(name)}"
        for name in changes.changed
    ]
    said += [f"registered another table for {name}" for name in changes.moved]
    said += [
        f"forgot {fact.name}, which is no longer declared; the table {fact.relation} stays"
        for fact in changes.removed
    ]
    if changes.logged:
        said += [f"{table} is logged, and no fact counts it" for table in wanted.logged]
        said += [] if wanted.logged else ["no table is only logged any more"]
    return said
