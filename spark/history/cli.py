"""The command: settings in, one line or JSON out, and an exit code."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from history.console import restore_stderr
from history.job import seed
from history.settings import Settings, counted_tables, parse_lsn
from loader.errors import LoaderError, SettingError
from loader.settings import DEFAULT_SCHEMA, DEFAULT_SLOT, DEFAULT_TABLES, words

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def without_password(context: typer.Context, name: str, value: str) -> str:
    """Return the flag's value; every user of the machine can read a command line."""
    given = context.get_parameter_source(name)
    on_command_line = given is not None and given.name == "COMMANDLINE"
    if on_command_line and any("password" in word for word in words(value, f"--{name}")):
        raise SettingError(
            f"--{name} has a password, which every user of this machine could read",
            f"give it in LOADER_{name.upper()}_DSN, PGPASSWORD or PGPASSFILE",
        )
    return value


@app.command()
def run(
    context: typer.Context,
    source: Annotated[
        str, typer.Option(envvar="LOADER_SOURCE_DSN", help="libpq string or URL; else PG*.")
    ] = "",
    target: Annotated[
        str, typer.Option(envvar="LOADER_TARGET_DSN", help="Warehouse; else the source.")
    ] = "",
    slot: Annotated[
        str, typer.Option(envvar="LOADER_SLOT", help="The slot whose history this is.")
    ] = DEFAULT_SLOT,
    tables: Annotated[
        str, typer.Option(envvar="LOADER_TABLES", help="Live table, archive table.")
    ] = DEFAULT_TABLES,
    schema: Annotated[
        str, typer.Option(envvar="LOADER_SCHEMA", help="The staging schema.")
    ] = DEFAULT_SCHEMA,
    partitions: Annotated[
        int, typer.Option(min=0, help="Ranges to read; 0: one for each 8192 pages.")
    ] = 0,
    parquet: Annotated[
        str | None, typer.Option(help="Count PATH/<table>/ instead of the database.")
    ] = None,
    snapshot_lsn: Annotated[
        str | None, typer.Option(help="The WAL position of the --parquet export.")
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for writers, and for another seed.")
    ] = 300.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Count both tables at one WAL position, while writers go on, and store it as the seed.

    For instance: spark-submit spark/seed.py --partitions 16
    """
    summary = seed(
        Settings(
            without_password(context, "source", source),
            without_password(context, "target", target) or source,
            slot,
            counted_tables(tables),
            schema,
            partitions,
            timeout,
            parquet,
            parse_lsn(snapshot_lsn),
        )
    )
    print(json.dumps(summary.as_json()) if as_json else summary, flush=True)


def main() -> None:
    """Run the command; a failure is a sentence on stderr and an exit code."""
    restore_stderr()
    try:
        app()
    except LoaderError as error:
        print(f"{error.sentence}\nThe previous seed, if any, is intact.", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("Stopped. The previous seed, if any, is intact.", file=sys.stderr)
        sys.exit(130)
