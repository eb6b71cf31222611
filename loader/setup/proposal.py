"""A first fact of a table: which columns it counts by and adds up. Pure: no driver."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import yaml

from waltally.errors import SettingError
from waltally.escapes import escaped
from waltally.tables import Table, format_names, quoted

MOST_VALUES = 1000
"""A column with more values is no dimension to begin with."""
MOST_DIMENSIONS = 3
ID, COUNT = "id", "row_count"
"""The fact's own columns."""

_TYPES = {
    "uuid": "uuid",
    "text": "text",
    "character varying": "text",
    "character": "text",
    "enum": "text",
    "boolean": "boolean",
    "smallint": "smallint",
    "integer": "integer",
    "bigint": "bigint",
    "date": "date",
}
"""By a column's type, the type of the dimension (docs/facts.md)."""
_ANOTHER = "take another table"
_SUMMED = ("smallint", "integer", "bigint", "numeric")
_TIMES = ("timestamp without time zone", "timestamp with time zone")
_CREATED = re.compile(r"(created|inserted|placed|ordered|occurred|started|received|sent)", re.I)
_CHANGED = re.compile(r"(updated|modified|deleted|changed|expires?|last_)", re.I)
"""Names of the time at which a row began, and of other times."""
_KEY = re.compile(r"(^|_)id$|Id$")
"""Names of columns that lead to a row."""
_DOCUMENTS = ("json", "jsonb")


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
    width: int | None = None
    """Its values' mean size in bytes; None where the server does not know."""

    @property
    def can_be_summed(self) -> bool:
        """Whether adding up its values means something."""
        names_a_row = self.is_key or self.is_foreign_key or _KEY.search(self.name)
        return self.type_ in _SUMMED and not names_a_row


@dataclass(frozen=True)
class Proposal:
    """One fact: the number of a table's rows, and sums of them, by some columns."""

    name: str
    """The model's."""
    table: Table
    dimensions: tuple[Column, ...]
    sums: tuple[str, ...]
    """The columns that are added up."""
    days: tuple[tuple[str, Column], ...] = ()
    """By dimension, the time whose day it is."""
    paths: tuple[tuple[str, Column, tuple[str, ...]], ...] = ()
    """Dimensions that are at a path of a JSON column."""
    timezone: str = "UTC"
    """Where a day begins."""
    others: tuple[str, ...] = ()
    """Further columns with few values."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the dimensions."""
        return (
            *(name for name, _ in self.days),
            *(column.name for column in self.dimensions),
            *(name for name, _, _ in self.paths),
        )

    @property
    def columns(self) -> frozenset[str]:
        """The table's columns that an image of a row must carry."""
        days = (column for _, column in self.days)
        documents = (column for _, column, _ in self.paths)
        names = (column.name for column in (*self.dimensions, *days, *documents))
        return frozenset((*names, *self.sums))

    @property
    def part(self) -> str:
        """The fact's own name for the table, which begins with no digit."""
        plain = self.name.removeprefix("ft_")
        return f"rows_{plain}" if plain[0].isdigit() else plain


def propose(
    table: Table,
    columns: Sequence[Column],
    named: Sequence[str],
    sums: Sequence[str] = (),
    timezone: str = "UTC",
    more: Sequence[str] = (),
) -> Proposal:
    """Return a fact that counts the table's rows by the named columns, or by the likeliest.

    A time counts by its day in `timezone`; a name may lead into a document: `doc.country`.
    `more` are columns to count by as well. Raises SettingError where a named column cannot be a
    dimension or a sum, or none is likely.
    """
    if escaped(str(table)) != str(table):
        raise SettingError(
            f"The name of {table} has a control character, which a fact cannot declare",
            "rename it, or take another table",
        )
    columns = [column for column in columns if _can_be_declared(column.name)]
    fit = {column.name: column for column in columns if column.type_ in _TYPES}
    times = {column.name: column for column in columns if column.type_ in _TIMES}
    documents = {column.name: column for column in columns if column.type_ in _DOCUMENTS}
    paths = {name: _path(name, documents) for name in named if name not in fit | times}
    possible = format_names([*fit, *times])
    possible += "".join(f", {name}.KEY" for name in documents)
    remedy = f"name some of these with --by: {possible.lstrip(', ')}" if possible else _ANOTHER
    if unknown := [name for name, path in paths.items() if path is None]:
        raise SettingError(
            f"{table} has no column {format_names(unknown)} that a fact can count by", remedy
        )
    added = {column.name for column in columns if column.type_ in _SUMMED}
    if unknown := [name for name in sums if name not in added]:
        raise SettingError(
            f"{table} has no column {format_names(unknown)} that a fact can add up",
            f"name some of these with --sum: {format_names(sorted(added))}" if added else _ANOTHER,
        )
    likeliest = likely([column for column in fit.values() if column.name not in sums])
    chosen = [fit[name] for name in named if name in fit] or (
        [] if named else likeliest[:MOST_DIMENSIONS]
    )
    chosen += [fit[name] for name in more if name in fit and fit[name] not in chosen]
    days = [times[name] for name in named if name in times] if named else _created(times)
    if not chosen and not named:
        raise SettingError(f"No column of {table} looks like one to count by", remedy)
    taken = {ID, COUNT, *sums, *(column.name for column in chosen)}
    return Proposal(
        fact_names(table)[0],
        table,
        tuple(chosen),
        tuple(sums),
        tuple((free(["day", f"{time.name}_day"], taken), time) for time in days),
        tuple(
            (free([path[1][-1], "_".join((path[0].name, *path[1]))], taken), *path)
            for path in paths.values()
            if path is not None
        ),
        timezone,
        tuple(column.name for column in likeliest if column not in chosen),
    )


def plain(name: str) -> str:
    """Return a name that needs no quotes; empty where nothing is left of it."""
    return re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_")


def fact_names(table: Table) -> list[str]:
    """Return the name of a table's fact, and one for where that is taken.

    It has at most 48 bytes (the macro check_names).
    """
    names = (table.name, f"{table.schema}_{table.name}")
    return [f"ft_{plain(name) or 'rows'}"[:48] for name in names]


def _path(name: str, documents: Mapping[str, Column]) -> tuple[Column, tuple[str, ...]] | None:
    column, *keys = name.split(".")
    usable = column in documents and keys and all(keys)
    return (documents[column], tuple(keys)) if usable else None


def free(names: Sequence[str], taken: set[str]) -> str:
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
    """Return the model's text.

    A name is in it as a literal alone: anywhere else, a comment included, Jinja would run it.
    """
    lines = [
        "{# How many rows, by the columns below; docs/facts.md says what else a fact can have. #}",
        "{{ waltally.fact(",
        f"    tables={{{proposal.part!r}: {table_name(proposal.table)!r}}},",
        "    dimensions={",
        *(
            f"        {name!r}: {_day(column, proposal.timezone)},"
            for name, column in proposal.days
        ),
        *(f"        {column.name!r}: {_dimension(column)}," for column in proposal.dimensions),
        *(
            f"        {name!r}: {{'path': {list(path)!r}, 'of': {of.name!r}, 'nulls': 'count'}},"
            for name, of, path in proposal.paths
        ),
        "    },",
        "    measures={",
        f"        {COUNT!r}: {{'count': {proposal.part!r}}},",
        *(
            f"        {name!r}: {{'sum': {name!r}, 'of': {proposal.part!r}}},"
            for name in proposal.sums
        ),
        "    },",
        ") }}",
    ]
    return "\n".join(lines) + "\n"


def model_yaml(proposal: Proposal) -> str:
    """Return the descriptions of the model and its columns.

    dbt renders names and descriptions, and once more where a test is added. So a column whose name
    could be Jinja has none.
    """
    return describe(
        proposal.name,
        "How many rows, one line per group of the dimensions.",
        {
            ID: "Made from the dimensions, so that a rebuild gives the same id.",
            **{name: f"The day in {proposal.timezone}." for name, _ in proposal.days},
            **{column.name: "As the rows have it." for column in proposal.dimensions},
            **{name: "The value at this path of the document." for name, _, _ in proposal.paths},
            COUNT: "How many rows.",
            **dict.fromkeys(proposal.sums, "The sum of the rows; a null adds nothing."),
        },
    )


def describe(name: str, description: str, columns: Mapping[str, str]) -> str:
    """Return the YAML that describes a model; without the columns whose name could be Jinja."""
    model = {
        "name": name,
        "description": description,
        "columns": [
            {"name": column, "description": meaning}
            for column, meaning in columns.items()
            if not set("{}") & set(column)
        ],
    }
    written: str = yaml.safe_dump(
        {"version": 2, "models": [model]}, sort_keys=False, allow_unicode=True, width=100
    )
    return written


def _can_be_declared(name: str) -> bool:
    """Whether a fact may have such a column (the macro check_name), beside its own."""
    return escaped(name) == name and name not in (ID, COUNT)


def table_name(table: Table) -> str:
    """Return the table's name, quoted only where a person would quote it."""
    plain = re.compile(r"[a-z_][a-z0-9_]*")
    parts = (table.schema, table.name)
    return ".".join(part if plain.fullmatch(part) else quoted(part) for part in parts)


def _day(column: Column, timezone: str) -> str:
    nulls = "" if column.is_not_null else ", 'nulls': 'count'"
    return f"{{'date_of': {column.name!r}, 'timezone': {timezone!r}{nulls}}}"


def _dimension(column: Column) -> str:
    type_ = _TYPES[column.type_]
    return repr(type_) if column.is_not_null else f"{{'type': {type_!r}, 'nulls': 'count'}}"
