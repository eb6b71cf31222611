"""`loader init`: write a dbt project with a first fact of one table, or a fact into it."""

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
            show_default="those with the fewest values",
            help="The columns to count by: column,column.",
        ),
    ] = "",
    source: Source = "",
) -> None:
    """Write a small dbt project with one fact: the rows of a table, by a few of its columns.

    In a project that it made, it writes a fact of another table, and changes no other file.
    Columns that look like money are added up. Types and numbers of values come from the
    database's catalog; no row is read.

    Example: loader init facts --table public.orders
    """
    from contextlib import closing

    from loader.setup.project import missing_tools, next_steps, write_project
    from loader.setup.proposal import propose, read_columns
    from waltally.database import connect
    from waltally.tables import parse_names, parse_table

    counted = parse_table(table if "." in table else f"public.{table}")
    with closing(connect(source, "source")) as connection:
        columns = read_columns(connection, counted)
    proposal = propose(counted, columns, parse_names(by, "--by", "--by"))
    is_new = write_project(folder, proposal)
    said = [f"{proposal.name} counts the rows of {counted}:"]
    for column in proposal.dimensions:
        values = "" if column.values is None else f", about {column.values:,.0f} values"
        said.append(f"  by {column.name} ({column.type_}{values})")
    said += [f"  with the sum of {name}" for name in proposal.sums]
    what = f"the dbt project {folder}, with the fact" if is_new else "the fact"
    said.append(f"Wrote {what} in {folder / 'models' / proposal.name}.sql")
    steps = next_steps(folder, proposal.name, is_new, missing_tools(Path(sys.executable).parent))
    text_lines.write([*said, "", "Next:", *(f"  {step}" for step in steps)])
