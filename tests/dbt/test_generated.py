"""docs/generated holds what dbt compiles: a change of a macro is a diff of SQL.

`make generated` writes the files again.
"""

from __future__ import annotations

import os
import re

from testkit.commands import ROOT
from tests.dbt.staged import DATABASE, FACT, Warehouse

FOLDER = ROOT / "docs" / "generated"
ROLL_UP = "ft_regions"
ROUTINES = """
select
    regexp_replace(p.proname, '_[0-9a-f]{8}$', ''),
    regexp_replace(pg_get_functiondef(p.oid), '(__apply|__deltas)_[0-9a-f]{8}', '\\1', 'g')
from pg_proc as p
where p.pronamespace = 'analytics'::regnamespace and starts_with(p.proname, %s || '__')
order by p.proname
"""
LONGEST = 120


def compiled(warehouse: Warehouse) -> dict[str, str]:
    """The functions of the shipped fact and of one roll-up by the names of their files."""
    found = {
        name: text for model in (FACT, ROLL_UP) for name, text in warehouse.execute(ROUTINES, model)
    }
    found["read_changes"] = warehouse.value(
        "select cdc.write_reader('cdc.read_changes', cdc.list_needs(declaration))"
        " from kept.model where fact_name = %s",
        FACT,
    ).strip()
    head = "-- Compiled by dbt and installed in the database; `make generated` writes this file.\n"
    return {f"{name}.sql": head + formatted(text) for name, text in found.items()}


def formatted(definition: str) -> str:
    """The definition as the server prints it, an argument a line, without blanks at line ends."""
    lines = []
    for line in definition.strip().splitlines():
        if line.startswith(("CREATE", " RETURNS TABLE")) and line.endswith(")"):
            name, arguments = line.removesuffix(")").split("(", 1)
            line = f"{name}(\n    " + arguments.replace(", ", ",\n    ") + "\n)"
        lines.append(line.rstrip())
    return "\n".join(lines) + "\n"


def test_what_is_compiled_is_in_the_docs(warehouse: Warehouse) -> None:
    files = compiled(warehouse)
    if os.environ.get("WALTALLY_WRITE_GENERATED"):
        for path in FOLDER.glob("*.sql"):
            path.unlink()
        for name, text in files.items():
            (FOLDER / name).write_text(text)
    assert {path.name: path.read_text() for path in FOLDER.glob("*.sql")} == files
    lines = [line for text in files.values() for line in text.splitlines()]
    assert not [line for line in lines if len(line) > LONGEST]
    # A database that is restored under another name goes on.
    assert not [line for line in lines if re.search(rf'\b{DATABASE}"?\.', line)]
