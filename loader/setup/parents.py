"""The parents of a counted table as current rows, and the fact by their names. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from loader.setup.proposal import COUNT, Proposal, describe, table_name
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

    @property
    def model(self) -> str:
        """The name of the model of its current rows."""
        return _plain(self.table.name)[:55]

    @property
    def lookup(self) -> str:
        """Its name in the roll-up: the column without `_id`."""
        return _plain(re.sub(r"_?id$", "", self.column, flags=re.I)) or self.model

    @property
    def dimension(self) -> str:
        """The name of its label in the roll-up."""
        return f"{self.lookup}_{_plain(self.label)}"


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


def _plain(name: str) -> str:
    plain = re.sub(r"[^a-z0-9_]+", "_", name.lower()).strip("_")
    return f"rows_{plain}" if plain[:1].isdigit() else plain
