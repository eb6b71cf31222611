"""The command `apply.py`: settings in, a line or JSON for each batch out, and an exit code."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from common.options import AsJson, Facts, run_job
from common.progress import print_lines, print_status
from common.settings import DEFAULT_TIMEOUT

from applying.job import Applied, apply
from applying.settings import MAX_CHANGES, ApplySettings
from waltally.errors import LoaderError
from waltally.options import Schema, Slot, Source, Target
from waltally.settings import DEFAULT_SCHEMA, DEFAULT_SLOT

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def run(
    source: Source = "",
    target: Target = "",
    slot: Slot = DEFAULT_SLOT,
    schema: Schema = DEFAULT_SCHEMA,
    fact: Facts = None,
    once: Annotated[
        bool, typer.Option("--once", help="End once what is staged now is applied.")
    ] = False,
    interval: Annotated[
        float, typer.Option(min=0.01, help="Seconds of rest where nothing is staged.")
    ] = 1.0,
    max_changes: Annotated[
        int, typer.Option(min=1, help="Changes of a batch, about; a transaction goes whole.")
    ] = MAX_CHANGES,
    timeout: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for an executor and for locks.")
    ] = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Apply what is staged to the facts that say engine='spark'.

    For instance: spark-submit spark/apply.py --interval 5 --fact ft_service_stats
    """

    def report(event: Applied | LoaderError) -> None:
        if isinstance(event, LoaderError):
            print_status(event.sentence)
        elif as_json:
            print_lines([json.dumps(event.as_json())])
        else:
            print_lines([event.line()])

    apply(
        ApplySettings(
            target or source,
            slot,
            schema,
            tuple(fact or ()),
            None if once else interval,
            max_changes,
            timeout,
        ),
        report,
    )


def main() -> None:
    """Run the command; a failure is a sentence on stderr and an exit code."""
    run_job(app, "What was applied before is intact; run it again to go on.")
