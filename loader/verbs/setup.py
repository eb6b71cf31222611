"""`loader setup`: check, then make what the loader needs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loader import shipped_files
from loader.monitoring import text_lines
from loader.monitoring.text_lines import shown
from waltally.options import with_settings
from waltally.settings import Settings

if TYPE_CHECKING:
    from loader.setup.declared import Declared


@with_settings()
def setup_command(
    settings: Settings,
    manifest: Annotated[
        str,
        typer.Option(
            envvar="LOADER_MANIFEST",
            show_default="parses the dbt project where that is needed",
            help="The manifest.json of a dbt project, to ask about its models too.",
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

    The tables are those of the models that dbt has installed. --check, and a source in another
    database than the target, also ask about the models of the dbt project: in DBT_PROJECT_DIR, else
    in the current folder. Safe to repeat.

    Example: loader setup --check
    """
    from loader.setup import setup
    from waltally.errors import combine

    if explain:
        shipped_files.require_grammar()
        from loader.setup.explain import explain as explained

        file = Path(explain)
        text = file.read_text() if explain.endswith(".sql") and file.is_file() else explain
        text_lines.write(explained(settings, text))
        return
    declared = replace(
        needed_of_project(settings, manifest, check),
        failover=failover,
        take_slot=take_slot,
        source_is_gone=source_is_gone,
    )
    if check:
        with shown("checking servers and tables"):
            found = setup.check(settings, declared)
        last = "" if found.problems else "Everything is set up."
    else:
        with shown("checking servers and tables, making what is missing"):
            found = setup.set_up(settings, declared, timeout, renew)
        is_whole = not (found.done or found.problems)
        last = NEXT if found.begins_log else "Everything is set up already." if is_whole else ""
    text_lines.write(filter(None, [*found.done, *found.notes, last]))
    if found.problems:
        raise combine(found.problems)


def needed_of_project(settings: Settings, manifest: str = "", check: bool = False) -> Declared:
    """Return what setup has to know of the dbt project; nothing where dbt itself finds out.

    dbt reads the columns of tables that are in the target's database. Raises LoaderError.
    """
    from loader.setup.dbt_project import find_declared
    from loader.setup.declared import Declared

    if not (check or manifest or settings.source != settings.target):
        return Declared()
    with shown("dbt parses the project", is_long=True):
        return find_declared(manifest, needs_project=check)


NEXT = (
    "Next: `dbt build` installs the models, `loader run --build --seed` counts the rows from before"
    " and follows them"
)
