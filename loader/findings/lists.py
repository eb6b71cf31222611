"""Which rules setup, the stream, status and wait ask, the most fundamental first. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from loader.findings.progress import (
    loader_stores,
    models_are_applied,
    models_go_on,
    slot_is_not_idle,
    wal_is_freed,
    wal_is_left,
)
from loader.findings.server import server_findings
from loader.findings.slot import slot_goes_on, slot_is_free
from loader.findings.standbys import slot_can_have_copies, slot_has_copies, standbys_stream
from loader.findings.synchronous import commits_do_not_wait
from loader.findings.tables import (
    leaves_fit,
    no_partition_is_declared,
    table_names_differ,
    tables_are_there,
    tables_are_those_counted,
    tables_fit,
)
from loader.findings.target import (
    encoding_fits,
    functions_are_ours,
    is_set_up,
    no_other_slot,
    rows_can_be_deleted,
)
from loader.source.state import State
from waltally.errors import LoaderError

Rules = tuple[Callable[[State], Iterable[LoaderError]], ...]


def server_fits(state: State) -> Iterator[LoaderError]:
    """The server has to let the slot be made and followed."""
    return server_findings(state.server)


SERVER: Rules = (slot_can_have_copies, server_fits, commits_do_not_wait)
"""Without these there can be no slot."""

TABLES: Rules = (table_names_differ, tables_fit, no_partition_is_declared, leaves_fit)
"""A model over a table that breaks one waits, and the others follow."""

TARGET: Rules = (
    encoding_fits,
    no_other_slot,
    rows_can_be_deleted,
)

SLOT: Rules = (slot_goes_on,)
"""Where the slot is set up and stays."""

COUNTED: Rules = (tables_are_those_counted,)
"""Where the slot is set up and stays: a model over a table that breaks one waits for its seed."""

CHECK: Rules = (slot_is_free, functions_are_ours, slot_has_copies, *SLOT, *COUNTED)
"""Rules of `--check`. Setup refuses by SLOT; it mends what the other rules find."""

STREAM: Rules = (slot_goes_on, commits_do_not_wait, tables_are_there, no_partition_is_declared)
"""Rules without which nothing can be streamed."""

NOTED: Rules = (tables_are_those_counted, leaves_fit)
"""Rules whose findings the loader logs: the log goes on, and the models wait."""

COMPLETE: Rules = (
    slot_goes_on,
    tables_fit,
    no_partition_is_declared,
    leaves_fit,
    tables_are_those_counted,
)
"""Where one is broken, a model may lack what is committed, however far it is."""

STATUS: Rules = (
    *COMPLETE,
    commits_do_not_wait,
    standbys_stream,
    models_go_on,
    loader_stores,
    models_are_applied,
    wal_is_freed,
    slot_is_not_idle,
    wal_is_left,
    is_set_up,
)
"""Rules of `loader status`."""


def findings(rules: Rules, state: State) -> list[LoaderError]:
    """Return what these rules find."""
    return [finding for rule in rules for finding in rule(state)]
