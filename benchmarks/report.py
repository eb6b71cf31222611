"""What a benchmark writes: a table on the terminal and on a page of docs/, and JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from statistics import median
from typing import Any, NamedTuple

import psutil
from rich.console import Console
from rich.table import Table as Printed

from benchmarks.measure import ROOT
from testkit.servers import BIN

RESULTS = ROOT / "benchmarks" / "results"
PAGES = [ROOT / "docs" / name for name in ("performance.md", "dashboards.md")]

Row = Mapping[str, object]


class Table(NamedTuple):
    """What a stage measured. The first row's keys are the columns, with their units."""

    stage: str
    """Its name on the page and in benchmarks/results; empty for a table that is only printed."""
    rows: Sequence[Row]
    models: Mapping[str, object] = {}
    """What goes into the JSON only, such as goals."""


def main(
    page: str | None, measure: Callable[..., Iterable[Table]], **options: tuple[Any, str]
) -> None:
    """Run a stage as a command: parse its options, measure, publish each table as it comes.

    An option is (default, help), and measure takes it by the same name. A list takes several
    values, False is a flag. `page` is the docstring of the stage's module.
    """
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=page, formatter_class=form)
    for name, (default, text) in options.items():
        first = (default or [0])[0] if isinstance(default, list) else default
        takes: dict[str, Any] = {"type": type(first)}
        if isinstance(default, list):
            takes["nargs"] = "*"
        elif default is False:
            takes = {"action": "store_true"}
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, default=default, help=f"{text} (%(default)s)", **takes)
    given = vars(parser.parse_args())
    for table in measure(**given):
        if table.stage:
            publish(table.stage, table.rows, sizes=given, **table.models)
        else:
            show("", table.rows)


def parser(page: str | None) -> argparse.ArgumentParser:
    """Return a parser for a stage's options; `page` is the docstring of its module."""
    form = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(description=page, formatter_class=form)


def publish(stage: str, rows: Sequence[Row], **models: object) -> None:
    """Print a stage's rows and keep them: JSON in benchmarks/results, a table on its page.

    The first row's keys are the columns, with their units. `models` (sizes, goals) go into the
    JSON only. A page holds the table between `<!-- stage -->` and `<!-- /stage -->`.
    """
    show(stage, rows)
    RESULTS.mkdir(parents=True, exist_ok=True)
    kept = {"stage": stage, "machine": machine(), **models, "rows": list(rows)}
    (RESULTS / f"{stage}.json").write_text(json.dumps(kept, indent=2) + "\n")
    _into_page(stage, list(rows[0]), rows)


def show(title: str, rows: Sequence[Row]) -> None:
    """Print rows as a table; the first row's keys are the columns."""
    columns = list(rows[0])
    table = Printed(title=title)
    for column in columns:
        table.add_column(column, justify="left" if column == columns[0] else "right")
    for row in rows:
        table.add_row(*(_shown(row.get(column)) for column in columns))
    Console(width=160).print(table)


def spread(ratios: Sequence[float]) -> str:
    """Return the median, and behind it the least and the most."""
    return f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def machine() -> dict[str, object]:
    """Return what the numbers were measured on."""
    server = subprocess.run([BIN / "postgres", "--version"], capture_output=True, text=True)
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "python": platform.python_version(),
        "postgresql": server.stdout.strip(),
        **{name: version(name) for name in ("dbt-core", "pyspark", "psycopg2-binary")},
    }


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _into_page(stage: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
    lines = [
        "| " + " | ".join(columns) + " |",
        "| --- |" + " ---: |" * (len(columns) - 1),
        *("| " + " | ".join(_shown(row.get(c)) for c in columns) + " |" for row in rows),
    ]
    begin, end = f"<!-- {stage} -->", f"<!-- /{stage} -->"
    body = begin + "\n" + "\n".join(lines) + "\n" + end
    for path in PAGES:
        page = path.read_text()
        if begin in page:
            whole = re.escape(begin) + ".*?" + re.escape(end)
            path.write_text(re.sub(whole, lambda _: body, page, flags=re.S))
