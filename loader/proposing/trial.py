"""A view over tables of its models with their index, of a sample of the rows, at the target."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from loader.proposing.book import Book
from loader.proposing.sample import sample_of
from loader.setup.compile_queries import Undone
from waltally.database import Target
from waltally.errors import Interrupted
from waltally.tables import quoted

_TIMES = 3
_LONGEST = 10
"""So many seconds a query may take before its time is that of the sample."""


@dataclass(frozen=True)
class Trial:
    """What the view took over the sample's models."""

    planning: float
    """Seconds, however many rows there are."""
    seconds: float
    rows: float
    """How many rows it read."""


def try_view(book: Book, target: Target, text: str) -> Trial:
    """Return what a view takes; nothing stays at the target. Raises LoaderError."""
    with suppress(Undone), target.transaction():
        if book.catalog.zone:
            target.ask("select set_config('timezone', %s, true)", (book.catalog.zone,))
        for number in sorted(book.inputs(text)):
            _fill(book, target, number)
        view = f"select count(q) from ({book.over_tables(text)}) as q"
        explain = f"explain (analyze, timing off, format json) {view}"
        plans = [target.ask(explain)[0][0][0] for _ in range(_TIMES)]
        raise Undone
    planning, seconds = (
        min(plan[f"{what} Time"] for plan in plans) / 1000 for what in ("Planning", "Execution")
    )
    return Trial(planning, seconds, sum(_read_rows(plans[0]["Plan"])))


def query_seconds(book: Book, original: str, sampled: float) -> float:
    """Return what a query takes, over all rows and by what indexes there are.

    `sampled`: what it took in the proof, for one that takes long.
    """
    connection = book.catalog.connection
    ((before,),) = connection.ask("select current_setting('statement_timeout')")
    connection.ask("select set_config('statement_timeout', %s, false)", (f"{_LONGEST}s",))
    begun = time.perf_counter()
    try:
        connection.ask(f"select count(q) from ({book.plain(original)}) as q")
        return time.perf_counter() - begun
    except Interrupted:
        return max(_LONGEST, sampled)
    finally:
        connection.ask("select set_config('statement_timeout', %s, false)", (before,))


def _fill(book: Book, target: Target, number: int) -> None:
    """Make a model's table of the sample's rows."""
    model = book.models[number]
    sample = sample_of(book, [model.text])
    columns = [f"{quoted(name)} {_stored(type_)}" for name, type_ in book.columns(model.text)]
    name = f"waltally_model_{number}"
    ctes = f"with {', '.join(ctes)} " if (ctes := sample.ctes()) else ""
    query = f"{ctes}select coalesce(json_agg(m), '[]')::text from ({sample.over(model.text)}) as m"
    ((rows,),) = book.catalog.connection.ask(query)
    target.ask(f"create temporary table {name} ({', '.join(columns)}) on commit drop")
    target.ask(
        f"insert into {name} select * from json_populate_recordset(null::{name}, %s)", (rows,)
    )
    if model.keys:
        target.ask(f"create index on {name} ({', '.join(map(quoted, model.keys))})")
    target.ask(f"analyze {name}")


def _stored(type_: str) -> str:
    """Return a type as a model's table has it: enums as texts, and character without a length."""
    if "." in type_:
        return "text"
    return re.sub(r"^character(?! varying)", "bpchar", re.sub(r"^bit(?! varying)", "varbit", type_))


def _read_rows(plan: dict[str, Any]) -> Iterator[float]:
    """Yield how many rows of tables the nodes of a plan read."""
    if "Relation Name" in plan:
        rows = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
        yield rows * plan["Actual Loops"]
    for child in plan.get("Plans", ()):
        yield from _read_rows(child)
