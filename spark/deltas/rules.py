"""The delta rules for DataFrames: raw changes to signed rows. Pure.

The same rules as the dbt macros compute_deltas and explain_rejection, and tested against the same
cases. `changes` has the columns commit_lsn (a WAL position as an integer), ordinal, action (null
where the loader could not say) and payload, all of one slot and in any order. `live` and `archive`
are the counted tables as LOADER_TABLES names them, without quotes.

One difference to dbt: where a type or status is a JSON number with decimals, Spark does not keep
how it is written (7.50 becomes 7.5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from waltally.tables import DIMENSIONS

UUIDS = ("service_id", "template_id")
LONGEST = 1000
"""Bytes of a text: an index entry of the fact has 2,700 bytes for all dimensions."""

_IMAGE = "array<struct<name: string, value: string>>"
# The parser ignores a missing end and text after the end. is_whole comes after the payload, so it
# is read only where the payload is one whole JSON value.
_MESSAGE = (
    "message struct<action: string, schema: string, table: string,"
    f" columns: {_IMAGE}, identity: {_IMAGE}, undecodable: string>, is_whole boolean"
)
_AS_THE_DATABASE_READS_IT = {
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
    "maxStringLen": str(2**31 - 1),
    "maxNumLen": str(2**31 - 1),
}
# PostgreSQL has no such character and refuses JSON that contains it.
_NUL = r"(?<!\\)(\\\\)*\\u0000"
_UUID = r"(?i)^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\z"


def signed_deltas(changes: DataFrame, live: str, archive: str) -> DataFrame:
    """Return what the changes add to each group: part, the dimensions and delta.

    part is `live` or `archived`. An image before the last TRUNCATE of its part does not count; the
    caller drops what was counted before the changes of a part that `last_truncates` names. Groups
    that net to nothing are left out.
    """
    cancelling = last_truncates(changes, live, archive).select(
        "part", sql.struct("commit_lsn", "ordinal").alias("truncated_at")
    )
    at = sql.struct("commit_lsn", "ordinal")
    return (
        images(changes, live, archive)
        .join(sql.broadcast(cancelling), "part", "left")
        .where(sql.col("truncated_at").isNull() | (at > sql.col("truncated_at")))
        .groupBy("part", *DIMENSIONS)
        .agg(sql.sum("sign").alias("delta"))
        .where("delta <> 0")
    )


def images(changes: DataFrame, live: str, archive: str) -> DataFrame:
    """Return each image that counts: part, commit_lsn, ordinal, sign (1 or -1), the dimensions."""
    sides = sql.filter(sql.array(_image("new", 1), _image("old", -1)), _is_there)
    return (
        classify(changes, live, archive)
        .where(sql.col("reason").isNull())
        .select("part", "commit_lsn", "ordinal", sql.explode(sides).alias("image"))
        .select("part", "commit_lsn", "ordinal", "image.*")
    )


def archived_deletes(changes: DataFrame, live: str, archive: str) -> DataFrame:
    """Return the deletes of archived rows that belonged to a group; the deltas ignore them.

    The columns are commit_lsn, ordinal, is_known and the dimensions. Where is_known is false, the
    change may be such a delete, but its group is not known and the dimensions are null.
    """
    found = classify(changes, live, archive, with_purges=True)
    action = sql.col("action")
    names_group = (sql.col("part") == "archived") & _all(
        sql.col(f"old_{name}").isNotNull() for name in DIMENSIONS
    )
    # A row that cannot be counted was never in a group.
    is_unknown = (
        sql.col("reason").isNotNull()
        & ~sql.coalesce(names_group, sql.lit(False))
        & sql.coalesce(~action.isin("I", "U", "T"), sql.lit(True))
    )
    is_known = (
        sql.col("reason").isNull()
        & (sql.col("part") == "archived")
        & (action == "D")
        & sql.col("has_old")
    )
    return (
        found.withColumn("is_known", sql.coalesce(is_known, sql.lit(False)))
        .where(sql.col("is_known") | is_unknown)
        .withColumn("image", sql.when(sql.col("is_known"), _image("old", -1)))
        .select(
            "commit_lsn",
            "ordinal",
            "is_known",
            *(sql.col(f"image.{name}").alias(name) for name in DIMENSIONS),
        )
    )


def last_truncates(changes: DataFrame, live: str, archive: str) -> DataFrame:
    """Return the last TRUNCATE of each part that has one: part, commit_lsn, ordinal."""
    # A filter on raw columns, so that Spark can skip parts of the files.
    candidates = changes.where("action is null or action = 'T'")
    return (
        _named(candidates, live, archive)
        .where("action = 'T' and part is not null")
        .groupBy("part")
        .agg(sql.max(sql.struct("commit_lsn", "ordinal")).alias("last"))
        .select("part", "last.commit_lsn", "last.ordinal")
    )


def rejected_changes(changes: DataFrame, live: str, archive: str) -> DataFrame:
    """Return the changes that cannot be counted: commit_lsn, ordinal, reason."""
    return (
        classify(changes, live, archive)
        .where(sql.col("reason").isNotNull())
        .select("commit_lsn", "ordinal", "reason")
    )


def classify(changes: DataFrame, live: str, archive: str, with_purges: bool = False) -> DataFrame:
    """Return the changes that can affect a count, one row each.

    Deletes from the archive are included only with `with_purges`. The columns are commit_lsn,
    ordinal, part, action; old_ and new_ of each dimension, null where the image lacks it, a struct
    with a null value where it is JSON's null; has_old and has_new, whether the image belongs to a
    group; reason, why the change cannot be counted, null where it can.
    """
    action, part = sql.col("action"), sql.col("part")
    relevant = (
        # Transaction bounds and messages hold no row.
        sql.coalesce(~action.isin("B", "C", "M"), sql.lit(True))
        & (part.isNotNull() | sql.col("source_table").isNull())
        # A purge of history removes storage, not history.
        & (
            sql.lit(with_purges)
            | ~sql.coalesce((part == "archived") & (action == "D"), sql.lit(False))
        )
    )
    fields = (
        _named(changes, live, archive)
        .where(relevant)
        .withColumns(
            {f"{image}_{name}": _field(f"{image}_row", name) for image, name in _each_field()}
        )
    )
    resolved = fields.withColumns(
        {
            # The new image lacks an unchanged value that is stored out of line. A value that
            # the old image lacks stays unknown.
            f"new_{name}": sql.coalesce(f"new_{name}", f"old_{name}")
            for name in DIMENSIONS
        }
    )
    is_unmoved = (action == "U") & _all(_is_unmoved(name) for name in DIMENSIONS)
    moved = resolved.where(~sql.coalesce(is_unmoved, sql.lit(False)))
    imaged = moved.withColumns(
        {
            f"has_{image}": sql.coalesce(
                action.isin(*actions) & _all(~_is_null(f"{image}_{name}") for name in DIMENSIONS),
                sql.lit(False),
            )
            for image, actions in (("old", "UD"), ("new", "IU"))
        }
    )
    return imaged.withColumn("reason", _reason())


def _named(changes: DataFrame, live: str, archive: str) -> DataFrame:
    """Return the changes with their parsed fields, all null where the payload is not JSON."""
    whole = sql.concat(sql.lit('{"message":'), "payload", sql.lit(',"is_whole":true}'))
    parsed = changes.select(
        "commit_lsn",
        "ordinal",
        sql.col("action").alias("letter"),
        (sql.col("action").isNull() & sql.rlike("payload", sql.lit(_NUL))).alias("has_nul"),
        sql.from_json(whole, _MESSAGE, _AS_THE_DATABASE_READS_IT).alias("parsed"),
    )
    is_json = sql.coalesce(sql.col("parsed.is_whole") & ~sql.col("has_nul"), sql.lit(False))
    message = sql.when(is_json, sql.col("parsed.message"))
    table = sql.concat(message["schema"], sql.lit("."), message["table"])
    return parsed.select(
        "commit_lsn",
        "ordinal",
        is_json.alias("is_json"),
        message["undecodable"].isNotNull().alias("is_undecodable"),
        # Where the loader has stored the action, it has parsed the payload.
        sql.coalesce("letter", message["action"]).alias("action"),
        table.alias("source_table"),
        sql.when(table == live, "live").when(table == archive, "archived").alias("part"),
        message["identity"].alias("old_row"),
        message["columns"].alias("new_row"),
    )


def _reason() -> Column:
    """Return the first reason why the change cannot be counted, in the dbt macro's order."""
    action = sql.col("action")
    reason = (
        sql.when(~sql.col("is_json"), "the payload is not valid JSON")
        .when(sql.col("is_undecodable"), "the text of the row does not fit the target's encoding")
        .when(action.isNull() | ~action.isin(*"IUDT"), "the action is not known")
        .when(sql.col("source_table").isNull(), "the change names no table")
        .when(
            action.isin("U", "D") & sql.col("old_row").isNull(),
            "the replica identity carries no old row",
        )
    )
    for image, says in (
        ("new", "the row has no column "),
        ("old", "the replica identity does not carry the old "),
    ):
        absent = (
            sql.when(sql.col(f"{image}_{name}").isNull(), sql.lit(name)) for name in DIMENSIONS
        )
        names = sql.concat_ws(", ", *absent)
        reason = reason.when(
            sql.col(f"has_{image}") & (names != ""), sql.concat(sql.lit(says), names)
        )
    for image in ("new", "old"):
        has = sql.col(f"has_{image}")
        for name in DIMENSIONS:
            if name in UUIDS:
                reason = reason.when(
                    has & ~sql.col(f"{image}_{name}.value").rlike(_UUID),
                    f"the value of {name} is not a uuid",
                )
        for name in DIMENSIONS:
            if name not in UUIDS:
                reason = reason.when(
                    has & (sql.octet_length(f"{image}_{name}.value") > LONGEST),
                    f"the value of {name} is longer than {LONGEST} bytes",
                )
    return reason


def _image(image: str, sign: int) -> Column:
    """Return the image as a signed row, null where it belongs to no group."""
    values = (
        (sql.lower(f"{image}_{name}.value") if name in UUIDS else sql.col(f"{image}_{name}.value"))
        for name in DIMENSIONS
    )
    named = (value.alias(name) for name, value in zip(DIMENSIONS, values, strict=True))
    return sql.when(
        sql.col(f"has_{image}"), sql.struct(sql.lit(sign).cast("long").alias("sign"), *named)
    )


def _each_field() -> list[tuple[str, str]]:
    return [(image, name) for image in ("old", "new") for name in DIMENSIONS]


def _field(row: str, name: str) -> Column:
    """Return the column of a row's image as it came, null where the image lacks it."""
    return sql.get(sql.filter(row, _is_named(name)), 0)


def _is_named(name: str) -> Callable[[Column], Column]:
    return lambda column: column["name"] == name


def _is_there(value: Column) -> Column:
    return value.isNotNull()


def _is_null(field: str) -> Column:
    """Return whether the field is present and JSON's null."""
    return sql.col(field).isNotNull() & sql.col(f"{field}.value").isNull()


def _is_unmoved(name: str) -> Column:
    old, new = sql.col(f"old_{name}"), sql.col(f"new_{name}")
    return old.isNotNull() & new.isNotNull() & old["value"].eqNullSafe(new["value"])


def _all(conditions: Iterable[Column]) -> Column:
    return reduce(lambda first, second: first & second, conditions)
