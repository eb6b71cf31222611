"""A first fact of a table: which columns it counts by. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import yaml

from waltally.errors import SettingError
from waltally.escapes import escaped
from waltally.tables import Table, format_names, quoted

MOST_VALUES = 1000
"""A column with more values is no dimension to begin with."""
MOST_DIMENSIONS = 3
_ID, _COUNT = "id", "row_count"
"""The fact's own columns."""

_TYPES = {
    "uuid": "uuid",
    "text": "text",
    "character varying": "text",
    "enum": "text",
    "boolean": "boolean",
    "smallint": "smallint",
    "integer": "integer",
    "bigint": "bigint",
    "date": "date",
}
"""By a column's type, the type of the dimension (docs/facts.md)."""
_SUMMED = ("smallint", "integer", "bigint", "numeric")
_MEASURED = (*_SUMMED, "date")
_TIMES = ("date", "timestamp without time zone", "timestamp with time zone")


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


@dataclass(frozen=True)
class Proposal:
    """One fact: the number of a table's rows by some columns."""

    name: str
    """The model's."""
    table: Table
    dimensions: tuple[Column, ...]
    summable: tuple[str, ...]
    """Columns whose sums it could have."""
    days: tuple[str, ...]
    """Columns whose days it could count by."""

    @property
    def part(self) -> str:
        """The fact's own name for the table, which begins with no digit."""
        plain = self.name.removeprefix("ft_")
        return f"rows_{plain}" if plain[0].isdigit() else plain


def propose(table: Table, columns: Sequence[Column], named: Sequence[str]) -> Proposal:
    """Return a fact that counts the table's rows by the named columns, or by the likeliest.

    Raises SettingError where a named column cannot be a dimension, or none is likely.
    """
    if escaped(str(table)) != str(table):
        raise SettingError(
            f"The name of {table} has a control character, which a fact cannot declare",
            "rename it, or take another table",
        )
    columns = [column for column in columns if _can_be_declared(column.name)]
    fit = {column.name: column for column in columns if column.type_ in _TYPES}
    remedy = f"name some of these with --by: {format_names(fit)}" if fit else "take another table"
    if unknown := [name for name in named if name not in fit]:
        raise SettingError(
            f"{table} has no column {format_names(unknown)} that a fact can count by", remedy
        )
    chosen = [fit[name] for name in named] or likely(list(fit.values()))
    if not chosen:
        raise SettingError(f"No column of {table} looks like one to count by", remedy)
    others = [column for column in columns if column not in chosen and not column.is_key]
    plain = re.sub(r"[^a-z0-9_]+", "_", table.name.lower()).strip("_") or "rows"
    return Proposal(
        # A fact's name has at most 48 bytes (the macro check_names).
        f"ft_{plain}"[:48],
        table,
        tuple(chosen),
        tuple(c.name for c in others if c.type_ in _SUMMED and not c.is_foreign_key),
        tuple(c.name for c in others if c.type_ in _TIMES),
    )


def likely(columns: Sequence[Column]) -> list[Column]:
    """Return the columns with the fewest values; where nobody knows, those whose type tells.

    An enum is a state, what a person asks by first. A number or a date is rather measured.
    """
    found = [
        column
        for column in columns
        if not column.is_key
        and (
            1 < column.values <= MOST_VALUES
            if column.values is not None
            else column.type_ in ("enum", "boolean") or column.is_foreign_key
        )
    ]
    found.sort(key=lambda column: (_rank(column), column.values or MOST_VALUES))
    return found[:MOST_DIMENSIONS]


def _rank(column: Column) -> int:
    if column.type_ == "enum":
        return 0
    return 2 if column.type_ in _MEASURED and not column.is_foreign_key else 1


def model_sql(proposal: Proposal) -> str:
    """Return the model's text.

    A name is in it as a literal alone: anywhere else, a comment included, Jinja would run it.
    """
    lines = [
        "{# How many rows, by the columns below; docs/facts.md says what else a fact can have. #}",
        "{{ waltally.fact(",
        f"    tables={{{proposal.part!r}: {_name(proposal.table)!r}}},",
        "    dimensions={",
        *(f"        {column.name!r}: {_dimension(column)}," for column in proposal.dimensions),
        "    },",
        f"    measures={{{_COUNT!r}: {{'count': {proposal.part!r}}}}},",
        ") }}",
    ]
    return "\n".join(lines) + "\n"


def hints(proposal: Proposal) -> list[str]:
    """Return what else the fact could have, for a person."""
    found = []
    if proposal.summable:
        column, listed = proposal.summable[0], format_names(proposal.summable)
        found.append(f"a sum, such as {{'sum': {column!r}, 'of': {proposal.part!r}}}; of {listed}")
    if proposal.days:
        column, listed = proposal.days[0], format_names(proposal.days)
        day = f"{{'date_of': {column!r}, 'timezone': 'Europe/London'}}"
        found.append(f"a day, such as {day}; of {listed}")
    return found


def model_yaml(proposal: Proposal) -> str:
    """Return the descriptions of the model and its columns.

    dbt renders names and descriptions, and once more where a test is added. So a column whose name
    could be Jinja has none.
    """
    names = [column.name for column in proposal.dimensions if not set("{}") & set(column.name)]
    columns = {
        _ID: "Made from the dimensions, so that a rebuild gives the same id.",
        **dict.fromkeys(names, "As the rows have it."),
        _COUNT: "How many rows.",
    }
    model = {
        "name": proposal.name,
        "description": "How many rows, one line per group of the dimensions.",
        "columns": [{"name": name, "description": said} for name, said in columns.items()],
    }
    written: str = yaml.safe_dump(
        {"version": 2, "models": [model]}, sort_keys=False, allow_unicode=True, width=100
    )
    return written


def _can_be_declared(name: str) -> bool:
    """Whether a fact may have such a column (the macro check_name), beside its own."""
    return escaped(name) == name and name not in (_ID, _COUNT)


def _name(table: Table) -> str:
    """Return the table's name, quoted only where a person would quote it."""
    plain = re.compile(r"[a-z_][a-z0-9_]*")
    parts = (table.schema, table.name)
    return ".".join(part if plain.fullmatch(part) else quoted(part) for part in parts)


def _dimension(column: Column) -> str:
    type_ = _TYPES[column.type_]
    return repr(type_) if column.is_not_null else f"{{'type': {type_!r}, 'nulls': 'count'}}"
