"""`loader init`: write a dbt project with a first model of one table, or a model into it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from loader.monitoring import text_lines
from waltally.options import Source


def init_command(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="A new folder for the project, or one that this made."),
    ],
    table: Annotated[str, typer.Option(help="The table whose rows are counted: schema.table.")],
    by: Annotated[
        str,
        typer.Option(
            metavar="COLUMNS",
            show_default="the day and those with the fewest values",
            help="The columns to count by: column,column; a time by its day, a document by a path "
            "in it: details.country.",
        ),
    ] = "",
    sum_: Annotated[
        str,
        typer.Option(
            "--sum",
            metavar="COLUMNS",
            show_default="none",
            help="The columns to add up: column,column.",
        ),
    ] = "",
    timezone: Annotated[
        str, typer.Option(metavar="ZONE", help="Where a day begins: Europe/Berlin.")
    ] = "UTC",
    source: Source = "",
) -> None:
    """Write a small dbt project with one model: the rows of a table, by a few of its columns.

    In a project that it made, it writes a model of another table, and changes no other file but
    sources.yml. Types, numbers of values and sizes come from the database's catalog; no row is
    read.

    Example: loader init live --table public.orders --by created_at,status --sum amount
    """
    from contextlib import closing
    from dataclasses import replace

    from loader.setup.cost import cost_lines
    from loader.setup.project import missing_tools, model_name, next_steps, write_project
    from loader.setup.proposal import MOST_VALUES, model_names, propose, source_call
    from loader.setup.read_catalog import read_columns
    from waltally.database import connect
    from waltally.tables import format_names, parse_names, parse_table

    counted = parse_table(table if "." in table else f"public.{table}")
    with closing(connect(source, "source")) as connection:
        connection.give_up_locks()
        columns = read_columns(connection, counted)
    named = _names(by)
    proposal = propose(counted, columns, named, parse_names(sum_, "--sum", "--sum"), timezone)
    name = model_name(folder, source_call(counted), model_names(counted))
    proposal = replace(proposal, name=name)
    is_new = write_project(folder, proposal)
    lines = [f"{proposal.name} counts the rows of {counted}:"]
    lines += [
        f"  by {name}, the day of {column.name} in {timezone} (--timezone)"
        for name, column in proposal.days
    ]
    for column in proposal.dimensions:
        values = "" if column.values is None else f", about {column.values:,.0f} values"
        lines.append(f"  by {column.name} ({column.type_}{values})")
    lines += [f"  by {name}, at {'.'.join(path)} of {of.name}" for name, of, path in proposal.paths]
    if proposal.others and not named:
        lines.append(f"  --by could name {format_names(proposal.others)} too")
    lines += [f"  with the sum of {column.name}" for column in proposal.sums]
    summable = [] if proposal.sums else [column.name for column in columns if column.can_be_summed]
    if summable:
        lines.append(f"  with no sum; --sum could name {format_names(summable)}")
    if many := [c.name for c in proposal.dimensions if (c.values or 0) > MOST_VALUES]:
        lines.append(
            f"{format_names(many)} has many values: the model may have nearly as many rows as the"
            " table; leave it out unless somebody asks by it"
        )
    lines += cost_lines(proposal, columns)
    what = f"the dbt project {folder}, with the model" if is_new else "the model"
    lines.append(f"Wrote {what} in {folder / 'models' / proposal.name}.sql")
    steps = next_steps(folder, proposal.name, is_new, missing_tools(Path(sys.executable).parent))
    text_lines.write([*lines, "", "Next:", *(f"  {step}" for step in steps)])


def _names(by: str) -> tuple[str, ...]:
    """Return the columns of --by; a plain one may have a path behind it."""
    from waltally.tables import parse_names

    if '"' in by:
        return parse_names(by, "--by", "--by")
    return tuple(name.strip() for name in by.split(",") if name.strip())
