"""`loader init`: write a dbt project with a first fact of one table, or add a fact to it."""

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
        typer.Argument(
            metavar="DIR", help="A new folder for the project; with --add, one it made."
        ),
    ],
    table: Annotated[str, typer.Option(help="The table whose rows are counted: schema.table.")],
    by: Annotated[
        str,
        typer.Option(
            show_default="those with the fewest values",
            help="The columns to count by: column,column.",
        ),
    ] = "",
    add: Annotated[
        bool,
        typer.Option("--add", help="Add a fact to the project; its other files stay as they are."),
    ] = False,
    source: Source = "",
) -> None:
    """Write a small dbt project with one fact: the rows of a table, by a few of its columns.

    Columns that look like money are added up. Types and numbers of values come from the
    database's catalog; no row is read.

    Example: loader init facts --table public.orders
    """
    from contextlib import closing

    from loader.setup.project import (
        add_fact,
        missing_tools,
        next_steps,
        steps_of_added,
        write_project,
    )
    from loader.setup.proposal import hints, propose
    from loader.setup.table_columns import read_columns
    from waltally.database import connect
    from waltally.tables import parse_names, parse_table

    counted = parse_table(table if "." in table else f"public.{table}")
    with closing(connect(source, "source")) as connection:
        columns = read_columns(connection, counted)
    proposal = propose(counted, columns, parse_names(by, "--by", "--by"))
    fact = add_fact(folder, proposal) if add else write_project(folder, proposal)
    said = [f"{proposal.name} counts the rows of {counted}:"]
    for column in proposal.dimensions:
        values = "" if column.values is None else f", about {column.values:,.0f} values"
        said.append(f"  by {column.name} ({column.type_}{values})")
    said += [f"  with the sum of {name}" for name in proposal.sums]
    said += [f"It could also have {hint}" for hint in hints(proposal)]
    if add:
        said.append(f"Wrote the fact into {fact}")
        steps = steps_of_added(folder, proposal.name)
    else:
        said.append(f"Wrote the dbt project {folder}, with the fact in {fact}")
        missing = missing_tools(Path(sys.executable).parent)
        steps = next_steps(folder, proposal.name, missing)
    text_lines.write([*said, "", "Next:", *(f"  {step}" for step in steps)])
