"""`loader stats`: how many notifications a service has, for a person or a program."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from loader.monitoring import stats, stats_table
from loader.monitoring.status_table import output_console
from loader.verbs.options import Schema, Source, Target, reported
from waltally.settings import DEFAULT_DBT_SCHEMA, DEFAULT_SCHEMA, complete_conninfo


def stats_command(
    service: Annotated[str, typer.Argument(metavar="SERVICE", help="The service's id, a UUID.")],
    source: Source = "",
    target: Target = "",
    schema: Schema = DEFAULT_SCHEMA,
    dbt_schema: Annotated[
        str, typer.Option(envvar="DBT_SCHEMA", help="The schema that dbt builds in.")
    ] = DEFAULT_DBT_SCHEMA,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program.")] = False,
) -> None:
    """Show a service's counts by type and status, from ft_service_stats alone.

    Example: loader stats 8b4b1c3e-6a1f-4c8e-9a65-0d6c6d8f1a52
    """
    with reported():
        service_id = stats.service(service)
        place = complete_conninfo(target or source, "LOADER_TARGET_DSN")
        found = stats.read_stats(place, schema, dbt_schema, service_id)
        if as_json:
            typer.echo(json.dumps(found.as_json(), indent=2))
        else:
            output_console().print(stats_table.render(found))
