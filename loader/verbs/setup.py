"""`loader setup`: check, then make what the loader needs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from loader import shipped_files
from loader.monitoring import text_lines
from loader.monitoring.text_lines import shown
from waltally.options import Schema, Slot, Source, Target
from waltally.settings import DEFAULT_SCHEMA, DEFAULT_SLOT, Settings


def setup_command(
    source: Source = "",
    target: Target = "",
    slot: Slot = DEFAULT_SLOT,
    schema: Schema = DEFAULT_SCHEMA,
    manifest: Annotated[
        str,
        typer.Option(
            envvar="LOADER_MANIFEST",
            show_default="parses the dbt project",
            help="The manifest.json of the dbt project that declares the models.",
        ),
    ] = "",
    check: Annotated[bool, typer.Option("--check", help="Only report; change nothing.")] = False,
    explain: Annotated[
        str,
        typer.Option(
            metavar="SQL",
            show_default=False,
            help="Only say what this DDL, or a file of it, would cost each installed model; "
            "nothing runs it.",
        ),
    ] = "",
    renew: Annotated[
        bool,
        typer.Option(
            "--renew",
            help="Make the slot again after it was lost; the models then need a new seed.",
        ),
    ] = False,
    take_slot: Annotated[
        bool,
        typer.Option(
            "--take-slot",
            help="Take over a slot that a migration made; no other target may follow it.",
        ),
    ] = False,
    source_is_gone: Annotated[
        bool,
        typer.Option(
            "--source-is-gone",
            help="With --renew: this source replaces another one for good, whose slot stays.",
        ),
    ] = False,
    failover: Annotated[
        bool,
        typer.Option(
            "--failover",
            envvar="LOADER_FAILOVER",
            help="Let standbys keep the slot, so that a failover needs no new seed "
            "(PostgreSQL 17 and later).",
        ),
    ] = False,
    timeout: Annotated[
        int,
        typer.Option(
            min=1, metavar="SECONDS", help="How long to wait for transactions that write."
        ),
    ] = 300,
) -> None:
    """Check server and tables, make the staging schema and the slot.

    The tables are those of the installed models and of the dbt project's, if there is one: in
    DBT_PROJECT_DIR, else in the current folder. Safe to repeat.

    Example: loader setup --check
    """
    from loader.setup import setup
    from loader.setup.dbt_project import find_declared
    from waltally.errors import combine

    settings = Settings.of(source, target, slot, schema)
    if explain:
        shipped_files.require_grammar()
        from loader.setup.explain import explain as explained

        file = Path(explain)
        text = file.read_text() if explain.endswith(".sql") and file.is_file() else explain
        text_lines.write(explained(settings, text))
        return
    with shown("dbt parses the project", is_long=True):
        declared = replace(
            find_declared(manifest, needs_project=check),
            failover=failover,
            take_slot=take_slot,
            source_is_gone=source_is_gone,
        )
    if check:
        with shown("checking servers and tables"):
            problems = setup.check(settings, declared)
        if problems:
            raise combine(problems)
        text_lines.write(["Everything is set up."])
        return
    with shown("checking servers and tables, making what is missing"):
        done = setup.set_up(settings, declared, timeout, renew)
    if any(line.startswith("made the slot") for line in done):
        done.append(
            "Next: `dbt build` installs the models, `loader run --build` follows them, "
            "`spark-submit spark/seed.py` counts the rows from before"
        )
    text_lines.write(done or ["Everything is set up already."])
