"""`loader setup`: check, and make what the loader needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace

from loader.findings import lists
from loader.findings.lists import findings
from loader.findings.slot import foreign_slot_finding, slot_is_free
from loader.findings.standbys import primary_note
from loader.setup.begin_log import begin_log
from loader.setup.compile_queries import compile_queries
from loader.setup.declared import Declared
from loader.source.read_state import read_record, read_source, read_target
from loader.source.remedies import setting_remedy
from loader.source.slot_admin import (
    create_slot,
    make_origin,
)
from loader.source.standbys import keep_on_standbys
from loader.source.state import State
from loader.source.table_shape import read_shapes
from loader.staging import migrate, registration
from waltally import locks
from waltally.database import Connection, Target, connect, connect_target
from waltally.errors import LoaderError, NotSetUp, SlotCreationBlocked, combine
from waltally.models import source_tables
from waltally.settings import Settings

_TRIAL_SECONDS = 3


_Asked = tuple[Declared, Connection, Target, State, list[LoaderError]]
"""With the compiled queries, the state as the source tells it, and why queries are refused."""


@contextmanager
def _asked(settings: Settings, declared: Declared, only_reads: bool) -> Iterator[_Asked]:
    """Connect to both and ask the source; who only reads does not wait long for a lock.

    Where the target cannot be reached or refuses a query, that is raised together with what is
    wrong with the source.
    """
    with ExitStack() as opened:
        source = opened.enter_context(closing(connect(settings.source, "source")))
        if only_reads:
            source.give_up_locks()
        try:
            target = opened.enter_context(closing(connect_target(settings)))
            if only_reads:
                target.give_up_locks()
            declared, refused = compile_queries(declared, source, target)
            declared = with_installed(declared, source, target)
        except LoaderError as error:
            state = _read(settings, source, declared)
            problems = findings((*lists.SERVER, *lists.TABLES), state)
            raise combine([*problems, error]) from None
        state = _read(settings, source, declared)
        yield declared, source, target, state, refused


def _read(settings: Settings, source: Connection, declared: Declared) -> State:
    state = read_source(settings, source, declared.models)
    return replace(state, failover=declared.failover, take_slot=declared.take_slot)


def with_installed(declared: Declared, source: Connection, target: Target) -> Declared:
    """Return what is declared with the models that dbt has installed for the slot beside it."""
    if not migrate.version(target):
        return declared
    names = {query.name for query in declared.queries}
    installed = registration.read_registration(target).models
    named = target.ask_staging("select model_name from {}.dependent_model")
    dependents = {name for (name,) in named}
    models = [*declared.models, *(model for model in installed if model.name not in names)]
    unread = [table for table in source_tables(models) if table not in declared.shapes]
    return replace(
        declared,
        models=tuple(models),
        installed=frozenset(dependents | {model.name for model in installed}),
        shapes={**declared.shapes, **read_shapes(source, unread)},
    )


@dataclass(frozen=True)
class Outcome:
    """What was done and what is to be known, a line each, and what is wrong."""

    done: list[str]
    notes: list[str]
    problems: list[LoaderError]
    begins_log: bool = False
    """Whether a log begins, at a slot that was made or taken over."""


def check(settings: Settings, declared: Declared) -> Outcome:
    """Return what is wrong and change nothing. Raises LoaderError for a server that is down."""
    with _asked(settings, declared, only_reads=True) as (declared, source, target, state, refused):
        problems = [*findings((*lists.SERVER, *lists.TABLES), state), *refused]
        if not problems and state.slot.state is None:
            problems += _trial(source, settings.slot)
        state = read_target(state, target)
        state = read_record(state, settings, source, target)
        problems += findings((*lists.TARGET, *lists.CHECK), state)
        return Outcome([], list(_to_be_made(declared)), problems or _not_set_up(state))


def _not_set_up(state: State) -> list[LoaderError]:
    """Return that the slot is not set up, for a check that has found nothing."""
    if state.slot.record is not None:
        return []
    return [
        NotSetUp(
            f"Server and tables are ready; the slot {state.slot.name} is not set up yet",
            "run `loader setup`",
        )
    ]


def _trial(source: Connection, slot: str) -> list[LoaderError]:
    """Return why the server does not make a slot."""
    try:
        create_slot(source, slot, _TRIAL_SECONDS, temporary=True)
    except SlotCreationBlocked:
        pass  # only the wait was too long: the plugin had been loaded by then
    except LoaderError as error:
        return [error]
    return []


def set_up(settings: Settings, declared: Declared, timeout: int, renew: bool) -> Outcome:
    """Make staging schema and slot where they are missing.

    What is wrong with a table prevents nothing of it: a model over it waits. `timeout` bounds, in
    seconds, the wait for transactions that are writing at the moment. `renew` replaces the slot and
    its row. Raises all findings together where there can be no slot, NotOurs for a slot that setup
    did not make, and other LoaderErrors.
    """
    with _asked(settings, declared, only_reads=False) as (declared, source, target, state, refused):
        unfit = findings(lists.TABLES, state)
        state = read_target(state, target)
        problems = findings(lists.SERVER, state)
        others = [*refused, *findings(lists.TARGET, state)]
        if not migrate.version(target):
            # It has no record. If it is the wrong target or schema, nothing is made there.
            foreign = filter(None, [foreign_slot_finding(state.slot)])
            others += foreign if renew else slot_is_free(state)
        if problems or others:
            raise combine([*problems, *unfit, *others])
        done = migrate.upgrade(target)
        # Two setups at once could each find that no other slot feeds a model. So we look again.
        locks.hold(target, "registration", settings.schema)
        state = read_record(read_target(state, target), settings, source, target)
        stays = state.slot.record is not None and not renew
        rules = lists.SLOT if stays else ()
        if not renew:  # which says itself why a slot is not dropped
            rules = (slot_is_free, *rules)
        if problems := findings((*lists.TARGET, *rules), state):
            raise combine([*problems, *unfit])
        if stays:
            unfit += findings(lists.COUNTED, state)
            if declared.failover:
                done += keep_on_standbys(settings, state.slot.state)
        else:
            done += begin_log(settings, declared, state.slot, source, target, timeout, renew)
            if make_origin(source, settings.slot):
                done.append("made a replication origin, so that the slot skips our own rows")
        with target.transaction():
            registration.write_shapes(target, declared.shapes)
        notes = [*_to_be_made(declared), *_notes(state, is_new=bool(done))]
        return Outcome(done, notes, unfit, begins_log=not stays)


_SQL_ASCII = (
    "the source is in SQL_ASCII: changes are counted by their bytes, but a seed or an audit"
    " stops at a text that is not UTF-8 (docs/source.md has the SQL that corrects such texts)"
)


def _to_be_made(declared: Declared) -> Iterator[str]:
    for name, kind in declared.kinds.items():
        if name not in declared.installed:
            yield f"{name} is to be made by `dbt build`: {kind}"


def _notes(state: State, is_new: bool) -> Iterator[str]:
    """Yield notes on what may end the slot later, with the SQL against it."""
    server = state.server
    yield from primary_note(state)
    if server.idle_timeout is not None:
        keep = setting_remedy(server.provider, "idle_replication_slot_timeout", "0")
        yield (
            f"the source gives the slot up once nobody has followed it for {server.idle_timeout} "
            f"(idle_replication_slot_timeout). To keep it: {keep}"
        )
    if is_new and server.encoding == "SQL_ASCII":
        yield _SQL_ASCII
