"""The command `audit.py`: settings in, a report or JSON out, and an exit code."""

from __future__ import annotations

import json
from shutil import get_terminal_size
from typing import Annotated

import typer
from common import console
from common.errors import AuditDiffers
from common.options import AsJson, Facts, Partitions, Timeout, run_job
from common.progress import print_lines
from common.settings import DEFAULT_TIMEOUT, Settings
from rich.console import Console

from auditing.job import audit
from auditing.report import FactReport, Report, RollUpReport
from waltally.errors import LoaderError, combine
from waltally.options import Schema, Slot, Source, Target
from waltally.settings import DEFAULT_SCHEMA, DEFAULT_SLOT
from waltally.units import plural

_WIDTH = 200
"""Wide enough for ids, so that a report in a file is not cut."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def run(
    source: Source = "",
    target: Target = "",
    slot: Slot = DEFAULT_SLOT,
    schema: Schema = DEFAULT_SCHEMA,
    fact: Facts = None,
    partitions: Partitions = 0,
    timeout: Timeout = DEFAULT_TIMEOUT,
    limit: Annotated[
        int, typer.Option(min=0, help="Differences of each fact to list, the largest.")
    ] = 50,
    as_json: AsJson = False,
) -> None:
    """Count the tables and compare the facts with them, while writers and loader go on.

    For instance: spark-submit spark/audit.py --fact ft_service_stats --json --timeout 900
    """
    report = audit(
        Settings(
            source,
            target or source,
            slot,
            schema,
            tuple(fact or ()),
            partitions,
            timeout,
            work="audit",
        ),
        limit,
    )
    if as_json:
        print_lines([json.dumps(report.as_json())])
    else:
        show(report, get_terminal_size().columns if console.stdout_is_terminal() else _WIDTH)
    found: list[LoaderError] = [
        *map(finding, report.differing),
        *map(roll_up_finding, report.differing_roll_ups),
        *report.refused.values(),
    ]
    if found:
        raise combine(found)


def show(report: Report, width: int) -> None:
    """Print the report for a person, on a screen of this width."""
    printer = Console(width=width, markup=False, highlight=False)
    for line in report.lines(width):
        # A command in a sentence is pasted whole: the terminal breaks lines, not we.
        if isinstance(line, str):
            print_lines([line])
        else:
            printer.print(line)


def finding(report: FactReport) -> AuditDiffers:
    """Return the error for a fact that differs from its tables."""
    return AuditDiffers(
        f"{report.relation} differs from the tables in"
        f" {plural(report.comparison.difference_count, 'value')}",
        f"{report.remedy()} (docs/runbook.md, The audit differs)",
    )


def roll_up_finding(report: RollUpReport) -> AuditDiffers:
    """Return the error for a roll-up that differs from its inputs."""
    return AuditDiffers(
        f"{report.relation} differs in {plural(report.difference_count, 'group')} from what it is"
        " made of",
        f"{report.remedy()} (docs/runbook.md, The audit differs)",
    )


def main() -> None:
    """Run the command; a failure is a sentence on stderr and an exit code."""
    run_job(app, "Nothing was changed.")
