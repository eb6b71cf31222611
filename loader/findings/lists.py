"""Which rules setup, the stream, status and wait ask, the most fundamental first. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from loader.findings import progress, server, slot, standbys, synchronous, tables, target
from loader.source.state import State
from waltally.errors import LoaderError

Rules = tuple[Callable[[State], Iterable[LoaderError]], ...]


def server_fits(state: State) -> Iterator[LoaderError]:
    """The server has to let the slot be made and followed."""
    return server.server_findings(state.server)


SERVER: Rules = (standbys.slot_can_have_copies, server_fits, synchronous.commits_do_not_wait)
"""Without these there can be no slot."""

TABLES: Rules = (
    tables.table_names_differ,
    tables.tables_fit,
    tables.no_partition_is_declared,
    tables.leaves_fit,
)
"""A model over a table that breaks one waits, and the others follow."""

TARGET: Rules = (
    target.encoding_fits,
    target.no_other_slot,
    target.rows_can_be_deleted,
)

SLOT: Rules = (slot.slot_goes_on,)
"""Where the slot is set up and stays."""

COUNTED: Rules = (tables.tables_are_those_counted,)
"""Where the slot is set up and stays: a model over a table that breaks one waits for its seed."""

CHECK: Rules = (
    slot.slot_is_free,
    target.functions_are_ours,
    standbys.slot_has_copies,
    *SLOT,
    *COUNTED,
)
"""Rules of `--check`. Setup refuses by SLOT; it mends what the other rules find."""

STREAM: Rules = (
    slot.slot_goes_on,
    synchronous.commits_do_not_wait,
    tables.tables_are_there,
    tables.no_partition_is_declared,
)
"""Rules without which nothing can be streamed."""

NOTED: Rules = (tables.tables_are_those_counted, tables.leaves_fit)
"""Rules whose findings the loader logs: the log goes on, and the models wait."""

COMPLETE: Rules = (
    slot.slot_goes_on,
    tables.tables_fit,
    tables.no_partition_is_declared,
    tables.leaves_fit,
    tables.tables_are_those_counted,
)
"""Where one is broken, a model may lack what is committed, however far it is."""

STATUS: Rules = (
    *COMPLETE,
    synchronous.commits_do_not_wait,
    standbys.standbys_stream,
    progress.models_go_on,
    progress.loader_stores,
    progress.models_are_applied,
    progress.wal_is_freed,
    progress.slot_is_not_idle,
    progress.wal_is_left,
    target.is_set_up,
)
"""Rules of `loader status`."""


def findings(rules: Rules, state: State) -> list[LoaderError]:
    """Return what these rules find."""
    return [finding for rule in rules for finding in rule(state)]
