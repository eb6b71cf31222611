"""The delta rules for DataFrames: raw changes to signed rows of a fact. Pure.

The same rules as the package's dbt macros, and tested against the same cases. `changes` has the
columns commit_lsn (a WAL position as an integer), ordinal, action (null where the loader could not
say) and payload, all of one slot and in any order. `part` is the fact's name of a table, and
groups are as common.exact_sums has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from common import exact_sums
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from deltas import current_rows, images, messages
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


class FactChanges:
    """The changes of an interval as one fact sees them: what they add, take away and cannot say.

    A TRUNCATE cancels everything before it of its part, in these changes and in what was counted
    before them. `classified` has the changes as `classify` does, and may be cached.
    """

    def __init__(
        self, changes: DataFrame, fact: Fact, slot: str, *, may_truncate: bool = True
    ) -> None:
        self.fact = fact
        self.classified = classify(changes, fact, slot)
        self._changes = changes
        self._may_truncate = may_truncate

    @cached_property
    def truncates(self) -> dict[str, Position]:
        """The last TRUNCATE of each part that has one. Reads the changes when it is first asked."""
        if not self._may_truncate:
            return {}
        # A filter on raw columns, so that Spark can skip parts of the files.
        candidates = self._changes.where("action is null or action = 'T'")
        last = (
            messages.read(candidates, self.fact)
            .where("action = 'T' and part is not null")
            .groupBy("part")
            .agg(sql.max(sql.struct("commit_lsn", "ordinal")).alias("last"))
        )
        return {row["part"]: tuple(row["last"]) for row in last.collect()}

    @property
    def rejected(self) -> DataFrame:
        """The changes that cannot be counted: commit_lsn, ordinal, reason."""
        return self.classified.where("reason is not null").select("commit_lsn", "ordinal", "reason")

    def deltas(self, *, all_deletes: bool = False) -> DataFrame:
        """Return what the changes add to each group: part, dimensions, sums.

        Groups that net to nothing are left out. With `all_deletes` those count too that the fact
        ignores. Not for current rows, whose old images are keys.
        """
        images = self.images() if all_deletes else self.images().where("not is_ignored")
        signed = images.withColumn("sums", exact_sums.negated(sql.col("sums"), sql.col("sign")))
        found = exact_sums.summed(signed, self.fact, "part", "dimensions")
        return found.where(~exact_sums.is_nothing(self.fact))

    def archived_deletes(self, *by: str) -> DataFrame:
        """Return the rows that were deleted from tables whose deletes the fact ignores.

        As groups with part, dimensions, the columns `by` and sums, whose sums are what the fact
        still counts of them.
        """
        deleted = self.images().where("is_ignored")
        return exact_sums.summed(deleted, self.fact, "part", "dimensions", *by)

    def uncounted(self) -> tuple[int | None, dict[str, int]]:
        """Return where the last change is that cannot be counted, and the rows without a group.

        That is by part how many rows more or fewer belong to no group because of a null. Every
        delete counts, also where the fact ignores it.
        """
        is_new, is_old = (
            (sql.col(f"meets_{side}") & ~sql.col(f"has_{side}")).cast("int")
            for side in ("new", "old")
        )
        found = (
            self.classified.groupBy("part")
            .agg(
                sql.max(sql.when(sql.col("reason").isNotNull(), sql.col("commit_lsn"))),
                sql.sum(sql.when(self._is_counted, is_new - is_old)),
            )
            .collect()
        )
        rejected_lsn = max((at for _, at, _ in found if at is not None), default=None)
        return rejected_lsn, {part: rows for part, _, rows in found if rows is not None}

    def untruncated(self, groups: DataFrame) -> DataFrame:
        """Return those of the groups before the changes that no TRUNCATE cancels."""
        return groups.where(~sql.col("part").isin(list(self.truncates)))

    def applied_to(self, groups: DataFrame, *by: str, all_deletes: bool = False) -> DataFrame:
        """Return the groups, which have a part, after the changes: the columns `by`, and sums.

        Groups of zeros are left out; the fact may keep such rows.
        """
        if self.fact.kind == "current_rows":
            rows = current_rows.applied(groups, self.classified, self.fact)
            return rows.withColumn("part", sql.lit(self.fact.tables[0].name)).select(*by, "sums")
        together = self.untruncated(groups).unionByName(self.deltas(all_deletes=all_deletes))
        return exact_sums.summed(together, self.fact, *by).where(~exact_sums.is_nothing(self.fact))

    def images(self) -> DataFrame:
        """Return the images that count.

        The columns are part, commit_lsn, ordinal, is_ignored, sign, dimensions, sums. The sign is
        1 of a new row and -1 of an old one; `sums` is without it. An image before the last
        TRUNCATE of its part does not count. With is_ignored the row was deleted from a table whose
        deletes the fact ignores, so it stays counted.
        """
        ignoring = [each.name for each in self.fact.tables if each.ignores_deletes]
        is_ignored = (sql.col("action") == "D") & sql.col("part").isin(ignoring)
        found = [
            sql.when(
                sql.col(f"counts_{side}"),
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
            self.classified.where(self._is_counted)
            .withColumn("is_ignored", is_ignored)
            .select(*kept, sql.explode(sql.array(*found)).alias("image"))
            .where(sql.col("image").isNotNull())
            .select(*kept, "image.sign", "image.dimensions", "image.sums")
        )

    @property
    def _is_counted(self) -> Column:
        """Whether a change is known, and no TRUNCATE cancels it."""
        found = ~sql.col("is_unknown")
        for part, (commit_lsn, ordinal) in self.truncates.items():
            last = sql.struct(sql.lit(commit_lsn).cast("bigint"), sql.lit(ordinal).cast("bigint"))
            is_before = sql.struct("commit_lsn", "ordinal") <= last
            found &= ~((sql.col("part") == part) & is_before)
        return found


def classify(changes: DataFrame, fact: Fact, slot: str) -> DataFrame:
    """Return the changes that matter to the fact, one row each.

    The columns are commit_lsn, ordinal, part, action, old_row; of each image (old_ and new_):
    meets, whether it meets the conditions, has, whether it belongs to a group, texts and sums, as
    `images` says, absent, which columns it lacks, and counts, whether it adds or takes away;
    is_unknown, whether nothing is known of the change; reason, why something of it cannot be
    counted, null where all can.

    A new image that cannot be counted adds nothing, so it takes nothing away once it is the old
    one. Of a row that is corrected only the new image counts.
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
    unknown = imaged.withColumn("unknown_reason", _reason())
    is_known = sql.col("unknown_reason").isNull()
    return unknown.withColumns(
        {
            "is_unknown": ~is_known,
            "reason": sql.coalesce(
                "unknown_reason", sql.when(sql.col("has_new"), sql.col("new_refusal"))
            ),
            **{
                f"counts_{side}": is_known
                & sql.col(f"has_{side}")
                & sql.col(f"{side}_refusal").isNull()
                for side in images.SIDES
            },
        }
    )


def _reason() -> Column:
    """Return the first reason why nothing is known of the change, in the order of dbt's macro."""
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
    )


def _lacks(side: images.Side) -> Column:
    return sql.col(f"has_{side}") & (sql.col(f"{side}_absent") != "")
