"""Reads the `State` that findings are rules over from source and target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from loader.source.asking import ask_server, read_server, read_slot_state
from loader.source.asking_tables import ask_narrow_leaves, ask_table, read_counted, read_current
from loader.source.leaf_catalog import LeafCatalog
from loader.source.slot import SlotInfo
from loader.source.slot_admin import read_slot
from loader.source.state import State
from loader.source.statements import statement
from loader.staging import migrate, registration
from loader.staging.logged_tables import Root
from loader.staging.target_state import read_stored
from waltally.database import Connection, Target
from waltally.models import Model, source_tables
from waltally.settings import Settings
from waltally.tables import Table


def read_source(
    settings: Settings, source: Connection, models: Sequence[Model], slot: SlotInfo | None = None
) -> State:
    """Return the state with what the source says; without `slot`, also of that.

    Raises LoaderError.
    """
    name, tables = settings.slot, source_tables(models)
    roots = LeafCatalog(source, tables, {}).roots
    if slot is None:
        slot = SlotInfo(name, read_slot_state(source, name), None, read_server(source))
    state = read_stream(settings, source, slot, models, roots)
    return replace(state, tables=tuple(ask_table(source, table, models) for table in tables))


def read_stream(
    settings: Settings,
    source: Connection,
    slot: SlotInfo,
    models: Sequence[Model],
    roots: Mapping[Table, Root],
) -> State:
    """Return the state without the tables: asking for their sizes would wait for their locks.

    Raises LoaderError.
    """
    return State(
        settings.schema,
        ask_server(source, slot.name),
        slot,
        tuple(models),
        (),
        roots,
        ask_narrow_leaves(source, roots, models),
        read_current(source, models),
    )


def read_target(state: State, target: Target) -> State:
    """Return the state with what the target says of the models. Raises LoaderError."""
    encoding = target.info.parameter_status("server_encoding") or ""
    state = replace(state, target_encoding=encoding)
    if not migrate.version(target):
        return state
    others = {model.name: registration.other_slot(target, model) for model in state.models}
    published = target.ask_staging(statement("without_identity"), (target.schema,))
    return replace(
        state,
        other_slots={name: slot for name, slot in others.items() if slot is not None},
        without_identity=tuple(Table(*row) for row in published),
    )


def read_record(state: State, settings: Settings, source: Connection, target: Target) -> State:
    """Return the state with what is set up of the slot. Raises LoaderError."""
    state = replace(state, slot=read_slot(settings, source, target))
    if not migrate.version(target):
        return state
    return replace(
        state,
        registration=registration.read_registration(target),
        counted=read_counted(target),
        has_other_functions=migrate.has_other_functions(target),
    )


def read_state(
    settings: Settings, source: Connection, target: Target, names: Sequence[str] = ()
) -> State:
    """Return the state for the registered models, with positions and models. Raises LoaderError.

    Where `names` are all names of models, it is read for the tables of these alone.
    """
    # In this order, because a running loader moves all three: the slot is never ahead of the
    # record, and the record is never ahead of the end of the WAL.
    slot = read_slot(settings, source, target)
    stored = read_stored(target) if slot.record is not None else None
    models = () if stored is None else stored.registration.models
    if names and {model.name for model in models}.issuperset(names):
        models = tuple(model for model in models if model.name in names)
    state = read_source(settings, source, models, slot)
    if stored is None:
        return state
    return replace(
        state,
        registration=stored.registration,
        counted=read_counted(target),
        stored=stored,
    )
