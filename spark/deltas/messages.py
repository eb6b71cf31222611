"""Reads the plugin's messages: the JSON of a change as its action, table and images. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from waltally.facts import Fact

_IMAGE = "array<struct<name: string, value: string, is_number: boolean>>"
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
# Spark's parser would make a double of a number with decimals. This can only be a value: inside a
# string its quotes would have backslashes before them.
_NUMBER = r'"value"(\s*):(\s*)(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)(?=\s*[,}])'
_AS_A_STRING = '"value"$1:$2"$3","is_number":true'
# A name that is in JSON as it is.
_PLAIN = re.compile(r"[ !#-\[\]-~]+")
# PostgreSQL has no such character and refuses JSON that contains it.
_NUL = r"(?<!\\)(\\\\)*\\u0000"


def read(changes: DataFrame, fact: Fact) -> DataFrame:
    """Return the changes with their parsed fields, all null where the payload is not JSON.

    The columns are commit_lsn, ordinal, is_json, is_undecodable, action, source_table, part (the
    fact's name of the table, null where it has none), old_row and new_row.
    """
    texts = sql.regexp_replace("payload", _NUMBER, _AS_A_STRING)
    whole = sql.concat(sql.lit('{"message":'), texts, sql.lit(',"is_whole":true}'))
    parsed = changes.select(
        "commit_lsn",
        "ordinal",
        sql.col("action").alias("letter"),
        (sql.col("action").isNull() & sql.rlike("payload", sql.lit(_NUL))).alias("has_nul"),
        sql.from_json(whole, _MESSAGE, _AS_THE_DATABASE_READS_IT).alias("parsed"),
    )
    is_json = sql.coalesce(sql.col("parsed.is_whole") & ~sql.col("has_nul"), sql.lit(False))
    message = sql.when(is_json, sql.col("parsed.message"))
    part = sql.lit(None).cast("string")
    for each in fact.tables:
        is_this = (message["schema"] == each.table.schema) & (message["table"] == each.table.name)
        part = sql.when(is_this, each.name).otherwise(part)
    return parsed.select(
        "commit_lsn",
        "ordinal",
        is_json.alias("is_json"),
        message["undecodable"].isNotNull().alias("is_undecodable"),
        # Where the loader has stored the action, it has parsed the payload.
        sql.coalesce("letter", message["action"]).alias("action"),
        sql.concat(message["schema"], sql.lit("."), message["table"]).alias("source_table"),
        part.alias("part"),
        message["identity"].alias("old_row"),
        message["columns"].alias("new_row"),
    )


def may_concern(fact: Fact) -> Column:
    """Return whether a change can be of a table of the fact, by its text alone.

    Most rows of a mixed log are not, and to parse them takes long. What names no table, and what
    the loader has not parsed, concerns every fact.
    """
    names = [each.table.name for each in fact.tables]
    if not all(_PLAIN.fullmatch(name) for name in names):
        return sql.lit(True)
    # Inside a value a quote has a backslash before it.
    is_row = sql.coalesce(sql.col("action").isin("I", "U", "D"), sql.lit(False))
    found = ~is_row | ~sql.contains("payload", sql.lit('"table"'))
    for name in names:
        found |= sql.contains("payload", sql.lit(f'"{name}"'))
    return found


def field(row: str, fact: Fact, column: str) -> Column:
    """Return a declared column of a row's image: a struct with its `value`, as it came.

    Null where the image lacks the column; a struct with a null value where it is JSON's null, and
    where the fact does not need the column of this table.
    """
    absent = (sql.lit(None).cast("string").alias("value"), sql.lit(False).alias("is_number"))
    found = sql.struct(sql.lit(column).alias("name"), *absent)
    for each in fact.tables:
        if column in fact.used_columns(each):
            # The first one: a name is in an image once.
            own = sql.get(sql.filter(row, _is_named(each.column(column))), 0)
            found = sql.when(sql.col("part") == each.name, own).otherwise(found)
    return found


def printed(field: Column) -> Column:
    """Return the field with a number as the database's jsonb prints it.

    The stream has an exponent, or the sign of a zero, where a number is a float.
    """
    number = field["value"]
    # As a function of its own the long expression is evaluated only where it is needed.
    digits = sql.get(sql.transform(sql.array(number), _digits), 0)
    return sql.when(
        field["is_number"] & number.rlike("[eE]|^-0"),
        sql.struct(field["name"], digits.alias("value"), field["is_number"]),
    ).otherwise(field)


def _digits(number: Column) -> Column:
    mantissa = sql.regexp_extract(number, r"^-?([0-9.]+)", 1)
    exponent = sql.coalesce(sql.regexp_extract(number, "[eE](.*)", 1).try_cast("int"), sql.lit(0))
    fraction = sql.regexp_extract(mantissa, r"\.(.*)", 1)
    decimals = sql.greatest(sql.length(fraction) - exponent, sql.lit(0))
    zeros = sql.greatest(exponent - sql.length(fraction), sql.lit(0))
    digits = sql.concat(sql.regexp_replace(mantissa, r"\.", ""), sql.repeat(sql.lit("0"), zeros))
    length = sql.greatest(sql.length(digits), decimals + 1)
    padded = sql.lpad(digits, length, "0")
    whole = sql.substring(padded, sql.lit(1), length - decimals)
    return sql.concat(
        sql.when(number.startswith("-") & digits.rlike("[1-9]"), "-").otherwise(""),
        sql.regexp_replace(whole, "^0+(?=[0-9])", ""),
        sql.when(decimals > 0, sql.concat(sql.lit("."), sql.right(padded, decimals))).otherwise(""),
    )


def _is_named(name: str) -> Callable[[Column], Column]:
    return lambda column: column["name"] == name
