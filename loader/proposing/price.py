"""What keeping a query costs beside asking it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.plan import PERCENT, Plan
from loader.proposing.prove import Proof
from loader.proposing.scope import is_clock
from loader.proposing.sizes import LONGEST, Size, limited
from loader.proposing.stopping import is_stopped
from loader.setup.cost import cost_lines
from loader.setup.read_catalog import read_columns
from waltally.database import Target
from waltally.errors import Interrupted
from waltally.tables import format_table
from waltally.units import duration, plural, size

_MICROSECONDS = {"rows": 10, "fact": 15, "fact over models": 70}
"""About what a changed row costs the server in batches; only for comparing kinds."""
_LITTLE = 0.25
"""The share of the largest table's rows from which a model saves little."""
_FEW = 1000
"""A model with fewer rows costs nothing that matters."""
_TIMES = 20
"""How many times faster than its query a view has to be."""
_CHEAP_ROWS = 10_000
"""A query of tables with fewer rows costs nothing that matters."""
_TABLE_BYTES = """
select coalesce(sum(pg_table_size(part.relid)), 0)
from unnest(%s::text[]) as t (name)
cross join lateral (
    select t.name::regclass as relid
    union select relid from pg_partition_tree(t.name::regclass)
) as part
"""
_MOST_RUNS = 3
_SHORT = 1
"""A view that takes longer is asked once."""


def price_lines(plan: Plan, sizes: dict[str, Size]) -> list[str]:
    """Return a line for each model; the first ones say which saves little."""
    lines, warnings, small = [], [], []
    largest = max((one.rows for one in plan.sources.values()), default=0)
    for model, own in ((model, sizes[mark]) for mark, model in plan.models.items()):
        if own.rows < _FEW and model.copied:
            small.append(model.name)
            continue
        kind = next(
            (kind for kind in ("fact over models", "rows") if model.compiled.kind.startswith(kind)),
            "fact",
        )
        held = f"about {own.rows:,.0f} rows, {size(own.bytes)}"
        lines.append(f"{model.name}: {held}, {_MICROSECONDS[kind]} µs a change")
        lines.append(f"  {model.compiled.kind}")
        if own.rows > max(_FEW, _LITTLE * largest):
            warnings.append(
                f"{model.name} saves little: about {own.rows:,.0f} rows, and the largest table has"
                f" {largest:,.0f}"
            )
    if small:
        lines.append(f"{', '.join(small)}: fewer than {_FEW:,} rows")
    return [*warnings, *lines]


@dataclass(frozen=True)
class Price:
    """What keeping a query costs beside asking it."""

    kept: float
    """Bytes of its models."""
    read: float
    """Bytes of the tables."""
    rows: float
    """How many rows the view reads."""
    view_seconds: float
    query_seconds: float

    @property
    def is_dear(self) -> bool:
        """Whether keeping costs more than it gives."""
        return self.view_seconds > self.query_seconds / _TIMES or self.kept > self.read

    @property
    def line(self) -> str:
        """The price as one line."""
        rows = plural(max(round(self.rows), 1), "row")
        return (
            f"keeps about {size(self.kept)} of {size(self.read)} that the query reads; the view"
            f" reads about {rows} in {_took(self.view_seconds)}, the query takes"
            f" {_took(self.query_seconds)}"
        )


def _took(seconds: float) -> str:
    return f"{1000 * seconds:,.1f} ms" if seconds < 1 else duration(seconds)


def is_priced(plan: Plan, original: str) -> bool:
    """Return whether a query reads a table of many rows; else all is cheap."""
    return max((one.rows for one in plan.tables(original)), default=0) > _CHEAP_ROWS


def price_of(
    plan: Plan,
    target: Target,
    original: str,
    reads: pb.SelectStmt,
    proof: Proof,
    sizes: dict[str, Size],
) -> Price:
    """Return a query's price, where its models are made."""
    text = tree.statement(reads)
    tables = [one.table.quoted for one in plan.tables(original)]
    ((read,),) = plan.catalog.connection.ask(_TABLE_BYTES, (tables,))
    inputs = [sizes[mark] for mark in plan.inputs(text)]
    # Over all rows a view reads as many times more as its models have.
    growth = sum(one.rows for one in inputs) / max(1.0, sum(one.sampled for one in inputs))
    planning, seconds, rows = _try_view(plan, target, text)
    sampled = proof.query_seconds * (100 / PERCENT if proof.sampled else 1.0)
    return Price(
        sum(sizes[mark].bytes for mark in plan.needed(text)),
        float(read),
        rows * growth,
        planning + seconds * growth,
        _query_seconds(plan, original, sampled),
    )


def _try_view(plan: Plan, target: Target, text: str) -> tuple[float, float, float]:
    """Return what a view over the models' tables takes: seconds to plan and run it, rows read.

    Raises LoaderError.
    """
    view = f"select count(q) from ({plan.over_tables(text)}) as q"
    explain = f"explain (analyze, timing off, format json) {view}"
    runs: list[dict[str, Any]] = []
    while len(runs) < _MOST_RUNS and not (runs and runs[0]["Execution Time"] > 1000 * _SHORT):
        runs.append(target.ask(explain)[0][0][0])
    planning, seconds = (
        min(run[f"{what} Time"] for run in runs) / 1000 for what in ("Planning", "Execution")
    )
    return planning, seconds, sum(_read_rows(runs[0]["Plan"]))


def _read_rows(node: dict[str, Any]) -> Iterator[float]:
    """Yield how many rows of tables the nodes of a plan read."""
    if "Relation Name" in node:
        rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        yield rows * node["Actual Loops"]
    for child in node.get("Plans", ()):
        yield from _read_rows(child)


def _query_seconds(plan: Plan, original: str, sampled: float) -> float:
    """Return what a query takes, over all rows and by what indexes there are.

    `sampled`: what it took in the proof, for one that takes long.
    """
    connection = plan.catalog.connection
    with limited(connection):
        begun = time.perf_counter()
        try:
            connection.ask(f"select count(q) from ({plan.plain(original)}) as q")
            return time.perf_counter() - begun
        except Interrupted:
            if is_stopped():
                raise
            return max(LONGEST, sampled)


def cheaper(plan: Plan, reads: pb.SelectStmt) -> str:
    """Return what would make a query's models smaller."""
    text = tree.statement(reads)
    models = [plan.models[mark] for mark in plan.needed(text)]
    ways = []
    if any(is_clock(call) for call in tree.find(reads, pb.FuncCall)):
        ways.append("ask by days, with current_date in place of now()")
    if any(grain != "day" for model in models for grain in model.grains.values()):
        ways.append("keep times by a coarser --grain")
    keys = {name: None for model in models if not model.copied for name in model.compiled.keys}
    ways.append(f"take a column or a parameter out of {', '.join(keys) or 'the query'}")
    return f"{'; '.join(ways)}; or write it as it is by --anyway"


def identity_lines(plan: Plan, has_old_rows: dict[str, bool]) -> Iterator[str]:
    """Yield the SQL for tables whose old values a fact needs, and what that costs."""
    facts = [model for model in plan.models.values() if not model.copied]
    counted = {one.table for model in facts for one in plan.tables(model.text)}
    tables = [table for table in sorted(counted, key=str) if not has_old_rows.get(str(table))]
    if tables:
        yield "A fact needs the old values of what it counts. At the source:"
    for table in tables:
        yield f"  alter table {format_table(table)} replica identity full;"
        needed = {name for model in facts for name in model.compiled.needed.get(str(table), ())}
        columns = read_columns(plan.catalog.connection, table)
        yield from (f"  {line}" for line in cost_lines(table, needed, columns))
