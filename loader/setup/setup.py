"""`loader setup`: check, register the facts, and make what the loader needs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import closing

from psycopg2 import errors as pg

from loader.setup.dbt_project import Declared
from loader.setup.registering import begin_log, keep_on_standbys, read_tables, register_facts
from loader.source.ddl_notes import missing_note
from loader.source.findings import table_findings, tables_replaced, value_notes
from loader.source.remedies import setting_remedy
from loader.source.server import ask_server
from loader.source.server_checks import (
    keeping_findings,
    primary_note,
    server_findings,
    standby_findings,
    synchronous_finding,
    unable,
)
from loader.source.slot import SlotInfo, read_state
from loader.source.slot_admin import create_slot, make_origin, read_slot, writable
from loader.staging import migrate, registration
from loader.staging.records import Registration
from waltally import locks
from waltally.database import Connection, Target, connect, connect_target
from waltally.errors import (
    EncodingUnfit,
    IdentityTooNarrow,
    IsStandby,
    LoaderError,
    NotSetUp,
    SettingError,
    SlotCreationBlocked,
    combine,
)
from waltally.facts import Fact, source_tables
from waltally.settings import Settings
from waltally.tables import Table, quoted

# A primary key is the identity of a table that names no other one.
_WITHOUT_IDENTITY = """
select distinct published.schemaname::text, published.tablename::text
from pg_publication_tables as published
inner join pg_namespace as n on n.nspname = published.schemaname
inner join pg_class as c on c.relnamespace = n.oid and c.relname = published.tablename
where
    (
        n.nspname = %s
        or n.nspname || '.' || c.relname in (select model_name from {0}.installed_model)
        or n.nspname in (select relation_schema from {0}.fact) and c.relname = 'rejected_changes'
    )
    and (
        c.relreplident = 'n'
        or c.relreplident = 'd'
        and not exists (select from pg_index as x where x.indrelid = c.oid and x.indisprimary)
    )
order by 1, 2
"""


def declaration_findings(facts: Sequence[Fact]) -> list[LoaderError]:
    """Return why these declarations cannot be registered together."""
    names = [str(table) for table in source_tables(facts)]
    if not names:
        return [
            NotSetUp(
                "The dbt project declares no fact: there is nothing to follow",
                "add a model with {{ fact(...) }}, as the README shows",
            )
        ]
    return [
        SettingError(
            f"Two tables are both written {name}, and the log could not tell them apart",
            "rename one of them: no dot in a schema's or a table's name",
        )
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]


def zone_findings(facts: Sequence[Fact], target: Connection) -> list[LoaderError]:
    """Return which time zones the target, where the days are computed, does not know by name.

    It would take any other text too, such as UTC+3, and other programs read that the other way.
    """
    zones: dict[str, str] = {}
    for fact in facts:
        for each in fact.dimensions:
            for zone in (each.timezone, each.column_timezone):
                if zone is not None:
                    zones.setdefault(zone, fact.name)
    unknown = target.ask(
        "select zone from unnest(%s::text[]) as zone "
        "where zone <> all (select name from pg_timezone_names)",
        (list(zones),),
    )
    return [
        SettingError(
            f"{zones[zone]} takes days in the time zone {zone!r}, which the target does not know",
            "write a name of: select name from pg_timezone_names; such as Europe/London or UTC",
        )
        for (zone,) in unknown
    ]


def derived_findings(declared: Declared, target: Connection) -> list[LoaderError]:
    """Return which derived columns name a measure that is not there.

    What else could be wrong with an expression depends on who installs it, so dbt says it.
    """
    findings: list[LoaderError] = []
    for fact in declared.facts:
        measures = ", ".join(f"null::{each.type} as {quoted(each.name)}" for each in fact.measures)
        for name, expression in declared.derived.get(fact.name, {}).items():
            # Prepared, it is parsed and not run; the line break ends a comment.
            selected = f"select {expression}\n from (select {measures}) as measures"
            try:
                target.ask(f"prepare derived as {selected}")
                target.ask("deallocate derived")
            except LoaderError as error:
                if isinstance(error.__cause__, pg.UndefinedColumn):
                    said = error.__cause__.diag.message_primary
                    known = ", ".join(each.name for each in fact.measures)
                    findings.append(
                        SettingError(
                            f"derived {name} of {fact.name}: {said}",
                            f"use the measures of the fact: {known}",
                        )
                    )
    return findings


def other_slot_findings(facts: Sequence[Fact], target: Target) -> list[LoaderError]:
    """Return a finding for each fact that another slot feeds and that cannot tell them apart."""
    if not migrate.version(target):
        return []
    others = {
        fact.name: registration.other_slot(target, fact)
        for fact in facts
        if all(each.kind != "slot" for each in fact.dimensions)
    }
    return [
        SettingError(
            f"The fact {name} is fed by the slot {other}: the slot {target.slot} would mix its "
            "rows with those",
            "add a dimension such as 'source': {'from': 'slot'} to the fact; or keep the sources "
            f"apart by LOADER_SCHEMA and DBT_SCHEMA; or, if {other} is gone for good: "
            f"loader teardown --purge --slot {other}",
        )
        for name, other in others.items()
        if other is not None
    ]


def identity_findings(target: Target) -> list[LoaderError]:
    """Return which of our tables lack a replica identity and are published, all that setup made.

    PostgreSQL refuses updates and deletes there, so that rebuilds and seeds would fail.
    """
    if not migrate.version(target):
        return []
    published = target.ask_staging(_WITHOUT_IDENTITY, (target.schema,))
    names = [Table(*row).quoted for row in published]
    if not names:
        return []
    return [
        IdentityTooNarrow(
            f"A publication in the target has {', '.join(names)}, which lack a replica identity: "
            "nothing can be deleted there",
            " ".join(f"alter table {name} replica identity full;" for name in names),
        )
    ]


def encoding_findings(source: Connection, target: Connection) -> list[LoaderError]:
    """Return why the target cannot hold the source's text, which comes as the source stores it."""
    theirs, ours = (c.info.parameter_status("server_encoding") or "" for c in (source, target))
    if ours in (theirs, "SQL_ASCII") or (ours == "UTF8" and theirs != "SQL_ASCII"):
        return []
    return [
        EncodingUnfit(
            f"The target's encoding is {ours}, which cannot hold every text of a source in"
            f" {theirs}",
            f"name a target database made with: create database ... encoding '{theirs}' template "
            "template0" + ("" if theirs == "SQL_ASCII" else "; UTF8 holds every encoding's text"),
        )
    ]


def foreign_findings(declared: Declared, registered: Registration) -> list[LoaderError]:
    """Return which facts of other dbt projects setup would forget, or count by another declaration.

    A fact of which no project is known may stay as it is declared here.
    """
    declarations = {fact.name: fact.declaration for fact in declared.facts}
    lost = []
    for fact in registered.facts:
        project = registered.projects[fact.name]
        if project == declared.project or fact.name in declared.forget:
            continue
        if fact.name not in declarations or (
            project and declarations[fact.name] != fact.declaration
        ):
            lost.append((fact.name, f"the dbt project {project}" if project else "an unknown one"))
    if not lost:
        return []
    listed = ", ".join(f"{name} of {project}" for name, project in lost)
    flags = " ".join(f"--forget {shlex.quote(name)}" for name, _ in lost)
    return [
        SettingError(
            f"The dbt project {declared.project} was read, and setup would forget {listed}",
            "run this in the folder of that dbt project, or set DBT_PROJECT_DIR to it; or, to "
            f"forget what is named: `loader setup {flags}`",
        )
    ]


_TRIAL_SECONDS = 3


def check(settings: Settings, declared: Declared, failover: bool = False) -> list[LoaderError]:
    """Return what is wrong and change nothing. Raises LoaderError for a server that is down.

    With `failover` and a standby as the source: what keeps it from taking the slot over.
    """
    with closing(connect(settings.source, "source")) as source:
        server = ask_server(source, settings.slot)
        if failover and server.in_recovery:
            state = read_state(source, settings.slot)
            return standby_findings(server, settings.slot, state, source.info.dbname)
        findings = _source_findings(settings, declared, source, failover)
        if not findings and read_state(source, settings.slot) is None:
            try:
                create_slot(source, settings.slot, _TRIAL_SECONDS, temporary=True)
            except SlotCreationBlocked:
                pass  # only the wait was too long: the plugin had been loaded by then
            except LoaderError as error:
                findings.append(error)
        with closing(_target(settings, findings)) as target:
            findings += _target_findings(declared, source, target)
            if any(isinstance(finding, IsStandby) for finding in findings):
                return findings
            slot = read_slot(settings, source, target)
            if not isinstance(slot.finding, IsStandby):
                findings += keeping_findings(server)
            if slot.record is None:
                unready = NotSetUp(
                    f"Server and tables are fit; the slot {settings.slot} is not set up yet",
                    "run `loader setup`",
                )
                return findings or [unready]
            if failover and slot.state is not None and not slot.state.is_failover:
                findings.append(
                    NotSetUp(
                        f"The slot {settings.slot} is not kept by standbys",
                        "stop the loader, run `loader setup --failover`, start the loader",
                    )
                )
            if (other := migrate.functions_finding(target)) is not None:
                findings.append(other)
            registered = registration.read_registration(target)
            findings += _record_findings(declared, source, target, slot, registered)
            if foreign := foreign_findings(declared, registered):
                return findings + foreign
            if changes := registration.difference(registered, declared.facts):
                findings.append(
                    NotSetUp(
                        f"What is registered differs from what is declared: {changes}",
                        "run `loader setup`",
                    )
                )
            return findings


def _source_findings(
    settings: Settings, declared: Declared, source: Connection, failover: bool
) -> list[LoaderError]:
    """Return everything at the source that must be put right before a slot is made."""
    server = ask_server(source, settings.slot)
    synchronous = synchronous_finding(source)
    return [
        *(unable(server) if failover else []),
        *declaration_findings(declared.facts),
        *server_findings(server),
        *table_findings(declared.facts, source),
        *([synchronous] if synchronous else []),
    ]


def _target(settings: Settings, findings: list[LoaderError]) -> Target:
    """Connect to the target. Where that fails, raise it together with the source's findings."""
    try:
        return connect_target(settings)
    except LoaderError as error:
        raise combine([*findings, error]) from None


def _target_findings(declared: Declared, source: Connection, target: Target) -> list[LoaderError]:
    return [
        *encoding_findings(source, target),
        *zone_findings(declared.facts, target),
        *other_slot_findings(declared.facts, target),
        *identity_findings(target),
        *derived_findings(declared, target),
    ]


def _record_findings(
    declared: Declared,
    source: Connection,
    target: Target,
    slot: SlotInfo,
    registered: Registration,
) -> list[LoaderError]:
    """Return why a slot that is set up cannot be followed.

    Only facts that stay as they are count: others need a new baseline anyway.
    """
    if slot.finding is not None:
        return [slot.finding]
    declarations = {fact.name: fact.declaration for fact in declared.facts}
    unchanged = [
        fact for fact in registered.facts if declarations.get(fact.name) == fact.declaration
    ]
    return tables_replaced(source, target, unchanged)


def set_up(
    settings: Settings, declared: Declared, timeout: int, renew: bool, failover: bool = False
) -> list[str]:
    """Make staging schema and slot where they are missing, register; return what was done.

    `timeout` bounds, in seconds, the wait for transactions that are writing at the moment.
    `renew` replaces the slot and its row, `failover` lets standbys keep the slot. Raises all
    findings together, NotOurs for a slot that setup did not make, and other LoaderErrors.
    """
    with closing(connect(settings.source, "source")) as source:
        findings = _source_findings(settings, declared, source, failover)
        with closing(_target(settings, findings)) as target:
            _refuse(findings + _target_findings(declared, source, target))
            done = migrate.upgrade(target)
            # Two slots at once could each find that no other one feeds a fact. So we look again.
            locks.hold(target, "registration", settings.schema)
            _refuse(other_slot_findings(declared.facts, target))
            slot = read_slot(settings, source, target)
            registered = registration.read_registration(target)
            _refuse(foreign_findings(declared, registered))
            if slot.record is not None and not renew:
                _refuse(_record_findings(declared, source, target, slot, registered))
                tables = read_tables(source, settings.slot, declared)
                with target.transaction():
                    done += register_facts(target, declared, tables)
                if failover:
                    done += keep_on_standbys(settings, slot.state)
                return _with_notes(done, declared, source, failover)
            _refuse(keeping_findings(ask_server(source, settings.slot)))
            done += begin_log(settings, declared, slot, source, target, timeout, renew, failover)
            if make_origin(writable(slot.server, source, target), settings.slot):
                done.append("made a replication origin, so that the slot skips our own rows")
            return _with_notes(done, declared, source, failover)


_SQL_ASCII = (
    "the source is in SQL_ASCII: changes are counted as their bytes are, and a seed or an audit"
    " stops at a text that is not UTF-8 (docs/source.md has the SQL that corrects such texts)"
)


def _refuse(findings: list[LoaderError]) -> None:
    if findings:
        raise combine(findings)


def _with_notes(
    done: list[str], declared: Declared, source: Connection, failover: bool
) -> list[str]:
    """Add what may make the slot end later, or be noticed by nobody, with the SQL against it."""
    server = ask_server(source, "")
    done += primary_note(server) if failover else []
    ((timeout,),) = source.ask(
        "select nullif(current_setting('idle_replication_slot_timeout', true), '0')"
    )
    if timeout is not None:
        keep = setting_remedy(server.provider, "idle_replication_slot_timeout", "0")
        done.append(
            f"the source gives the slot up once nobody has followed it for {timeout} "
            f"(idle_replication_slot_timeout). To keep it: {keep}"
        )
    if not done:
        return []
    note = missing_note(source)
    is_ascii = source.info.parameter_status("server_encoding") == "SQL_ASCII"
    return [
        *done,
        *([_SQL_ASCII] if is_ascii else []),
        *value_notes(declared.facts, source),
        *([] if note is None else [note]),
    ]
