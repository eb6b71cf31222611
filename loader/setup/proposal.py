"""A first model of a table: which columns it counts by and adds up. Pure: no driver."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from textwrap import indent

import yaml

from waltally.errors import SettingError
from waltally.escapes import escaped
from waltally.tables import Table, format_names, literal, quoted

MOST_VALUES = 1000
"""A column with more values is no dimension to begin with."""
MOST_DIMENSIONS = 3
COUNT = "row_count"
"""The model's own column."""

_GROUPED = (
    *("uuid", "text", "character varying", "character", "enum", "boolean"),
    *("smallint", "integer", "bigint", "date"),
)
_ANOTHER = "take another table"
_SUMMED = ("smallint", "integer", "bigint", "numeric")
_TIMES = ("timestamp without time zone", "timestamp with time zone")
_CREATED = re.compile(r"(created|inserted|placed|ordered|occurred|started|received|sent)", re.I)
_CHANGED = re.compile(r"(updated|modified|deleted|changed|expires?|last_)", re.I)
"""Names of the time at which a row began, and of other times."""
_KEY = re.compile(r"(^|_)id$|Id$")
"""Names of columns that lead to a row."""


@dataclass(frozen=True)
class Column:
    """A column of the table."""

    name: str
    type_: str
    """As SQL writes it, without its length; `enum` for any enum."""
    is_not_null: bool
    is_key: bool
    is_foreign_key: bool
    values: float | None
    """About how many different values it has; None where the server does not know."""
    sql: str
    """Its name as SQL writes it; quoted only where it must be."""
    width: int | None = None
    """Its values' mean size in bytes; None where the server does not know."""

    @property
    def can_be_summed(self) -> bool:
        """Whether adding up its values means something."""
        names_a_row = self.is_key or self.is_foreign_key or _KEY.search(self.name)
        return self.type_ in _SUMMED and not names_a_row


@dataclass(frozen=True)
class Dimension:
    """What a model counts by: a column, or the day of a time."""

    name: str
    column: Column
    """The one that it reads."""
    selected: str
    """How the query selects it."""
    meaning: str = "as the rows have it"
    values: float | None = None
    """About how many different values it has; None where nobody knows."""


@dataclass(frozen=True)
class Proposal:
    """One model: the number of a table's rows, and sums of them, by some columns."""

    name: str
    """The model's."""
    table: Table
    dimensions: tuple[Dimension, ...]
    sums: tuple[Column, ...]
    """The columns that are added up."""
    others: tuple[str, ...] = ()
    """Further columns with few values."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the dimensions."""
        return tuple(dimension.name for dimension in self.dimensions)

    @property
    def columns(self) -> frozenset[str]:
        """The table's columns that an image of a row must carry."""
        read = (*(dimension.column for dimension in self.dimensions), *self.sums)
        return frozenset(column.name for column in read)


def propose(
    table: Table,
    columns: Sequence[Column],
    named: Sequence[str],
    sums: Sequence[str] = (),
    timezone: str = "UTC",
) -> Proposal:
    """Return a model that counts the table's rows by the named columns, or by the likeliest.

    A time counts by its day in `timezone`. Raises SettingError where a named column cannot be a
    dimension or a sum, or none is likely.
    """
    # `dbt docs` writes the names of sources into SQL as they are.
    if escaped(str(table)) != str(table) or "'" in str(table):
        raise SettingError(
            f"The name of {table} has a ' or a control character, which a source cannot have",
            "rename it, or take another table",
        )
    columns = [column for column in columns if _can_be_declared(column.name)]
    fit = {column.name: column for column in columns if column.type_ in _GROUPED}
    times = {column.name: column for column in columns if column.type_ in _TIMES}
    possible = format_names([*fit, *times])
    remedy = f"name some of these with --by: {possible}" if possible else _ANOTHER
    if unknown := [name for name in named if name not in fit | times]:
        raise SettingError(
            f"{table} has no column {format_names(unknown)} that a model can count by", remedy
        )
    added = {column.name: column for column in columns if column.type_ in _SUMMED}
    if unknown := [name for name in sums if name not in added]:
        raise SettingError(
            f"{table} has no column {format_names(unknown)} that a model can add up",
            f"name some of these with --sum: {format_names(sorted(added))}" if added else _ANOTHER,
        )
    likeliest = likely([column for column in fit.values() if column.name not in sums])
    chosen = likeliest[:MOST_DIMENSIONS]
    days = _created(times)
    if named:
        chosen = [fit[name] for name in named if name in fit]
        days = [times[name] for name in named if name in times]
    elif not chosen:
        raise SettingError(f"No column of {table} looks like one to count by", remedy)
    taken = {COUNT, *sums, *(column.name for column in chosen)}
    return Proposal(
        model_names(table)[0],
        table,
        (
            *(_day(time, timezone, taken) for time in days),
            *(Dimension(c.name, c, rendered(c.sql), values=c.values) for c in chosen),
        ),
        tuple(added[name] for name in sums),
        tuple(column.name for column in likeliest if column not in chosen),
    )


def plain(name: str) -> str:
    """Return a name that needs no quotes; empty where nothing is left of it."""
    return re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_")


def model_names(table: Table) -> list[str]:
    """Return the name of a table's model, and one for where that is taken; of 48 bytes at most."""
    names = (table.name, f"{table.schema}_{table.name}")
    return [f"ft_{plain(name) or 'rows'}"[:48] for name in names]


def _free(names: Sequence[str], taken: set[str]) -> str:
    """Return the first name that no other column has, and take it."""
    free = next((name for name in names if name not in taken), f"{names[-1]}_{len(taken)}")
    taken.add(free)
    return free


def _created(times: Mapping[str, Column]) -> list[Column]:
    """Return the time at which rows began, where one looks like it: dashboards begin with a day."""
    likely = [time for time in times.values() if not _CHANGED.search(time.name)]
    likely.sort(key=lambda time: (not _CREATED.search(time.name), not time.is_not_null))
    return likely[:1]


def likely(columns: Sequence[Column]) -> list[Column]:
    """Return the columns with the fewest values; where nobody knows, those whose type tells."""
    few_values = [
        column
        for column in columns
        if not column.is_key
        and (
            1 < column.values <= MOST_VALUES
            if column.values is not None
            else column.type_ in ("enum", "boolean") or column.is_foreign_key
        )
    ]
    return sorted(few_values, key=lambda column: column.values or MOST_VALUES)


def model_sql(proposal: Proposal) -> str:
    """Return the model's query."""
    listed = [
        *(dimension.selected for dimension in proposal.dimensions),
        f"count(*) as {COUNT}",
        *(f"sum({rendered(c.sql)}) as {rendered(c.sql)}" for c in proposal.sums),
    ]
    lines = [
        "{# How many rows, by the columns below; docs/models.md says what else there can be. #}",
        "{{ config(materialized='waltally') }}",
        "",
        "select",
        ",\n".join(f"    {entry}" for entry in listed),
        f"from {{{{ {source_call(proposal.table)} }}}}",
        f"group by {', '.join(str(n + 1) for n in range(len(proposal.names)))}",
    ]
    return "\n".join(lines) + "\n"


def source_call(table: Table) -> str:
    """Return what a model calls the table."""
    return f"source({_known_as(table.schema)!r}, {_known_as(table.name)!r})"


def _known_as(name: str) -> str:
    """Return a name by which dbt finds a source; of an odd one what is plain, and a mark."""
    if re.fullmatch(r"\w(?:[\w -]*\w)?", name):
        return name
    return f"{plain(name)}_{sha256(name.encode()).hexdigest()[:6]}"


def source_yaml(text: str, table: Table) -> str:
    """Return sources.yml with the table added. Raises SettingError where it has another form."""
    known = _sources(text)
    names = _known_as(table.schema), _known_as(table.name)
    if names in known:
        return text
    source, named = _declared("schema", table.schema), _declared("identifier", table.name)
    head = text.rstrip() or "version: 2\nsources:"
    # To the last source where it has this schema, else a source more.
    for depth, added in ((4, named), (2, {**source, "tables": [named]})):
        lines = yaml.safe_dump([added], sort_keys=False, allow_unicode=True, width=1000)
        new = f"{head}\n{indent(lines, ' ' * depth)}"
        if _sources(new) == [*known, names]:
            return new
    raise SettingError(
        f"models/sources.yml has another form than `loader init` writes, and lacks {table}",
        f"add it: the source {table.schema}, the table {table.name}",
    )


def _declared(key: str, name: str) -> dict[str, object]:
    """Return how the YAML names it. dbt puts quotation marks around a name, and doubles none."""
    known_as = _known_as(name)
    true = {} if known_as == name else {key: rendered(name.replace('"', '""'))}
    return {"name": known_as, **true}


def _sources(text: str) -> list[tuple[object, object]]:
    """Return source and table of each that the YAML names, as it writes them."""
    try:
        declared = yaml.safe_load(text) or {}
        return [
            (source["name"], table["name"])
            for source in declared.get("sources") or []
            for table in source.get("tables") or []
        ]
    except (yaml.YAMLError, AttributeError, TypeError, KeyError):
        return []


def model_yaml(proposal: Proposal) -> str:
    """Return the descriptions of the model and its columns."""
    meanings = {
        **{d.name: f"{d.meaning[0].upper()}{d.meaning[1:]}." for d in proposal.dimensions},
        COUNT: "How many rows.",
        **{column.name: "The sum of the rows." for column in proposal.sums},
    }
    about = "How many rows, one line per group of the columns before row_count."
    return described(proposal.name, about, meanings)


def described(name: str, about: str, meanings: Mapping[str, str] | None = None) -> str:
    """Return the YAML that describes a model, and its columns.

    dbt renders names and descriptions, and once more where a test is added. So a column whose name
    could be Jinja has none.
    """
    columns = [
        {"name": column, "description": meaning}
        for column, meaning in (meanings or {}).items()
        if not set("{}") & set(column)
    ]
    model = {"name": name, "description": about, **({"columns": columns} if columns else {})}
    text: str = yaml.safe_dump(
        {"version": 2, "models": [model]}, sort_keys=False, allow_unicode=True, width=100
    )
    return text


def _can_be_declared(name: str) -> bool:
    """Whether a model may have such a column, beside its own."""
    return escaped(name) == name and name != COUNT and not name.startswith("waltally_")


def _day(column: Column, timezone: str, taken: set[str]) -> Dimension:
    name = _free(["day", f"{column.name}_day"], taken)
    zones = [timezone]
    if column.type_ != _TIMES[1]:
        # Without a zone it is meant in UTC.
        zones = [] if timezone == "UTC" else ["UTC", timezone]
    moved = "".join(f" at time zone {rendered(literal(zone))}" for zone in zones)
    selected = f"({rendered(column.sql)}{moved})::date as {_name(name)}"
    return Dimension(name, column, selected, f"the day in {timezone}")


def _name(name: str) -> str:
    return rendered(_written(name))


def _written(name: str) -> str:
    """Return a name as it can stand after AS, where any word may."""
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else quoted(name)


def rendered(text: str) -> str:
    """Return what dbt renders as the text: it would run a name in braces as Jinja."""
    return f"{{{{ {text!r} }}}}" if set("{}") & set(text) else text
