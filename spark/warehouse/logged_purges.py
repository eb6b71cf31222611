"""Finds the rows that were purged from tables whose deletes the fact ignores: it counts them still.

The baseline has the purged rows of each group from before it, and the change log has the deletes
since then. A TRUNCATE empties the part in the fact too: only rows purged after it count.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from common import changes
from common.arrow_source import Counters
from common.connections import Connection
from common.progress import Measure, Progress
from common.settings import Settings
from deltas import rules, sums
from pyspark.sql import DataFrame, SparkSession, functions

from waltally import lsn
from waltally.facts import Fact, FactTable
from waltally.plural import plural
from waltally.tables import Table, literal
from warehouse import fact as warehouse_fact
from warehouse.fact import Built

_TRUNCATES = "action is null or action = 'T'"
"""The condition of the index change_log_truncates."""
_NAME_BYTES = 1000
"""A delete has its table's name in its first bytes; the values after it can be long."""


@dataclass(frozen=True)
class PurgedRows:
    """The known purged rows: `rows` has part, dimensions and sums, `totals` sums of each measure.

    `unseen` says by part why there may be more, and after a semicolon what helps; without a part
    these are all.
    """

    rows: DataFrame
    totals: Mapping[str, str]
    unseen: Mapping[str, str]

    def uncertain(self, fact: Fact) -> list[str]:
        """Return the measures of which not all purged rows are known."""
        return [each.name for each in fact.measures if self.unseen.keys() & set(each.of)]


def read(
    spark: SparkSession,
    target: Connection,
    settings: Settings,
    built: Built,
    remembered: DataFrame,
    end: int,
    notify: Callable[[str], None],
) -> PurgedRows:
    """Return the rows that were purged before `end`, as far as they are known.

    `remembered` are the purged rows of the newest baseline. The change log must have reached `end`.
    """
    fact = built.fact
    found = remembered.limit(0).select("part", "dimensions", "sums")
    unseen = {}
    for part in fact.tables:
        if part.deletes == "ignore":
            own = remembered.where(functions.col("part") == part.name)
            rows, why = _of_part(spark, target, settings, built, part, own, end, notify)
            found = found.unionByName(rows.withColumn("part", functions.lit(part.name)))
            if why is not None:
                unseen[part.name] = why
    kept = {part.name for part in fact.tables if part.deletes == "ignore"}
    if not kept:
        return PurgedRows(found, {}, {})
    rows = sums.summed(found, fact, "part", "dimensions").persist()
    names = [measure.name for measure in fact.measures]
    totals = dict(zip(names, sums.totals(rows, fact), strict=True))
    return PurgedRows(
        rows,
        {each.name: totals[each.name] for each in fact.measures if kept & set(each.of)},
        unseen,
    )


def _of_part(
    spark: SparkSession,
    target: Connection,
    settings: Settings,
    built: Built,
    part: FactTable,
    remembered: DataFrame,
    end: int,
    notify: Callable[[str], None],
) -> tuple[DataFrame, str | None]:
    """Return the purged rows of one table, and why there may be more; None where these are all."""
    fact, slot = built.fact, settings.slot
    is_part = functions.col("part") == part.name
    place = (spark, target, settings.schema, slot)
    begin = max(built.log_start, built.baseline_lsn or 0)

    last = None
    if changes.exist(target, settings.schema, slot, begin, end, _TRUNCATES):
        truncates = changes.between(*place, [begin, end], _TRUNCATES)
        last = rules.truncate_positions(truncates, fact).get(part.name)
    if last is not None:
        begin, ordinal = last
    cuts = [begin, *changes.ends(target, settings.schema, slot, begin, end)]
    notify(f"looking for purged rows of {part.table} from {lsn.show(begin)} on")
    counters = Counters(spark)
    log = changes.between(*place, cuts, _deletes(part.table), counters=counters)
    if last is not None:
        log = log.where(
            functions.struct("commit_lsn", "ordinal")
            > functions.struct(
                functions.lit(begin).cast("bigint"), functions.lit(ordinal).cast("bigint")
            )
        )
    purges = sums.summed(
        rules.purges(log, fact, slot).where(is_part | functions.isnull("part")),
        fact,
        "is_known",
        "dimensions",
        more=[
            functions.count("*").alias("change_count"),
            functions.min("commit_lsn").alias("first_lsn"),
        ],
    ).persist()
    with Progress(lambda: Measure(counters.size, len(cuts) - 1), lambda: None):
        # All partitions are read and cached: `first` would read only some.
        unknown = next(iter(purges.where("not is_known").collect()), None)
    # After the read: changes that are pruned meanwhile may not have been read.
    start = warehouse_fact.slot(target, settings).start_lsn
    unseen = None
    if last is None or start > begin:
        unseen = why_unseen(built, start, archive_place(target, settings))
    emptied = built.emptied.get(str(part.table), 0)
    if unseen is None and emptied > begin:
        unseen = (
            f"a partition of {part.table} was dropped or truncated before {lsn.show(emptied)}, and"
            f" nothing says what it held; after {_anew(fact)} its rows are known"
        )
    rows = purges.where("is_known").select("dimensions", "sums")
    if unseen is None and last is None:
        rows = rows.unionByName(remembered.select("dimensions", "sums"))
    if unseen is None and unknown is not None:
        unseen = (
            f"the log has {plural(unknown['change_count'], 'change')} without a group, the first"
            f" at {lsn.show(unknown['first_lsn'])}, that may be of deletes from {part.table};"
            " `loader setup --check` says where the table is the cause, and after"
            f" {_anew(fact)} this no longer matters"
        )
    return rows, unseen


def why_unseen(built: Built, start: int, archive: str | None = None) -> str | None:
    """Return why the log lacks purges since the fact's baseline; None where it has all.

    `archive` is the folder of an archive, which may have what the log lacks.
    """
    if built.baseline_lsn is None or built.baseline_id is None:
        return f"the fact has no baseline; {_anew(built.fact)}"
    if not built.is_on_newest_baseline:
        return "the fact does not stand on the newest baseline yet; `dbt build`"
    if start > built.baseline_lsn:
        return (
            f"the change log begins at {lsn.show(start)}, after the baseline at"
            f" {lsn.show(built.baseline_lsn)}. An archive has what was pruned: `spark-submit"
            f" spark/replay.py --from {shlex.quote(archive or 'FOLDER')} --fact {built.fact.name}"
            f" --compare` counts with it. After {_anew(built.fact)}, the audit knows all purges"
            " from then on"
        )
    return None


def archive_place(target: Connection, settings: Settings) -> str | None:
    """Return the folder that the slot is archived to; None without one, or without the right."""
    table = Table(settings.schema, "archive_position").quoted
    if target.execute("select has_table_privilege(%s, 'select')", (table,)).fetchone() != (True,):
        return None
    row = target.execute(
        f"select location from {table} where slot_name = %s order by from_lsn, location limit 1",
        (settings.slot,),
    ).fetchone()
    return None if row is None else str(row[0]).removesuffix(f"/slot={settings.slot}")


def _anew(fact: Fact) -> str:
    return f"`spark-submit spark/seed.py --fact {fact.name}`, then `dbt build`"


def _deletes(table: Table) -> str:
    """Return the SQL condition of the log's rows that may be deletes from the table."""
    # As wal2json writes it. Rows without an action may be written in another way.
    name = f'"table":{json.dumps(table.name, ensure_ascii=False)}'
    return (
        "action is null"
        f" or action = 'D' and strpos(left(payload, {_NAME_BYTES}), {literal(name)}) > 0"
    )
