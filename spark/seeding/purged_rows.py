"""The purged rows that a fact still counts: what it knows beyond the rows that are stored.

Deletes from some tables are ignored. What such a table adds to a measure at position X is what the
fact says at X, less what the rows that are stored at X add. The fact is read at its own position A,
before the snapshot, and brought forward to X by the changes between. A fact that rejected changes
differs by these too: seeding.purges_in_log then asks the last baseline and the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import reduce

from common import changes
from common.connections import Connection
from common.errors import AuditIncomplete
from common.settings import Settings
from counting.counts import COLUMNS
from deltas import rules
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from warehouse import fact as warehouse_fact
from warehouse import loader_progress

from seeding import purges_in_log, rejections
from seeding.incoming import write
from seeding.incoming_table import incoming_table
from seeding.known_facts import KnownFact
from seeding.purged import FORGET, UNKNOWN, Between, Purged
from waltally import lsn
from waltally.errors import SourceBehind
from waltally.facts import Fact, FactTable
from waltally.tables import literal


def bring_forward(
    known: Sequence[KnownFact],
    spark: SparkSession,
    target: Connection,
    source: Connection | None,
    settings: Settings,
    position: int,
    notify: Callable[[str], None],
) -> dict[str, Between]:
    """Write the changes between each fact and the position into the incoming table.

    Waits for the loader to stage them. Returns by fact what else they did. A fact
    that the change log does not reach back to stays as it is. Raises AuditIncomplete,
    SnapshotTooOld where changes are pruned meanwhile, SourceBehind.
    """
    begins = {
        each.fact.name: each.position
        for each in known
        if each.is_comparable and each.position is not None
    }
    if not begins:
        return {}
    if source is not None and position < max(begins.values()):
        raise SourceBehind(
            f"the source's WAL ends at {lsn.show(position)}, before the position"
            f" {lsn.show(max(begins.values()))} of a fact: it was restored or failed over with"
            " loss",
            "`loader setup --renew`, then `spark-submit spark/seed.py`, then `dbt build`",
        )
    loader_progress.wait_for_position(target, source, settings, position, notify)
    first, last = min(*begins.values(), position), max(*begins.values(), position)
    log = changes.read(spark, target, settings.schema, settings.slot, first, last).persist()
    has_changes = log.count() > 0
    # After the read: changes that are pruned meanwhile are missing without an error.
    start = warehouse_fact.slot(target, settings).start_lsn
    found: dict[str, Between] = {}
    deltas: list[DataFrame] = []
    for each in known:
        begin = begins.get(each.fact.name)
        if begin is None:
            continue
        warehouse_fact.refuse_gap(start, min(begin, position), each.fact.relation)
        at = sql.col("commit_lsn")
        between = log.where((at >= min(begin, position)) & (at < max(begin, position)))
        deltas.append(_groups(rules.signed_deltas(between, each.fact, settings.slot), each.fact))
        truncates = rules.last_truncates(between, each.fact).collect()
        found[each.fact.name] = Between(
            frozenset(str(row["part"]) for row in truncates),
            has_changes and rejections.are_among(between, each.fact, settings.slot),
        )
    # One write: each ends by taking away the rows of attempts that are not its own.
    together = reduce(DataFrame.unionByName, deltas)
    write(together, target, incoming_table(settings), "changed")
    return found


def _groups(deltas: DataFrame, fact: Fact) -> DataFrame:
    unknown = sql.lit(None).cast("string")
    return deltas.select(
        sql.lit(fact.name).alias("fact"),
        "part",
        "dimensions",
        sql.lit(0).cast("bigint").alias("row_count"),
        "sums",
        unknown.alias("reason"),
        unknown.alias("example"),
    ).select(*COLUMNS)


def find_purged(
    spark: SparkSession,
    target: Connection,
    settings: Settings,
    known: KnownFact,
    between: Between,
    position: int,
    notify: Callable[[str], None],
) -> Purged:
    """Write the purged rows of each group into the incoming table, with the origin `purged`.

    With `forget_purged` they are only counted. Raises AuditIncomplete where they cannot be told
    from other rows.
    """
    fact = known.fact
    if known.moved:
        if not settings.forget_purged:
            raise AuditIncomplete(
                f"partitions of {known.moved} came or went with their rows after {fact.relation}"
                " was built, so the rows that were purged cannot be told from theirs",
                FORGET,
            )
        return UNKNOWN
    if not known.is_comparable:
        if known.position is None and not settings.forget_purged:
            raise AuditIncomplete(
                f"the change log does not reach back to {fact.relation}, so the rows that were"
                " purged cannot be told from others",
                FORGET,
            )
        return UNKNOWN
    if between.has_rejected or rejections.are_in_the_way(target, settings, fact, known.rejections):
        if settings.forget_purged:
            return UNKNOWN
        purges_in_log.write_purged(spark, target, settings, known, position, notify)
        return _count(target, settings, fact)
    emptied = between.emptied
    others = sorted({name for part in fact.tables for name in _emptied_with(fact, part, emptied)})
    if others and settings.forget_purged:
        return UNKNOWN
    if others:
        raise AuditIncomplete(
            f"a TRUNCATE emptied {', '.join(others)}, which {fact.relation} adds up together with"
            " a table whose deletes are ignored, after the fact was built",
            f"`dbt build`, then run the {settings.work} again; {FORGET}",
        )
    is_later = known.position is not None and position < known.position
    for part in fact.tables:
        if part.deletes == "count" or (is_later and part.name in emptied):
            # An export from before a TRUNCATE: the fact no longer has what there was then.
            continue
        sign = -1 if is_later else 1
        target.execute(_comparison(settings, known, part, emptied, sign).encode())
    found = _count(target, settings, fact)
    if not settings.forget_purged:
        return found
    incoming = incoming_table(settings).quoted
    target.execute(f"delete from {incoming} where fact = %s and origin = 'purged'", (fact.name,))
    return replace(found, outcome="forgotten")


def _count(target: Connection, settings: Settings, fact: Fact) -> Purged:
    """Return how many purged rows and groups the incoming table has."""
    row = target.execute(
        "select coalesce(sum(row_count), 0)::bigint, count(*)"
        f" from {incoming_table(settings).quoted} where fact = %s and origin = 'purged'",
        (fact.name,),
    ).fetchone()
    assert row is not None
    return Purged("kept", int(str(row[0])), int(str(row[1])))


def _emptied_with(fact: Fact, part: FactTable, emptied: frozenset[str]) -> frozenset[str]:
    """Return the emptied parts whose former share of a measure of the part is not known."""
    if part.deletes == "count" or part.name in emptied:
        return frozenset()
    together = {name for each in fact.measures if part.name in each.of for name in each.of}
    return emptied & together


def _comparison(
    settings: Settings,
    known: KnownFact,
    part: FactTable,
    emptied: frozenset[str],
    sign: int,
) -> str:
    """Return SQL that inserts what the fact has beyond the stored rows of a part, by group."""
    fact, incoming = known.fact, incoming_table(settings).quoted
    numbers: list[str] = []
    sums: list[str] = []
    counts: list[tuple[bool, str]] = []
    for place, measure in enumerate(fact.measures, 1):
        if part.name not in measure.of:
            sums.append("'0'")
            continue
        parts: Iterable[str] = measure.of
        if part.name in emptied:
            parts, from_fact = (part.name,), "0"
        else:
            from_fact = f"sums[{place}]::numeric"
        listed = ", ".join(map(literal, parts))
        numbers.append(
            f"sum(case when origin = 'known' then {from_fact} when part in ({listed}) then"
            f" case origin when 'changed' then {sign} else -1 end * sums[{place}]::numeric"
            f" else 0 end) as measure_{place}"
        )
        if measure.kind == "count":
            counts.append((measure.of != (part.name,), f"measure_{place}"))
        sums.append(f"measure_{place}::text")
    if not numbers:
        return "select 1"
    # A count of the part alone first: it is right also where the fact is not complete.
    count = min(counts)[1] if counts else None
    differs = (f"{each.rpartition(' as ')[2]} <> 0" for each in numbers)
    is_purged = f"{count} > 0" if count else " or ".join(differs)
    return (
        f"insert into {incoming} (fact, part, dimensions, row_count, sums, origin)"
        f" select {literal(fact.name)}, {literal(part.name)}, dimensions, {count or 0},"
        f" array[{', '.join(sums)}], 'purged' from (select dimensions, {', '.join(numbers)}"
        f" from {incoming} where fact = {literal(fact.name)} and reason is null"
        " and origin in ('known', 'changed', 'counted') group by dimensions) as compared"
        f" where {is_purged}"
    )
