"""Why a slot cannot be made or followed at a server: one check per function. Pure.

A check returns a LoaderError with its remedy, or None. The remedies are SQL to paste: the loader
never changes the application's tables or the server's settings by itself.

From PostgreSQL 17 on, each standby that is set up for it copies a slot that was made with
`failover` (PostgreSQL documentation, "Replication Slot Synchronization").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from loader.source.remedies import (
    RELOAD,
    RESTART_STANDBY,
    decoding_remedy,
    physical_slot,
    plugin_names,
    plugin_remedy,
    replication_remedy,
    senders_remedy,
    setting_remedy,
    slots_remedy,
)
from loader.source.server import STANDBYS_DECODE_SINCE, ServerInfo
from loader.source.slot import SlotState
from waltally import server_errors
from waltally.errors import (
    IsStandby,
    LoaderError,
    MissingRight,
    NoFreeSlot,
    PluginNotAllowed,
    SettingError,
    SynchronousStandby,
    Unhealthy,
    WalLevelTooLow,
)
from waltally.tables import literal, quoted


def standby(server: ServerInfo) -> LoaderError | None:
    """Before PostgreSQL 16 a standby has no logical slot."""
    if not server.in_recovery or server.version >= STANDBYS_DECODE_SINCE:
        return None
    return server_errors.standby()


def standby_feedback(server: ServerInfo) -> LoaderError | None:
    """Without feedback, vacuum on the primary removes catalog rows that a standby's slot needs."""
    if not server.in_recovery or server.sends_feedback:
        return None
    return IsStandby(
        "The standby does not tell its primary which rows the slot needs, and would lose the slot: "
        "hot_standby_feedback is off",
        f"on the standby: {setting_remedy(server.provider, 'hot_standby_feedback', 'on')}",
    )


def standby_slot(server: ServerInfo) -> LoaderError | None:
    """Without a slot of the primary, the feedback ends whenever the standby is away."""
    if not server.in_recovery or server.primary_slot:
        return None
    return IsStandby(
        "The standby streams without a slot of its primary, so the primary forgets which rows are "
        "needed whenever the standby is away: primary_slot_name is not set",
        f"on the primary: {physical_slot('waltally_standby')} then on the standby: "
        + setting_remedy(server.provider, "primary_slot_name", "'waltally_standby'"),
    )


def wal_level(server: ServerInfo) -> LoaderError | None:
    """Logical decoding needs wal_level = logical; PostgreSQL 19 raises it from replica itself."""
    raises_itself = server.version >= 190_000 and server.wal_level == "replica"
    if server.wal_level == "logical" or raises_itself:
        return None
    return WalLevelTooLow(
        f"The source runs with wal_level = {server.wal_level}, logical decoding needs logical",
        decoding_remedy(server.provider),
    )


def replication_right(server: ServerInfo) -> LoaderError | None:
    """Making and streaming a slot needs the role attribute REPLICATION."""
    if server.may_replicate:
        return None
    return MissingRight(
        f"The role {server.role} lacks REPLICATION at the source",
        replication_remedy(server.role, server.provider),
    )


def plugin_allowed(server: ServerInfo) -> LoaderError | None:
    """From the minor releases of autumn 2026, a plugin that is not built in must be listed."""
    if server.allowed_plugins is None or "wal2json" in plugin_names(server.allowed_plugins):
        return None
    return PluginNotAllowed(
        "The source does not allow wal2json: output_plugin_libraries does not list it",
        plugin_remedy(server.allowed_plugins, server.provider),
    )


def free_slot(server: ServerInfo) -> LoaderError | None:
    """A new slot needs a free one of max_replication_slots."""
    if server.slot_exists or server.slots_used < server.slots_limit:
        return None
    return NoFreeSlot(
        f"All {server.slots_limit} replication slots of the source are in use",
        slots_remedy(server.slots_limit, server.provider),
    )


def free_sender(server: ServerInfo) -> LoaderError | None:
    """Following a slot occupies a WAL sender."""
    if server.senders_used < server.senders_limit:
        return None
    return NoFreeSlot(
        f"All {server.senders_limit} WAL senders of the source are in use",
        senders_remedy(server.senders_limit, server.provider),
    )


SERVER_CHECKS: tuple[Callable[[ServerInfo], LoaderError | None], ...] = (
    standby,
    wal_level,
    replication_right,
    plugin_allowed,
    free_slot,
    free_sender,
)


def keeping_findings(server: ServerInfo) -> list[LoaderError]:
    """Return why a standby could not keep a slot that is made on it."""
    return [finding for check in (standby_feedback, standby_slot) if (finding := check(server))]


def server_findings(server: ServerInfo) -> list[LoaderError]:
    """Return everything wrong with the server, the most fundamental first."""
    return [finding for check in SERVER_CHECKS if (finding := check(server))]


FAILOVER_SINCE = 170_000
"""The first version, as server_version_num has it, that copies slots to standbys."""

_SLOT_OF_STANDBY = "waltally_standby"


def unable(server: ServerInfo) -> list[LoaderError]:
    """Return why the server cannot have a slot that its standbys keep."""
    if server.version < FAILOVER_SINCE:
        return [
            SettingError(
                "Standbys keep a slot only from PostgreSQL 17 on, and the source is "
                f"{server.version // 10_000}",
                "leave --failover and LOADER_FAILOVER out; after a failover: `loader setup --renew`"
                " and a new seed",
            )
        ]
    if server.in_recovery:
        return [
            SettingError(
                "The source is a standby: only a slot of the primary is kept by its standbys",
                "leave --failover and LOADER_FAILOVER out, or name the primary in "
                "LOADER_SOURCE_DSN; `loader setup --check --failover` checks this standby",
            )
        ]
    return []


def primary_note(server: ServerInfo) -> list[str]:
    """Return what to change at the primary so that a failover needs no new seed."""
    if server.waits_for:
        return []
    names = server.standby_slots or [_SLOT_OF_STANDBY]
    make = "" if server.standby_slots else f"{physical_slot(_SLOT_OF_STANDBY)} "
    return [
        "synchronized_standby_slots is empty: the loader may get ahead of a standby, and a "
        "failover to it then needs a new seed. Name the standbys' slots, no backup's, at the "
        f"source: {make}alter system set synchronized_standby_slots = "
        f"{', '.join(map(literal, names))}; {RELOAD}"
    ]


def waiting_finding(server: ServerInfo) -> Unhealthy | None:
    """Return which standbys the loader waits for although they do not stream."""
    away = [slot for slot in server.waits_for if slot not in server.streaming]
    if not away:
        return None
    left = [slot for slot in server.waits_for if slot in server.streaming]
    kept = ", ".join(map(literal, left)) or "''"
    return Unhealthy(
        "The loader waits for standbys that do not stream from their slots: "
        f"{', '.join(away)} (synchronized_standby_slots)",
        "start them; or, if they are gone for good: alter system set synchronized_standby_slots = "
        f"{kept}; {RELOAD}",
    )


def standby_findings(
    server: ServerInfo, name: str, slot: SlotState | None, database: str
) -> list[LoaderError]:
    """Return why a standby has no copy of the slot that can be followed after a promotion."""
    if server.version < FAILOVER_SINCE:
        return unable(server)
    findings = keeping_findings(server)

    def add(is_wrong: bool, what: str, remedy: str) -> None:
        if is_wrong:
            findings.append(IsStandby(f"The standby keeps no copy of the slot: {what}", remedy))

    add(
        server.wal_level != "logical",
        f"wal_level is {server.wal_level}",
        f"on the standby: alter system set wal_level = 'logical'; {RESTART_STANDBY}",
    )
    add(
        not server.copies_slots,
        "sync_replication_slots is off",
        f"on the standby: alter system set sync_replication_slots = on; {RELOAD}",
    )
    add(
        server.names_database is False,
        "primary_conninfo names no database",
        # The string may contain a password, so psql makes the statement.
        "on the standby, in psql: select format('alter system set primary_conninfo = %L', "
        f"current_setting('primary_conninfo') || ' dbname={database}') \\gexec \\\\ {RELOAD}",
    )
    if not findings:
        add(
            slot is None or not slot.is_copy,
            f"{name} is not there yet" if slot is None else f"{name} was made on the standby",
            "on the primary: `loader setup --failover`; then keep `loader run` running: the "
            "standby copies the slot once it moves"
            if slot is None
            else f"on the standby: select pg_drop_replication_slot({literal(name)});",
        )
    if not findings and slot is not None:
        add(
            slot.is_temporary,
            f"its copy of {name} is not complete yet",
            "keep `loader run` running: the copy is complete once the slot has moved",
        )
        add(
            slot.wal_status == "lost",
            f"its copy of {name} is lost ({slot.invalidation_reason})",
            "nothing, if the slot on the primary is not lost: the standby copies it again",
        )
    return findings


_HEAD = re.compile(r"\s*(?:(first|any)\s+)?(\d+)\s*\((.*)\)\s*", re.IGNORECASE | re.DOTALL)
_NAME = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^\s,"]+))\s*(?:,|$)')

# Only roles that may read the statistics know the names; psql executes what this prints.
_FOR_PSQL = (
    "as a superuser in psql: select format('alter system set synchronous_standby_names = %%L', "
    "'%s ' || least(%d, count(distinct application_name)) || ' (' || "
    "string_agg(distinct quote_ident(application_name), ', ') || ')') "
    "from pg_stat_replication where sync_priority > 0 and pid not in (select active_pid from "
    "pg_replication_slots where slot_type = 'logical' and active) \\gexec \\\\ " + RELOAD
)


@dataclass(frozen=True)
class StandbyNames:
    """A value of synchronous_standby_names."""

    method: str
    """FIRST or ANY."""
    number: int
    names: tuple[str, ...]

    def with_names(self, names: Sequence[str]) -> str:
        """Return the setting's text with other names."""
        if not names:
            return ""
        listed = ", ".join(map(quoted, names))
        return f"{self.method} {min(self.number, len(names))} ({listed})"


def parse_standby_names(setting: str) -> StandbyNames:
    """Return the parts of the setting; no names where it is empty."""
    head = _HEAD.fullmatch(setting)
    method, number, listed = head.groups() if head else (None, "1", setting)
    names = [in_quotes.replace('""', '"') or plain for in_quotes, plain in _NAME.findall(listed)]
    return StandbyNames((method or "first").upper(), int(number), tuple(names))


def judge_standby_names(
    setting: str, application_name: str, standbys: Sequence[str] | None
) -> SynchronousStandby | None:
    """Return why the loader may not stream now, None where no commit would wait for it.

    `standbys` are the connected standbys that the setting matches; None where the role may not see
    them.
    """
    value = parse_standby_names(setting)
    left = [name for name in value.names if name.lower() not in ("*", application_name.lower())]
    if len(left) == len(value.names):
        return None
    if "*" in value.names and standbys is None:
        remedy = _FOR_PSQL % (value.method, value.number)
    else:
        if "*" in value.names:
            left += [name for name in standbys or () if name not in left]
        text = literal(value.with_names(left))
        remedy = f"alter system set synchronous_standby_names = {text}; {RELOAD}"
        if not left:
            remedy += " -- no standby is connected; name yours when there is one"
    return SynchronousStandby(
        f"The source's synchronous_standby_names = '{setting}' takes the loader "
        f"({application_name}) for a synchronous standby: the application's commits would wait "
        "for it",
        remedy,
    )


def synchronous_finding(server: ServerInfo) -> SynchronousStandby | None:
    """Return why the loader may not stream now, None where no commit of the source waits for it."""
    return judge_standby_names(
        server.synchronous_names, server.application_name, server.synchronous_standbys
    )
