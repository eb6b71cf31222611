"""A fact's values from the stream's texts, and why a text cannot be one. Pure.

The dbt macro explain_rejection has the same rules. A value must be written as its type prints it:
then equal values have equal texts, and a group is known by the texts of its dimensions.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import reduce
from typing import NoReturn

from pyspark.sql import Column
from pyspark.sql import functions as sql
from pyspark.sql.types import StringType

from common import exact_sums
from waltally.facts import Condition, Dimension, Fact, Measure, digits_of

LONGEST = 1000
"""Bytes of a text in a key."""

LONGEST_NUMBER = 2001
"""Characters of a number: the longest of numeric(p, s) is one of numeric(1000, -1000)."""

LONGEST_KEY = 1800
"""Bytes of all texts in a key: an entry of the fact's index has 2,704 bytes for all dimensions."""

UNREADABLE = "\0"
"""Of a value that cannot be read, and before one that is not of its type; no text has it."""

_EXAMPLE_LENGTH = 100

_UUID = r"^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\z"
_WHOLE = r"^(0|-?[1-9][0-9]*)\z"
_DECIMAL = r"^-?[0-9]+(\.[0-9]+)?\z"
_NUMBER = r"^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?\z"
_DATE = r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?"
_FORMS = {
    "date": rf"^{_DATE}\z",
    "timestamp": rf"^{_DATE} {_TIME}\z",
    "timestamptz": rf"^{_DATE} {_TIME}\+00\z",
}
_LARGEST = {"smallint": 2**15 - 1, "integer": 2**31 - 1, "bigint": 2**63 - 1}


def as_dimension(text: Column, dimension: Dimension) -> Column:
    """Return the text of the dimension's value from the stream's text of its column.

    Of a text that is no such value it is the text itself: see `dimension_reason`.
    """
    if dimension.kind == "period":
        return period_of(text, dimension)
    if dimension.kind == "path":
        text = value_at(text, dimension.path)
    if dimension.kind == "bucket":
        number = exact_sums.lower_bound(sql.when(is_number(text), text), dimension.bounds)
        return sql.when(text.isNotNull() & ~is_number(text), UNREADABLE).otherwise(number)
    return labelled(text, dimension)


def labelled(text: Column, dimension: Dimension) -> Column:
    """Return the text of a column's value, or what the fact calls it."""
    text = canonical(text, dimension.value_type)
    if not dimension.labels:
        return text
    found = text if dimension.other_label is None else sql.lit(dimension.other_label)
    for value, label in dimension.labels.items():
        found = sql.when(text == value, label).otherwise(found)
    # What is not of its type must not pass for a label.
    is_bad = _reason(text, dimension.column, dimension.value_type, True).isNotNull()
    found = sql.when(is_bad, sql.concat(sql.lit(UNREADABLE), text)).otherwise(found)
    return sql.when(text.isNotNull(), found)


def example(value: Column) -> Column:
    """Return what is shown of a value that cannot be counted: how it begins, without our mark.

    The mark is no character that PostgreSQL stores.
    """
    return sql.regexp_replace(sql.substring(value, 1, _EXAMPLE_LENGTH), UNREADABLE, "")


def dimension_reason(value: Column, dimension: Dimension, is_limited: bool = True) -> Column:
    """Return why a value of `as_dimension` cannot be counted; null where it can, or is null.

    Without `is_limited` a text may be of any length, as in current rows beside their key.
    """
    if dimension.kind in ("path", "bucket"):
        what = "a number" if dimension.kind == "bucket" else "JSON with readable texts"
        unreadable = sql.when(value == UNREADABLE, f"the value of {dimension.column} is not {what}")
    else:
        unreadable = sql.lit(None).cast("string")
    reason = _reason(value, dimension.column, dimension.value_type, is_limited)
    if dimension.labels:
        # `labelled` has marked what is not of its type.
        bare = sql.regexp_replace(value, f"^{UNREADABLE}", "")
        marked = _reason(bare, dimension.column, dimension.value_type, True)
        reason = sql.when(value.startswith(UNREADABLE), marked)
    return sql.coalesce(unreadable, reason)


def _reason(value: Column, column: str | None, type_: str, is_limited: bool) -> Column:
    says = f"is not of type {type_}"
    if type_ == "text":
        fits, says = sql.octet_length(value) <= LONGEST, f"is longer than {LONGEST} bytes"
        fits = fits | sql.lit(not is_limited)
    elif type_ == "uuid":
        fits, says = value.rlike(_UUID), "is not a uuid"
    elif type_ in _FORMS:
        day = sql.substring(value, 1, 10).try_cast("date")
        fits = value.rlike(_FORMS[type_]) & day.isNotNull()
        says = f"is not a {type_} of the years 1 to 9999"
    else:
        fits = _is_of_type(value, type_)
    return sql.when(value.isNotNull() & ~fits, f"the value of {column} {says}")


def key_reason(values: Mapping[str, Column], fact: Fact) -> Column:
    """Return why the texts of a key cannot be counted together; null where they can.

    `values` are those of `as_dimension` by the dimension's name. The dbt macro find_long_key.
    """
    texts = [each for each in fact.key_dimensions if each.type == "text" and each.column]
    if len(texts) < 2:
        return sql.lit(None).cast("string")
    sizes = (sql.coalesce(sql.octet_length(values[each.name]), sql.lit(0)) for each in texts)
    names = ", ".join(str(each.column) for each in texts)
    says = f"the values of {names} together are longer than {LONGEST_KEY} bytes"
    return sql.when(reduce(operator.add, sizes) > LONGEST_KEY, says)


def uuid_text(digits: Column) -> Column:
    """Return the text of a uuid from its 32 digits."""
    return sql.regexp_replace(digits, "^(.{8})(.{4})(.{4})(.{4})(.{12})$", "$1-$2-$3-$4-$5")


def is_number(text: Column) -> Column:
    """Return whether a text is a number that can be added up; null for null."""
    return text.rlike(_NUMBER) & (sql.length(text) <= LONGEST_NUMBER)


def product(texts: Sequence[Column]) -> Column:
    """Return the text of the exact product of numbers; null where one is null or no number."""
    numbers = (sql.when(is_number(text), text) for text in texts)
    return reduce(exact_sums.product, numbers) if len(texts) > 1 else texts[0]


def factors_reason(texts: Sequence[Column], measure: Measure) -> Column:
    """Return why texts cannot be multiplied and added to the measure; null where they can."""
    found = [
        sql.when(~is_number(text), f"the value of {column} is not a number")
        for text, column in zip(texts, measure.columns, strict=True)
    ]
    return sql.coalesce(*found, number_reason(product(texts), measure))


def number_reason(text: Column, measure: Measure) -> Column:
    """Return why a text cannot be added to the measure; null where it can, or is null.

    A value with more decimals than the measure keeps would be rounded batch by batch; one that its
    type cannot hold would stop the fact.
    """
    is_product = len(measure.columns) > 1
    says = f"the {'product' if is_product else 'value'} of {' and '.join(measure.columns)} "
    # A product may have twice the digits.
    fits = text.rlike(_NUMBER) if is_product else is_number(text)
    reason = sql.when(~fits, f"{says}is not a number")
    if (limits := limits_of(measure)) is None:
        return reason
    kept, least, most = limits
    reason = reason.when(_decimals(text) > kept, f"{says}has more than {kept} decimals")
    fits = _whole_digits(text) <= most.adjusted() + 1
    if measure.type == "bigint":
        # A number of more digits is none of Spark's.
        number = sql.when(fits, text).try_cast("decimal(38, 0)")
        fits &= number.between(int(least), int(most))
    return reason.when(~fits, f"{says}does not fit {measure.type}")


def holds(condition: Condition, text: Column) -> Column:
    """Return whether a condition is true of a text; null where the text is no number or time.

    Null is not true, as in WHERE. The dbt macro meets_condition.
    """
    if condition.test == "is_null":
        return text.isNull() if condition.is_null else text.isNotNull()
    if not condition.has_bound:
        is_in = text.isin([each for each in condition.values if each is not None])
        of_null = condition.test == "in" and None in condition.values
        return sql.when(text.isNull(), of_null).otherwise(
            is_in if condition.test == "in" else ~is_in
        )
    bound = condition.bound
    if condition.is_of_numbers:
        is_above = exact_sums.is_at_least(sql.when(is_number(text), text), bound)
    else:
        is_above = _time_order(text) >= bound
    return sql.when(text.isNull(), False).otherwise(
        is_above if condition.test == "at_least" else ~is_above
    )


def condition_reason(condition: Condition) -> str:
    """Return why a text cannot be compared with the condition's bound."""
    what = "number" if condition.is_of_numbers else "date or a time"
    return f"the value of {condition.column} is not a {what}"


def _time_order(text: Column) -> Column:
    """Return a text that is in the order of the times, null where it is none: cdc.time_order."""
    found = sql.when(text.rlike(r"(?s)^(-infinity|[0-9]{4,}-[0-9]{2}-[0-9]{2}.* BC)\z"), "")
    found = found.when(text.rlike(r"(?s)^(infinity|[0-9]{5,}-[0-9]{2}-[0-9]{2}.*)\z"), "infinity")
    is_day = sql.substring(text, 1, 10).try_cast("date").isNotNull()
    for form in _FORMS.values():
        found = found.when(text.rlike(form) & is_day, sql.regexp_replace(text, r"\+00\z", ""))
    return found


def limits_of(measure: Measure) -> tuple[int, Decimal, Decimal] | None:
    """Return how many decimals the measure keeps, and the smallest and largest number it holds.

    None for the type numeric, which takes every number as it is.
    """
    if measure.type == "bigint":
        return 0, Decimal(-_LARGEST["bigint"] - 1), Decimal(_LARGEST["bigint"])
    if (digits := digits_of(measure.type)) is None:
        return None
    most = Decimal((0, (9,) * digits[0], -digits[1]))
    return digits[1], most.copy_negate(), most


def canonical(text: Column, type_: str) -> Column:
    """Return the one text of a value that its type can print in several ways, else the text."""
    if type_ == "uuid":
        return sql.lower(text)
    if type_ in ("timestamp", "timestamptz"):
        whole = sql.regexp_replace(text, r"\.0+(?=\z|\+)", "")
        return sql.regexp_replace(whole, r"(\.[0-9]*[1-9])0+(?=\z|\+)", "$1")
    if (kept := digits_of(type_)) is None:
        return text
    decimals = kept[1]
    whole, fraction = _digits(text)
    padded = sql.rpad(fraction, decimals, "0") if decimals else sql.lit("")
    digits = sql.concat(whole, sql.lit("." if decimals else ""), padded)
    is_negative = text.startswith("-") & digits.rlike("[1-9]")
    signed = sql.concat(sql.when(is_negative, "-").otherwise(""), digits)
    return sql.when(text.rlike(_DECIMAL) & (sql.length(fraction) <= decimals), signed).otherwise(
        text
    )


def period_of(text: Column, dimension: Dimension) -> Column:
    """Return the period that a time as the stream prints it is in: cdc.period_of has the same.

    As PostgreSQL: a time without a zone is in the column's zone, and means the later of two where
    the clock was put back. A text that is no time is returned as it is.
    """
    zone, is_instant = dimension.timezone or "UTC", dimension.is_instant
    utc = sql.regexp_replace(text, r"\+00\z", "").try_cast("timestamp_ntz")
    begins = sql.lit(None).cast("string")
    for form, moment in (
        ("timestamp", _in_utc(utc, dimension.column_timezone or "UTC")),
        ("timestamptz", utc),
    ):
        local = _moved(moment, "UTC", zone)
        found = _begin(moment, local, dimension) if is_instant else _first_day(local, dimension)
        begins = sql.when(text.rlike(_FORMS[form]), found).otherwise(begins)
    if not is_instant:
        day = text.try_cast("timestamp_ntz")
        begins = sql.when(text.rlike(_FORMS["date"]), _first_day(day, dimension)).otherwise(begins)
    return sql.coalesce(begins, text)


def _first_day(local: Column, dimension: Dimension) -> Column:
    day = local.cast("date")
    return (day if dimension.unit == "day" else sql.trunc(day, str(dimension.unit))).cast("string")


def _begin(moment: Column, local: Column, dimension: Dimension) -> Column:
    """Return the instant in UTC at which the hour or the interval of a time began."""
    second = sql.substring(moment.cast("string"), 1, 19).try_cast("timestamp_ntz")
    if dimension.unit == "hour":
        past = sql.minute(local) * 60 + sql.second(local)
    else:
        # Spark takes the earlier of two midnights, as cdc.period_of does.
        midnight = _moved(
            local.cast("date").cast("timestamp_ntz"), dimension.timezone or "UTC", "UTC"
        )
        every = int(str(dimension.unit).partition(" ")[0])
        since = sql.unix_seconds(second.cast("timestamp")) - sql.unix_seconds(
            midnight.cast("timestamp")
        )
        past = sql.pmod(since, sql.lit(every))
    begins = second - sql.make_dt_interval(secs=past)
    return sql.concat(begins.cast("string"), sql.lit("+00"))


def _in_utc(local: Column, zone: str) -> Column:
    """Return the time in UTC. Spark takes the earlier of two times, PostgreSQL the later."""
    if zone == "UTC":
        return local
    day = sql.expr("interval 1 day")
    later = _moved(local + day, zone, "UTC") - day
    is_that_time = _moved(later, "UTC", zone) == local
    return sql.when(is_that_time, later).otherwise(_moved(local, zone, "UTC"))


def _moved(time: Column, from_zone: str, to_zone: str) -> Column:
    if from_zone == to_zone:
        return time
    return sql.convert_timezone(sql.lit(from_zone), sql.lit(to_zone), time)


def _is_of_type(value: Column, type_: str) -> Column:
    if type_ == "boolean":
        return value.isin("true", "false")
    if type_ in _LARGEST:
        most = _LARGEST[type_]
        number = value.try_cast("decimal(38, 0)")
        is_in_range = sql.coalesce(number.between(-most - 1, most), sql.lit(False))
        return value.rlike(_WHOLE) & is_in_range
    kept = digits_of(type_)
    assert kept is not None, type_
    precision, decimals = kept
    whole, fraction = _digits(value)
    digits = sql.when(whole == "0", 0).otherwise(sql.length(whole))
    fits = (sql.length(fraction) <= decimals) & (digits <= precision - decimals)
    return value.rlike(_DECIMAL) & fits


def _digits(text: Column) -> tuple[Column, Column]:
    """Return the digits before the point without leading zeros, after it without trailing ones."""
    whole = sql.regexp_replace(sql.substring_index(text, ".", 1), r"^-?0*(?=[0-9])", "")
    fraction = sql.regexp_replace(sql.regexp_extract(text, r"\.([0-9]*)\z", 1), r"0+\z", "")
    return sql.regexp_replace(whole, "-", ""), fraction


def _decimals(text: Column) -> Column:
    """Return how many decimals the number has: 1.50 has one, 1.5e1 none."""
    digits, after, power = _scientific(text)
    zeros = sql.length(sql.regexp_extract(digits, r"(0*)\z", 1))
    return sql.when(digits.rlike("[1-9]"), after - zeros - power).otherwise(0)


def _whole_digits(text: Column) -> Column:
    """Return how many digits the number has before the point: 012.5 has two, 0.5 none."""
    digits, after, power = _scientific(text)
    significant = sql.length(sql.regexp_replace(digits, "^0+", ""))
    return sql.when(digits.rlike("[1-9]"), significant - after + power).otherwise(0)


def _scientific(text: Column) -> tuple[Column, Column, Column]:
    """Return the digits of a number, how many of them are after the point, and its exponent."""
    mantissa = sql.regexp_extract(text, r"^-?([0-9.]+)", 1)
    digits = sql.regexp_replace(mantissa, r"\.", "")
    after = sql.length(sql.regexp_extract(mantissa, r"\.(.*)", 1))
    power = sql.coalesce(sql.regexp_extract(text, "[eE](.*)", 1).try_cast("int"), sql.lit(0))
    return digits, after, power


# PostgreSQL has no text with U+0000 or with one half of a surrogate pair.
_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_UNREADABLE = re.compile(r"\\u(0000|[dD][89a-fA-F])")
_BLANKS = re.compile(r"[ \t\n\r]*")
_INDEX = re.compile(r"\s*[-+]?[0-9]+")


def value_at(document: Column, path: Sequence[str]) -> Column:
    """Return the text at a path, null for nothing; the character 0 where it cannot be read."""
    at = list(path)

    def found(text: str | None) -> str | None:
        try:
            return None if text is None else text_at(text, at)
        except (ValueError, RecursionError):
            return "\0"

    return sql.udf(found, StringType(), useArrow=False)(document)


def text_at(document: str, path: Sequence[str]) -> str | None:
    """Return what `document::json #>> path` gives. Raises ValueError."""
    if _UNREADABLE.search(_PAIR.sub("", document.replace("\\\\", ""))):
        raise ValueError("an escape of a character that no text has")
    # Numbers keep their text.
    decoder = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse)
    decoder.decode(document)
    places = [_after(document, 0)]
    for name in path:
        places = [at for place in places for at in _children(decoder, document, place, name)]
    if not places:
        return None
    value, end = decoder.raw_decode(document, places[-1])
    if value is None or isinstance(value, str):
        return value
    return document[places[-1] : end]


def _children(decoder: json.JSONDecoder, document: str, at: int, name: str) -> Iterator[int]:
    """Yield where the values with this name are; the last of the same name counts."""
    if document[at] == "{":
        at = _after(document, at + 1)
        while document[at] != "}":
            found, at = decoder.raw_decode(document, at)
            at = _after(document, _after(document, at) + 1)
            if found == name:
                yield at
            at = _next(decoder, document, at)
    elif document[at] == "[" and _INDEX.fullmatch(name):
        places = []
        at = _after(document, at + 1)
        while document[at] != "]":
            places.append(at)
            at = _next(decoder, document, at)
        if -len(places) <= int(name) < len(places):
            yield places[int(name)]


def _next(decoder: json.JSONDecoder, document: str, at: int) -> int:
    """Return where the next name or value is, or the end of the object or array."""
    at = _after(document, decoder.raw_decode(document, at)[1])
    return _after(document, at + 1) if document[at] == "," else at


def _after(document: str, at: int) -> int:
    found = _BLANKS.match(document, at)
    assert found is not None
    return found.end()


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
