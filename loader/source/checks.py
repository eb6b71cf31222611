"""What stands in the way of a slot at the server: one finding per function, each with its remedy.

Pure: facts in, a LoaderError out where something is wrong. The remedies are SQL that can be pasted;
the loader never changes the application's tables or the server's settings itself.
"""

from __future__ import annotations

from collections.abc import Callable

from loader.source.remedies import (
    decoding_remedy,
    physical_slot,
    plugin_names,
    plugin_remedy,
    replication_remedy,
    senders_remedy,
    setting_remedy,
    slots_remedy,
)
from loader.source.server_facts import STANDBYS_DECODE_SINCE, ServerFacts
from waltally.errors import (
    EncodingUnfit,
    IsStandby,
    LoaderError,
    MissingRight,
    NoFreeSlot,
    PluginNotAllowed,
    WalLevelTooLow,
)


def standby(facts: ServerFacts) -> LoaderError | None:
    """Before PostgreSQL 16 a standby has no logical slot."""
    if not facts.in_recovery or facts.version >= STANDBYS_DECODE_SINCE:
        return None
    return IsStandby(
        "The source is a standby, where only PostgreSQL 16 and later can make the slot",
        "name the primary in LOADER_SOURCE_DSN or PGHOST",
    )


def standby_feedback(facts: ServerFacts) -> LoaderError | None:
    """Without feedback, vacuum on the primary removes catalog rows that a standby's slot needs."""
    if not facts.in_recovery or facts.sends_feedback:
        return None
    return IsStandby(
        "The standby does not tell its primary which rows the slot needs, and would lose the slot: "
        "hot_standby_feedback is off",
        f"on the standby: {setting_remedy(facts.provider, 'hot_standby_feedback', 'on')}",
    )


def standby_slot(facts: ServerFacts) -> LoaderError | None:
    """Without a slot of the primary, the feedback ends whenever the standby is away."""
    if not facts.in_recovery or facts.primary_slot:
        return None
    return IsStandby(
        "The standby streams without a slot of its primary, so the primary forgets which rows are "
        "needed whenever the standby is away: primary_slot_name is not set",
        f"on the primary: {physical_slot('waltally_standby')} then on the standby: "
        + setting_remedy(facts.provider, "primary_slot_name", "'waltally_standby'"),
    )


def wal_level(facts: ServerFacts) -> LoaderError | None:
    """Logical decoding needs wal_level = logical."""
    if facts.wal_level == "logical":
        return None
    return WalLevelTooLow(
        f"The source runs with wal_level = {facts.wal_level}, logical decoding needs logical",
        decoding_remedy(facts.provider),
    )


def replication_right(facts: ServerFacts) -> LoaderError | None:
    """Making and streaming a slot needs the role attribute REPLICATION."""
    if facts.may_replicate:
        return None
    return MissingRight(
        f"The role {facts.role} lacks REPLICATION at the source",
        replication_remedy(facts.role, facts.provider),
    )


def plugin_allowed(facts: ServerFacts) -> LoaderError | None:
    """From the minor releases of autumn 2026, a plugin that is not built in must be listed."""
    if facts.allowed_plugins is None or "wal2json" in plugin_names(facts.allowed_plugins):
        return None
    return PluginNotAllowed(
        "The source does not allow wal2json: output_plugin_libraries does not list it",
        plugin_remedy(facts.allowed_plugins, facts.provider),
    )


def free_slot(facts: ServerFacts) -> LoaderError | None:
    """A new slot needs a free place; an existing one has its own."""
    if facts.slot_exists or facts.slots_used < facts.slots_limit:
        return None
    return NoFreeSlot(
        f"All {facts.slots_limit} replication slots of the source are in use",
        slots_remedy(facts.slots_limit, facts.provider),
    )


def free_sender(facts: ServerFacts) -> LoaderError | None:
    """Following a slot occupies a WAL sender."""
    if facts.senders_used < facts.senders_limit:
        return None
    return NoFreeSlot(
        f"All {facts.senders_limit} WAL senders of the source are in use",
        senders_remedy(facts.senders_limit, facts.provider),
    )


def encodings_fit(source: str, target: str) -> LoaderError | None:
    """The plugin sends text as the source stores it, and the target must hold every character."""
    if target in (source, "SQL_ASCII") or (target == "UTF8" and source != "SQL_ASCII"):
        return None
    return EncodingUnfit(
        f"The target's encoding is {target}, which cannot hold every text of a source in {source}",
        f"name a target database made with: create database ... encoding '{source}' template "
        "template0" + ("" if source == "SQL_ASCII" else "; UTF8 holds every encoding's text"),
    )


SERVER_CHECKS: tuple[Callable[[ServerFacts], LoaderError | None], ...] = (
    standby,
    wal_level,
    replication_right,
    plugin_allowed,
    free_slot,
    free_sender,
)


def keeping_findings(facts: ServerFacts) -> list[LoaderError]:
    """Return why a standby could not keep a slot that is made on it."""
    return [finding for check in (standby_feedback, standby_slot) if (finding := check(facts))]


def server_findings(facts: ServerFacts) -> list[LoaderError]:
    """Return everything wrong with the server, the most fundamental first."""
    return [finding for check in SERVER_CHECKS if (finding := check(facts))]
