"""The parents of a counted table as current rows, and the fact by their names. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from loader.setup.proposal import COUNT, ID, Proposal, describe, free, plain, table_name
from waltally.tables import Table

MOST = 2
"""Parents that a first fact counts by where no column is named: each multiplies the groups."""


@dataclass(frozen=True)
class Parent:
    """A table that a column of the counted table leads to."""

    column: str
    """That column."""
    table: Table
    key: str
    key_type: str
    label: str
    """The parent's column that says what a person calls the row."""
    model: str = ""
    """The name of the model of its current rows."""
    lookup: str = ""
    """Its name in the roll-up."""
    dimension: str = ""
    """The name of its label in the roll-up."""


def with_names(
    parents: Sequence[Parent], proposal: Proposal, model_of: Callable[[str, Sequence[str]], str]
) -> list[Parent]:
    """Return the parents with names that differ; `model_of` chooses one of a table's model."""
    tables = dict.fromkeys((proposal.name, roll_up_name(proposal)), proposal.table)
    lookups: set[str] = set()
    taken = {ID, COUNT, *proposal.names, *proposal.sums} - {parent.column for parent in parents}
    named = []
    for parent in parents:
        table = parent.table
        short = re.sub(r"_?id$", "", parent.column, flags=re.I) or table.name
        lookup = free([_plain(short), _plain(parent.column)], lookups)
        dimension = free([f"{lookup}_{_plain(parent.label)}"], taken)
        names = (_plain(name)[:55] for name in (table.name, f"{table.schema}_{table.name}"))
        model = model_of(
            table_name(table), [name for name in names if tables.get(name, table) == table]
        )
        tables[model] = table
        named.append(replace(parent, model=model, lookup=lookup, dimension=dimension))
    return named


def _plain(name: str) -> str:
    made = plain(name) or "rows"
    return f"rows_{made}" if made[0].isdigit() else made


def roll_up_name(proposal: Proposal) -> str:
    """Return what the roll-up is called."""
    return f"{proposal.name[:40]}_by_name"


def files(proposal: Proposal, parents: Sequence[Parent]) -> dict[str, str]:
    """Return the models of the parents' current rows and of the roll-up, by path in the project.

    A name is in them as a literal alone, as in `model_sql`.
    """
    models: dict[str, str] = {}
    for parent in parents:
        models[f"models/{parent.model}.sql"] = (
            "{{ waltally.current_rows(\n"
            f"    table={table_name(parent.table)!r},\n"
            f"    key=[{parent.key!r}],\n"
            f"    columns={{{parent.key!r}: {parent.key_type!r}, {parent.label!r}: 'text'}},\n"
            ") }}\n"
        )
        models[f"models/{parent.model}.yml"] = describe(
            parent.model,
            "The table's rows as they are at the model's position.",
            {parent.key: "Its key.", parent.label: "What people call it."},
        )
    name = roll_up_name(proposal)
    looked_up = {parent.column for parent in parents}
    kept = [column for column in proposal.names if column not in looked_up]
    measures = [COUNT, *proposal.sums]
    lines = [
        "{# The fact by names: what lies under a parent row moves with its name. #}",
        "{{ waltally.roll_up(",
        f"    fact=ref({proposal.name!r}),",
        "    lookups={",
        *(
            f"        {parent.lookup!r}: {{'rows': ref({parent.model!r}), "
            f"'by': {{{parent.key!r}: {parent.column!r}}}}},"
            for parent in parents
        ),
        "    },",
        "    dimensions={",
        *(f"        {column!r}: {column!r}," for column in kept),
        *(f"        {p.dimension!r}: {f'{p.lookup}.{p.label}'!r}," for p in parents),
        "    },",
        "    measures={",
        *(f"        {measure!r}: {{'sum': {measure!r}}}," for measure in measures),
        "    },",
        ") }}",
    ]
    models[f"models/{name}.sql"] = "\n".join(lines) + "\n"
    models[f"models/{name}.yml"] = describe(
        name,
        "How many rows, one line per group, with the names of the parent rows.",
        {
            **dict.fromkeys(kept, "As the fact has it."),
            **dict.fromkeys(
                (parent.dimension for parent in parents), "Null: there is no such row."
            ),
            **dict.fromkeys(measures, "Summed over the fact's groups."),
        },
    )
    return models
