"""The delta rules for DataFrames: raw changes to signed rows of a fact. Pure.

The same rules as the package's dbt macros, and tested against the same cases. `changes` has the
columns commit_lsn (a WAL position as an integer), ordinal, action (null where the loader could not
say) and payload, all of one slot and in any order. `part` is the fact's name of a table, and
groups are as deltas.sums has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from deltas import images, messages, sums
from waltally.facts import Fact

Position = tuple[int, int]
"""A change's commit LSN and its ordinal in the transaction."""


@dataclass(frozen=True)
class Rejected:
    """How many changes could not be counted, and the position of the first one."""

    count: int
    first_lsn: int | None

    def and_then(self, later: Rejected) -> Rejected:
        """Return both together."""
        first = later.first_lsn if self.first_lsn is None else self.first_lsn
        return Rejected(self.count + later.count, first)


def signed_deltas(changes: DataFrame, fact: Fact, slot: str) -> DataFrame:
    """Return what the changes add to each group: part, dimensions, sums.

    An image before the last TRUNCATE of its part does not count; the caller drops what was counted
    before the changes of a part that `last_truncates` names. Groups that net to nothing are left
    out. Not for current rows, whose old images are keys: see deltas.current_rows.
    """
    return _summed(signed_images(changes, fact, slot), fact)


def deltas_after(classified: DataFrame, truncates: Mapping[str, Position], fact: Fact) -> DataFrame:
    """As `signed_deltas`, of changes as `classify` has them; `truncates` is the last of each part.

    Without a join, and without reading the changes again.
    """
    return _summed(_images(_after(classified, truncates), fact), fact)


def archived_deletes(
    classified: DataFrame, truncates: Mapping[str, Position], fact: Fact, *by: str
) -> DataFrame:
    """Return the rows that were deleted from tables whose deletes the fact ignores.

    As groups with part, dimensions, the columns `by` and sums, whose sums are what the fact still
    counts of them.
    """
    deleted = _images(_after(classified, truncates), fact).where("is_ignored")
    return sums.summed(deleted, fact, "part", "dimensions", *by)


def left_out(classified: DataFrame, truncates: Mapping[str, Position]) -> dict[str, int]:
    """Return by part how many rows more or fewer belong to no group because of a null.

    Every delete counts, also where the fact ignores it.
    """
    is_new, is_old = (
        (sql.col(f"meets_{side}") & ~sql.col(f"has_{side}")).cast("int") for side in ("new", "old")
    )
    more = sql.sum(is_new - is_old).alias("row_count")
    found = _after(classified, truncates).groupBy("part").agg(more)
    return {row["part"]: row["row_count"] for row in found.collect()}


def _after(classified: DataFrame, truncates: Mapping[str, Position]) -> DataFrame:
    """Return the changes that can be counted, without those that a TRUNCATE cancels."""
    found = classified.where("reason is null")
    for part, (commit_lsn, ordinal) in truncates.items():
        last = sql.struct(sql.lit(commit_lsn).cast("bigint"), sql.lit(ordinal).cast("bigint"))
        is_before = sql.struct("commit_lsn", "ordinal") <= last
        found = found.where(~((sql.col("part") == part) & is_before))
    return found


def _summed(images: DataFrame, fact: Fact) -> DataFrame:
    signed = images.where("not is_ignored").withColumn(
        "sums", sums.negated(sql.col("sums"), sql.col("sign"))
    )
    return sums.summed(signed, fact, "part", "dimensions").where(~sums.is_nothing(fact))


def signed_images(changes: DataFrame, fact: Fact, slot: str) -> DataFrame:
    """Return each image that counts: part, commit_lsn, ordinal, is_ignored, sign, dimensions, sums.

    The sign is 1 of a new row and -1 of an old one; `sums` is without it. An image before the last
    TRUNCATE of its part does not count. With is_ignored the row was deleted from a table whose
    deletes the fact ignores, so it stays counted.
    """
    cancelling = last_truncates(changes, fact).select(
        "part", sql.struct("commit_lsn", "ordinal").alias("truncated_at")
    )
    at = sql.struct("commit_lsn", "ordinal")
    return _images(
        classify(changes, fact, slot)
        .where(sql.col("reason").isNull())
        .join(sql.broadcast(cancelling), "part", "left")
        .where(sql.col("truncated_at").isNull() | (at > sql.col("truncated_at"))),
        fact,
    )


def _images(classified: DataFrame, fact: Fact) -> DataFrame:
    ignoring = [each.name for each in fact.tables if each.ignores_deletes]
    is_ignored = (sql.col("action") == "D") & sql.col("part").isin(ignoring)
    found = [
        sql.when(
            sql.col(f"has_{side}"),
            sql.struct(
                sql.lit(sign).alias("sign"),
                sql.col(f"{side}_texts").alias("dimensions"),
                sql.col(f"{side}_sums").alias("sums"),
            ),
        )
        for side, sign in (("new", 1), ("old", -1))
    ]
    kept = ("part", "commit_lsn", "ordinal", "is_ignored")
    return (
        classified.withColumn("is_ignored", is_ignored)
        .select(*kept, sql.explode(sql.array(*found)).alias("image"))
        .where(sql.col("image").isNotNull())
        .select(*kept, "image.sign", "image.dimensions", "image.sums")
    )


def truncate_positions(changes: DataFrame, fact: Fact) -> dict[str, Position]:
    """Return what `last_truncates` finds, by part. Reads the changes now."""
    return {
        row["part"]: (row["commit_lsn"], row["ordinal"])
        for row in last_truncates(changes, fact).collect()
    }


def last_truncates(changes: DataFrame, fact: Fact) -> DataFrame:
    """Return the last TRUNCATE of each part that has one: part, commit_lsn, ordinal."""
    # A filter on raw columns, so that Spark can skip parts of the files.
    candidates = changes.where("action is null or action = 'T'")
    return (
        messages.read(candidates, fact)
        .where("action = 'T' and part is not null")
        .groupBy("part")
        .agg(sql.max(sql.struct("commit_lsn", "ordinal")).alias("last"))
        .select("part", "last.commit_lsn", "last.ordinal")
    )


def rejected_changes(classified: DataFrame) -> DataFrame:
    """Return those of `classify` that cannot be counted: commit_lsn, ordinal, reason."""
    rejected = classified.where(sql.col("reason").isNotNull())
    return rejected.select("commit_lsn", "ordinal", "reason")


def classify(changes: DataFrame, fact: Fact, slot: str) -> DataFrame:
    """Return the changes that matter to the fact, one row each.

    The columns are commit_lsn, ordinal, part, action, old_row; of each image (old_ and new_):
    meets, whether it meets the conditions, has, whether it belongs to a group, texts and sums, as
    `images` says, and absent, which columns it lacks; reason, why the change cannot be counted,
    null where it can.
    """
    action, part = sql.col("action"), sql.col("part")
    # Transaction bounds and messages hold no row.
    relevant = sql.coalesce(~action.isin("B", "C", "M"), sql.lit(True)) & (
        part.isNotNull() | sql.col("source_table").isNull()
    )
    found = {
        images.field(side, place): messages.field(f"{side}_row", fact, column)
        for side in images.SIDES
        for place, column in enumerate(images.columns(fact))
    }
    # A step of its own: the search for a column is done once.
    fields = (
        messages.read(changes.where(messages.may_concern(fact)), fact)
        .where(relevant)
        .withColumns(found)
        .withColumns({name: messages.printed(sql.col(name)) for name in found})
    )
    resolved = fields.withColumns(
        {
            # The new image lacks an unchanged value that is stored out of line. A value that
            # the old image lacks stays unknown.
            images.field("new", place): sql.coalesce(
                images.field("new", place), images.field("old", place)
            )
            for place in range(len(images.columns(fact)))
        }
    )
    valued = resolved.withColumns(
        {images.text_column(side): images.texts(fact, side, slot) for side in images.SIDES}
    )
    is_update = sql.coalesce(action == "U", sql.lit(False))
    moved = valued.where(~(is_update & images.is_unmoved(fact)))
    imaged = moved.withColumns(
        {
            **{f"has_{side}": images.counts(fact, side) for side in images.SIDES},
            **{f"meets_{side}": images.meets(fact, side) for side in images.SIDES},
            **{f"{side}_sums": images.sums(fact, side) for side in images.SIDES},
            **{f"{side}_absent": images.absent(fact, side) for side in images.SIDES},
            **{f"{side}_refusal": images.refusal(fact, side) for side in images.SIDES},
        }
    )
    return imaged.withColumn("reason", _reason())


def _reason() -> Column:
    """Return the first reason why the change cannot be counted, in the order of dbt's macro."""
    action = sql.col("action")
    return (
        sql.when(~sql.col("is_json"), "the payload is not valid JSON")
        .when(sql.col("is_undecodable"), "the text of the row does not fit the target's encoding")
        .when(action.isNull() | ~action.isin(*"IUDT"), "the action is not known")
        .when(sql.col("source_table").isNull(), "the change names no table")
        .when(
            action.isin("U", "D") & sql.col("old_row").isNull(),
            "the replica identity carries no old row",
        )
        .when(_lacks("new"), sql.concat(sql.lit("the row has no column "), "new_absent"))
        .when(
            _lacks("old"),
            sql.concat(sql.lit("the replica identity does not carry the old "), "old_absent"),
        )
        .when(sql.col("has_new") & sql.col("new_refusal").isNotNull(), sql.col("new_refusal"))
        .when(sql.col("has_old"), sql.col("old_refusal"))
    )


def _lacks(side: images.Side) -> Column:
    return sql.col(f"has_{side}") & (sql.col(f"{side}_absent") != "")
