"""What is wrong with a setup, one rule a function, each finding with its remedy. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from loader.setup.declared import Declared
from loader.source import findings as source_rules
from loader.source.slot import another_name
from loader.source.standbys import findings as standby_rules
from loader.source.state import State
from loader.staging.records import other_functions
from waltally.errors import (
    EncodingUnfit,
    IdentityTooNarrow,
    LoaderError,
    NotOurs,
    NotSetUp,
    SettingError,
    SlotInUse,
    SlotMoved,
)
from waltally.models import source_tables
from waltally.tables import quoted

Rule = Callable[[State, Declared], Iterable[LoaderError]]


def table_names_differ(_: State, declared: Declared) -> Iterator[LoaderError]:
    """The log tells tables apart by their names."""
    names = [str(table) for table in source_tables(declared.models)]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield SettingError(
                f"Two tables are both written {name}, and the log could not tell them apart",
                "rename one of them: no dot in a schema's or a table's name",
            )


def encoding_fits(state: State, _: Declared) -> Iterator[LoaderError]:
    """The target has to hold the source's text, which comes as the source stores it."""
    theirs, ours = state.server.encoding, state.target_encoding
    if ours in (theirs, "SQL_ASCII") or (ours == "UTF8" and theirs != "SQL_ASCII"):
        return
    yield EncodingUnfit(
        f"The target's encoding is {ours}, which cannot hold every text of a source in {theirs}",
        f"name a target database made with: create database ... encoding '{theirs}' template "
        "template0" + ("" if theirs == "SQL_ASCII" else "; UTF8 holds every encoding's text"),
    )


def dbt_can_name_target(state: State, _: Declared) -> Iterator[LoaderError]:
    """The SQL of dbt itself does not escape a quote in the database's name."""
    name = state.target_database
    if "'" in name or '"' in name:
        plain = re.sub(r"\W", "_", name)
        yield SettingError(
            f"The target's database is named {name}, and dbt cannot use a name with a quote",
            f"alter database {quoted(name)} rename to {quoted(plain)}; -- or name another database",
        )


def zones_are_known(state: State, declared: Declared) -> Iterator[LoaderError]:
    """The target, where the days are computed, has to know each time zone by name.

    It would take any other text too, such as UTC+3, and other programs read that the other way.
    """
    models: dict[str, str] = {}
    for model in declared.models:
        if (zone := model.declaration["timezone"]) in state.unknown_zones:
            models.setdefault(zone, model.name)
    for zone, name in models.items():
        yield SettingError(
            f"{name} takes days in the time zone {zone!r}, which the target does not know",
            "write a name of: select name from pg_timezone_names; such as Europe/London or UTC",
        )


def no_other_slot(state: State, _: Declared) -> Iterator[LoaderError]:
    """Two slots may feed a model only where it tells their rows apart."""
    for name, other in state.other_slots.items():
        yield SettingError(
            f"The model {name} is fed by the slot {other}: the slot {state.slot.name} would mix "
            "its rows with those",
            "write a model for each slot, and one that reads both by ref(); or keep the sources "
            f"apart by LOADER_SCHEMA and DBT_SCHEMA; or, if {other} is gone for good: "
            f"loader teardown --drop-data --slot {other}",
        )


def rows_can_be_deleted(state: State, _: Declared) -> Iterator[LoaderError]:
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


def slot_is_free(state: State, declared: Declared) -> Iterator[LoaderError]:
    """A slot that is there already may be another target's, which would lose its changes."""
    slot, server = state.slot.state, state.slot.server
    # Of a copy, setup says more.
    if slot is None or state.slot.record is not None:
        return
    name = state.slot.name
    another = f"export LOADER_SLOT={another_name(name, server.database)}; loader setup"
    if slot.plugin != "wal2json" or slot.database != server.database:
        what = f"of plugin {slot.plugin} in database {slot.database}"
        yield SlotMoved(
            f"A slot {name} exists already, {what if slot.plugin else 'a physical one'}", another
        )
    elif slot.active_pid is not None:
        yield SlotInUse(
            f"A slot {name} exists already, and pid {slot.active_pid} follows it",
            f"{another}; or stop who follows it, if nobody needs that any more",
        )
    elif slot.confirmed_flush_lsn is None or slot.wal_status == "lost":
        yield SlotMoved(
            f"A slot {name} exists already and has lost its WAL",
            another,
        )
    elif not declared.take_slot:
        yield NotOurs(
            f"A slot {name} exists already, and schema {state.schema} of this target has no "
            "record of it: another target may have the record, and would lose what is confirmed "
            "from here",
            f"{another}; or, if no other target follows it, because a migration made it or a setup "
            "was interrupted: `loader setup --take-slot`",
        )


def _of_source(rule: source_rules.Rule) -> Rule:
    return lambda state, _: rule(state)


def _of_copies(rule: source_rules.Rule) -> Rule:
    return lambda state, declared: rule(state) if declared.failover else ()


SERVER_RULES: tuple[Rule, ...] = (
    _of_copies(standby_rules.slot_can_have_copies),
    _of_source(source_rules.server_fits),
    _of_source(standby_rules.commits_do_not_wait),
)
"""Without these there can be no slot."""

TABLE_RULES: tuple[Rule, ...] = (
    table_names_differ,
    _of_source(source_rules.tables_fit),
    _of_source(source_rules.no_partition_is_declared),
    _of_source(source_rules.leaves_fit),
)
"""A model over a table that breaks one waits, and the others follow."""

TARGET_RULES: tuple[Rule, ...] = (
    encoding_fits,
    dbt_can_name_target,
    zones_are_known,
    no_other_slot,
    rows_can_be_deleted,
)

SLOT_RULES: tuple[Rule, ...] = (_of_source(source_rules.slot_goes_on),)
"""Where the slot is set up and stays."""

COUNTED_RULES: tuple[Rule, ...] = (_of_source(source_rules.tables_are_those_counted),)
"""Where the slot is set up and stays: a model over a table that breaks one waits for its seed."""


def functions_are_ours(state: State, _: Declared) -> Iterator[LoaderError]:
    """The target's functions have to be those of this version."""
    if state.slot.record is not None and state.has_other_functions:
        yield other_functions(state.schema)


CHECK_RULES: tuple[Rule, ...] = (
    slot_is_free,
    functions_are_ours,
    _of_copies(standby_rules.slot_has_copies),
    *SLOT_RULES,
    *COUNTED_RULES,
)
"""Rules of `--check`. Setup refuses by SLOT_RULES; it mends what the other rules find."""


def not_set_up(state: State) -> list[LoaderError]:
    """Return that the slot is not set up, for a check that has found nothing."""
    if state.slot.record is not None:
        return []
    return [
        NotSetUp(
            f"Server and tables are ready; the slot {state.slot.name} is not set up yet",
            "run `loader setup`",
        )
    ]


def findings(rules: Iterable[Rule], state: State, declared: Declared) -> list[LoaderError]:
    """Return what these rules find."""
    return [finding for rule in rules for finding in rule(state, declared)]
