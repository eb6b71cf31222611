"""Registers the declared facts and their tables."""

from __future__ import annotations

from loader.setup.dbt_project import Declared
from loader.source import table_identity
from loader.source.leaf_catalog import LeafCatalog
from loader.staging import registration
from loader.staging.registration import Difference
from waltally.database import Connection
from waltally.facts import source_tables
from waltally.settings import Settings


def read_tables(
    source: Connection, settings: Settings, declared: Declared
) -> list[dict[str, object]]:
    """Return the rows of logged_table for the declared facts. Raises LoaderError."""
    tables = source_tables(declared.facts)
    identities = table_identity.read_current(source, table_identity.wanted(declared.facts))
    roots = LeafCatalog(source, tables, {}).roots
    return [
        registration.logged_row(
            *(settings.slot, table, roots.get(table)),
            **identities.get(str(table), {"column_numbers": {}}),
            held_since={},
        )
        for table in tables
    ]


def register_facts(
    target: Connection, settings: Settings, declared: Declared, tables: list[dict[str, object]]
) -> list[str]:
    """Register what differs, in the open transaction; return what to say.

    `tables` is what `read_tables` returned.
    """
    place = (target, settings.schema, settings.slot)
    registered = registration.read_registration(*place)
    changes = registration.difference(registered, declared.facts)
    registration.register_tables(*place, tables)
    if changes:
        registration.register(*place, declared.facts, changes)
    registration.write_project(*place, declared.project)
    forgotten = registration.forget_roll_ups(
        target, settings.schema, declared.project, declared.roll_ups
    )
    said = [f"forgot {name}, which is no longer declared; its table stays" for name in forgotten]
    return said + _said(changes, is_first=not registered.facts)


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
