"""The options that several jobs have, and how a job's process ends after an error."""

from __future__ import annotations

import sys
from typing import Annotated, NoReturn

import psycopg
import typer
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from common.console import restore_stderr
from common.progress import print_lines
from common.spark_errors import first_line
from waltally.errors import LoaderError

Facts = Annotated[
    list[str] | None,
    typer.Option("--fact", help="Name of a dbt model; may be repeated. Else every fact."),
]
Partitions = Annotated[int, typer.Option(min=0, help="Ranges to read; 0: one per 8192 pages.")]
Timeout = Annotated[
    float,
    typer.Option(min=0, help="Seconds to wait for writers, for the loader and for another seed."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def run_job(app: typer.Typer, intact: str) -> None:
    """Run the command; a failure is a sentence and `intact` on stderr, and an exit code."""
    restore_stderr()
    try:
        app()
    except LoaderError as error:
        _end(error.exit_code, *error.sentence.split("\n"), intact)
    except (psycopg.Error, PySparkException, Py4JError) as error:
        _end(LoaderError.exit_code, f"Error: {first_line(error)}", intact)
    except KeyboardInterrupt:
        _end(130, f"Stopped. {intact}".strip())


def _end(code: int, *lines: str) -> NoReturn:
    print_lines(filter(None, lines), err=True)
    sys.exit(code)
