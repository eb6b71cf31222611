"""Whether the target can hold what the source sends, and is set up by this version. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from loader.source.state import State
from loader.staging.records import other_functions
from waltally.errors import (
    EncodingUnfit,
    IdentityTooNarrow,
    LoaderError,
    NotSetUp,
    SettingError,
)


def encoding_fits(state: State) -> Iterator[LoaderError]:
    """The target has to hold the source's text, which comes as the source stores it."""
    theirs, ours = state.server.encoding, state.target_encoding
    if ours in (theirs, "SQL_ASCII") or (ours == "UTF8" and theirs != "SQL_ASCII"):
        return
    yield EncodingUnfit(
        f"The target's encoding is {ours}, which cannot hold every text of a source in {theirs}",
        f"name a target database made with: create database ... encoding '{theirs}' template "
        "template0" + ("" if theirs == "SQL_ASCII" else "; UTF8 holds every encoding's text"),
    )


def no_other_slot(state: State) -> Iterator[LoaderError]:
    """Two slots may feed a model only where it tells their rows apart."""
    for name, other in state.other_slots.items():
        yield SettingError(
            f"The model {name} is fed by the slot {other}: the slot {state.slot.name} would mix "
            "its rows with those",
            "write a model for each slot, and one that reads both by ref(); or keep the sources "
            f"apart by LOADER_SCHEMA and DBT_SCHEMA; or, if {other} is gone for good: "
            f"loader teardown --drop-data --slot {other}",
        )


def rows_can_be_deleted(state: State) -> Iterator[LoaderError]:
    """A publication must not take our tables the right to update and delete.

    PostgreSQL refuses both in a published table without a replica identity, so that rebuilds and
    seeds would fail.
    """
    if names := [table.quoted for table in state.without_identity]:
        yield IdentityTooNarrow(
            f"A publication in the target has {', '.join(names)}, which lack a replica identity: "
            "nothing can be deleted there",
            " ".join(f"alter table {name} replica identity full;" for name in names),
        )


def functions_are_ours(state: State) -> Iterator[LoaderError]:
    """The target's functions have to be those of this version."""
    if state.slot.record is not None and state.has_other_functions:
        yield other_functions(state.schema)


def is_set_up(state: State) -> Iterator[LoaderError]:
    """The target has to have a record of the slot."""
    if state.stored is None:
        yield NotSetUp(
            f"The slot {state.slot.name} is not set up in schema {state.schema} of the target",
            "run `loader setup`",
        )
