"""Chooses what a replay starts from: a position, a declaration and the newest baseline before."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from datetime import UTC, datetime

from archiving import files
from archiving.files import Archive, missing_files_refused
from archiving.manifests import Baseline, Contents
from common.errors import ArchiveIncomplete
from pyspark.sql import functions as sql

from waltally import lsn
from waltally.errors import SettingError
from waltally.facts import Fact
from waltally.settings import DEFAULT_SCHEMA, check_names


@dataclass(frozen=True)
class ReplaySettings:
    """Which archive and facts, as of when, and what to do with the result. Raises SettingError.

    `facts` are names, empty for all. `at` is a WAL position and `at_time` a moment; without both it
    is the archive's end, with `compare` each fact's position. `target`, which may hold a password,
    and `schema` matter to `compare` alone.
    """

    path: str
    slot: str
    facts: tuple[str, ...] = ()
    at: int | None = None
    at_time: datetime | None = None
    output: str | None = None
    compare: bool = False
    target: str = field(default="", repr=False)
    schema: str = DEFAULT_SCHEMA

    def __post_init__(self) -> None:
        check_names(self.slot, self.schema)
        given = [self.at is not None, self.at_time is not None, self.compare]
        if sum(given) > 1:
            raise SettingError(
                "--at, --at-time and --compare exclude each other", "give one of them"
            )


def parse_time(text: str | None) -> datetime | None:
    """Return the moment of --at-time, UTC where it names no zone. Raises SettingError."""
    try:
        moment = None if text is None else datetime.fromisoformat(text)
    except ValueError:
        raise SettingError(
            f"--at-time is {text!r}: not a time of ISO 8601", "give one like 2026-11-21T09:30:00Z"
        ) from None
    return moment.replace(tzinfo=UTC) if moment and moment.tzinfo is None else moment


def facts_at(contents: Contents, position: int, names: tuple[str, ...]) -> list[Fact]:
    """Return the facts with these names, all where there are none, as they were declared then.

    Raises SettingError for a name that the archive does not have.
    """
    declared = contents.facts(position)
    # A baseline may be newer than the changes that were archived with the declaration.
    for each in contents.baselines:
        if each.snapshot_lsn <= position:
            declared.setdefault(each.fact.name, each.fact)
    unknown = [name for name in names if name not in declared]
    if unknown or not declared:
        raise SettingError(
            f"the archive has no declaration of {', '.join(unknown) or 'a fact'} at"
            f" {lsn.show(position)}; it has {', '.join(sorted(declared)) or 'none'}",
            "run spark/archive.py once the fact is registered, or name another one",
        )
    return [declared[name] for name in sorted(declared) if not names or name in names]


def require_reached(contents: Contents, fact: Fact, position: int, path: str) -> None:
    """Raise ArchiveIncomplete where the archive ends before the position of the fact."""
    if position > contents.to_lsn:
        raise ArchiveIncomplete(
            f"{fact.relation} is at {lsn.show(position)}, {position - contents.to_lsn:,} bytes of"
            f" WAL after the archive's end at {lsn.show(contents.to_lsn)}",
            f"`spark-submit spark/archive.py --to {shlex.quote(path)}`, then this again, without a"
            " build in between: under traffic stop `loader run --build`, or the timer of dbt, until"
            " the replay says that it has read the fact",
        )


def baseline_before(contents: Contents, fact: Fact, position: int) -> Baseline | None:
    """Return the newest baseline of the fact at or before the position.

    None where the fact begins with the log, as every fact does before the first baseline of any.
    Raises ArchiveIncomplete where it waited for its baseline then.
    """
    fitting = [each for each in contents.baselines_of(fact.name) if each.snapshot_lsn <= position]
    if fitting:
        return fitting[-1]
    others = [each.fact.name for each in contents.baselines if each.snapshot_lsn <= position]
    if others:
        raise ArchiveIncomplete(
            f"the archive has no baseline of {fact.name} at or before {lsn.show(position)}",
            "ask for a later position, or archive again after"
            f" `spark-submit spark/seed.py --fact {fact.name}`",
        )
    return None


def baseline_of(contents: Contents, fact: Fact, baseline_id: str | None) -> Baseline | None:
    """Return the baseline that the fact was built on. Raises ArchiveIncomplete.

    Another one may give other numbers: rows purged between two baselines are only in the older one.
    """
    if baseline_id is None:
        return None
    for each in contents.baselines_of(fact.name):
        if each.baseline_id == baseline_id:
            return each
    raise ArchiveIncomplete(
        f"{fact.relation} stands on the baseline {baseline_id}, which is not archived",
        "archive again; where a newer baseline has replaced it, `dbt build` first",
    )


def position_of(settings: ReplaySettings, archive: Archive) -> int:
    """Return the requested position, by default the archive's end. Raises ArchiveIncomplete."""
    if settings.at is not None:
        return settings.at
    if settings.at_time is not None:
        return position_at(archive, settings.at_time)
    return archive.contents.to_lsn


def position_at(archive: Archive, moment: datetime) -> int:
    """Return the position of the first transaction that committed after the moment.

    Transactions are ordered by their commit records, which is not exactly the order of their commit
    times: one that committed at or before the moment, but whose record comes after that of a later
    one, is not counted. Raises ArchiveIncomplete where no archived transaction is later.
    """
    contents = archive.contents
    day = moment.astimezone(UTC).strftime("date=%Y-%m-%d")
    names = [
        file
        for file in contents.files(contents.from_lsn, contents.to_lsn)
        if file[file.index("date=") :] >= day
    ]
    at = sql.timestamp_micros(sql.lit(round(moment.timestamp() * 1_000_000)))
    with missing_files_refused():
        later = files.read_changes(archive.spark, archive.folder, names).where(
            sql.col("committed_at") > at
        )
    first = later.agg(sql.min("commit_lsn")).collect()[0][0]
    if first is None:
        raise ArchiveIncomplete(
            f"no archived transaction is later than {moment.isoformat()}, so more may come that"
            f" are not; the archive ends at {lsn.show(contents.to_lsn)}",
            "archive again, or give --at a position",
        )
    return int(first)
