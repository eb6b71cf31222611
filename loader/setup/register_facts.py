"""What `loader setup` registers: the declared facts."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from loader.setup.dbt_project import Declared
from loader.source import table_identity
from loader.source.leaf_catalog import LeafCatalog
from loader.staging import registration
from loader.staging.records import Registration
from loader.staging.registration import Difference
from waltally.database import Connection
from waltally.errors import LoaderError, SettingError
from waltally.facts import Fact, source_tables
from waltally.settings import Settings
from waltally.tables import Table


@dataclass(frozen=True)
class Wanted:
    """What is to be registered."""

    facts: tuple[Fact, ...]
    project: str
    """The dbt project that declares the facts."""
    forget: frozenset[str]
    """Registered facts of other projects that may be forgotten."""
    roll_ups: tuple[str, ...] = ()
    """The names of the declared roll-ups, which dbt installs; setup forgets the others."""

    @property
    def tables(self) -> tuple[Table, ...]:
        """Every table to be followed, each once."""
        return source_tables(self.facts)

    @classmethod
    def of(cls, declared: Declared, forget: Iterable[str] = ()) -> Wanted:
        """Return what these declarations ask for."""
        return cls(declared.facts, declared.project, frozenset(forget), declared.roll_ups)


def unchanged(registered: Registration, wanted: Wanted) -> list[Fact]:
    """Return the registered facts that stay as they are: others need a new baseline anyway."""
    declared = {fact.name: fact.declaration for fact in wanted.facts}
    return [each for each in registered.facts if declared.get(each.name) == each.declaration]


def foreign_findings(target: Connection, settings: Settings, wanted: Wanted) -> list[LoaderError]:
    """Return which facts of other dbt projects setup would forget, or count by another declaration.

    A fact of which no project is known may stay as it is declared here.
    """
    with target.transaction():
        registered = registration.read_registration(target, settings.schema, settings.slot)
        projects = registration.read_projects(target, settings.schema, settings.slot)
    declared = {fact.name: fact.declaration for fact in wanted.facts}
    lost = []
    for fact in registered.facts:
        project = projects[fact.name]
        if project == wanted.project or fact.name in wanted.forget:
            continue
        if fact.name not in declared or (project and declared[fact.name] != fact.declaration):
            lost.append((fact.name, f"the dbt project {project}" if project else "an unknown one"))
    if not lost:
        return []
    listed = ", ".join(f"{name} of {project}" for name, project in lost)
    flags = " ".join(f"--forget {shlex.quote(name)}" for name, _ in lost)
    return [
        SettingError(
            f"The dbt project {wanted.project} was read, and setup would forget {listed}",
            "run this in the folder of that dbt project, or set DBT_PROJECT_DIR to it; or, to "
            f"forget what is named: `loader setup {flags}`",
        )
    ]


def read_tables(source: Connection, settings: Settings, wanted: Wanted) -> list[dict[str, object]]:
    """Return the rows of logged_table for the wanted tables. Raises LoaderError."""
    identities = table_identity.read_current(source, table_identity.wanted(wanted.facts))
    roots = LeafCatalog(source, wanted.tables, {}).roots
    return [
        registration.logged_row(
            *(settings.slot, table, roots.get(table)),
            **identities.get(str(table), {"column_numbers": {}}),
            held_since={},
        )
        for table in wanted.tables
    ]


def register_facts(
    target: Connection, settings: Settings, wanted: Wanted, tables: list[dict[str, object]]
) -> list[str]:
    """Register what differs, in the open transaction; return what to say.

    `tables` is what `read_tables` returned.
    """
    registered = registration.read_registration(target, settings.schema, settings.slot)
    changes = registration.difference(registered, wanted.facts)
    registration.register_tables(target, settings.schema, settings.slot, tables)
    if changes:
        registration.register(target, settings.schema, settings.slot, wanted.facts, changes)
    registration.write_project(target, settings.schema, settings.slot, wanted.project)
    said = [
        f"forgot {name}, which is no longer declared; its table stays"
        for name in registration.forget_roll_ups(
            target, settings.schema, wanted.project, wanted.roll_ups
        )
    ]
    return said + (_said(changes, is_first=not registered.facts) if changes else [])


def _said(changes: Difference, is_first: bool) -> list[str]:
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
    return said
