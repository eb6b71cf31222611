"""`loader up`: from a dbt project to live tables, in one terminal."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from loader.monitoring import text_lines
from loader.verbs.run import BUILD_SHARE, follow_slot, log_to_stderr
from loader.verbs.setup import needed_of_project
from waltally.errors import LoaderError
from waltally.options import with_settings
from waltally.settings import Settings


@with_settings()
def up_command(
    settings: Settings,
    fix: Annotated[
        bool,
        typer.Option("--fix", help="Run what the source lacks there without asking."),
    ] = False,
) -> None:
    """Make the models of a dbt project live, and keep them so until Ctrl-C.

    It does what `loader setup`, `dbt build` and `loader run --build --seed` do. What the source
    lacks is shown as SQL; on a terminal it is run after a yes. `loader up` again goes on. The
    project is that in DBT_PROJECT_DIR, else in the current folder.

    Example: loader up
    """
    from loader.applying.seeder import seed_command
    from loader.monitoring.live import Live
    from loader.setup import dbt_build, repairs
    from loader.setup.dbt_project import find_project
    from loader.setup.declared import Declared

    def agrees(finding: LoaderError) -> bool:
        text_lines.echo(f"Missing: {finding.sentence}".split("\n"), err=True)
        if fix:
            return True
        asked = f"Run this at the source: {' '.join(finding.sql)} (locks are held for an instant)"
        return sys.stdin.isatty() and typer.confirm(asked, err=True)

    log_to_stderr()
    project = find_project(os.environ)
    own_command = os.environ.get("LOADER_SEED_COMMAND", "")
    seeds = seed_command(own_command)
    repairs.set_up(settings, needed_of_project(settings), agrees, with_tables=False)
    dbt_build.build(project, settings)
    repairs.set_up(settings, Declared(), agrees)
    with Live(settings, dbt_build.readers(project)):
        follow_slot(settings, build_share=BUILD_SHARE, seed_command=seeds)
