"""Models as tables with their index at the target, and a view over them, to see what they take."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from tempfile import TemporaryFile
from typing import Any

from loader.proposing.estimate import Size
from loader.proposing.plan import Model, Plan
from loader.proposing.prove import sample_of
from loader.proposing.stopping import is_stopped, not_stopped
from loader.setup.compile_queries import Undone
from waltally.database import Connection, Target
from waltally.errors import Interrupted, LoaderError
from waltally.tables import quoted

_TIMES = 3
_LONGEST = 10
"""So many seconds a query may take before its time is that of the sample."""
_SHORT = 1
"""A view that takes longer is asked once."""


@contextmanager
def made(plan: Plan, target: Target, is_whole: bool) -> Iterator[dict[str, Size]]:
    """Have tables of the models at the target for the block: of all rows, or of the sample's.

    Gives what the tables hold, by mark.

    Nothing stays at the target. Raises LoaderError, Interrupted where it takes too long.
    """
    with suppress(Undone), target.transaction(), _limited(plan.catalog.connection):
        # As a table that is read often is in memory.
        target.ask("set local temp_buffers = '256MB'")
        target.ask("select set_config('statement_timeout', %s, true)", (f"{2 * _LONGEST}s",))
        if plan.catalog.zone:
            target.ask("select set_config('timezone', %s, true)", (plan.catalog.zone,))
        for mark in plan.models:
            _fill(plan, target, mark, is_whole)
        yield {mark: _held(target, mark) for mark in plan.models}
        raise Undone


def _held(target: Target, mark: str) -> Size:
    """Return what a model's table has, with its index."""
    ((rows, size),) = target.ask(
        f"select count(*), pg_total_relation_size({mark!r}::regclass) from {mark}"
    )
    return Size(rows, size / max(rows, 1), rows)


def try_view(plan: Plan, target: Target, text: str) -> tuple[float, float, float]:
    """Return what a view over the models' tables takes: seconds to plan and run it, rows read.

    Raises LoaderError.
    """
    view = f"select count(q) from ({plan.over_tables(text)}) as q"
    explain = f"explain (analyze, timing off, format json) {view}"
    runs: list[dict[str, Any]] = []
    while len(runs) < _TIMES and not (runs and runs[0]["Execution Time"] > 1000 * _SHORT):
        runs.append(target.ask(explain)[0][0][0])
    planning, seconds = (
        min(run[f"{what} Time"] for run in runs) / 1000 for what in ("Planning", "Execution")
    )
    return planning, seconds, sum(_read_rows(runs[0]["Plan"]))


def query_seconds(plan: Plan, original: str, sampled: float) -> float:
    """Return what a query takes, over all rows and by what indexes there are.

    `sampled`: what it took in the proof, for one that takes long.
    """
    connection = plan.catalog.connection
    with _limited(connection):
        begun = time.perf_counter()
        try:
            connection.ask(f"select count(q) from ({plan.plain(original)}) as q")
            return time.perf_counter() - begun
        except Interrupted:
            if is_stopped():
                raise
            return max(_LONGEST, sampled)


@contextmanager
def _limited(connection: Connection) -> Iterator[None]:
    """Let no statement of the block take longer than _LONGEST."""
    ((before,),) = connection.ask("select current_setting('statement_timeout')")
    connection.ask("select set_config('statement_timeout', %s, false)", (f"{_LONGEST}s",))
    try:
        yield
    finally:
        connection.ask("select set_config('statement_timeout', %s, false)", (before,))


def _fill(plan: Plan, target: Target, mark: str, is_whole: bool) -> None:
    """Make a model's table."""
    model = plan.models[mark]
    columns = [f"{quoted(own)} {_stored(type_)}" for own, type_ in plan.columns(model.text)]
    columns += [f"waltally_{n} bigint default 1" for n in range(model.compiled.hidden)]
    target.ask(
        f"create temporary table {mark} ({', '.join(columns)})"
        " with (fillfactor = 80) on commit drop"
    )
    into = f"{mark} ({', '.join(map(quoted, model.columns))})"
    if not (
        is_whole
        and not plan.tables(model.text)
        and _done(target, f"insert into {into} {plan.over_tables(model.text)}")
    ):
        with TemporaryFile() as rows, not_stopped():
            plan.catalog.connection.copy(f"copy ({_rows(plan, model, is_whole)}) to stdout", rows)
            rows.seek(0)
            target.copy(f"copy {into} from stdin", rows)
    if model.compiled.keys:
        # A value may be too long for an index.
        _done(target, f"create index on {mark} ({', '.join(map(quoted, model.compiled.keys))})")
    target.ask(f"analyze {mark}")


def _rows(plan: Plan, model: Model, is_whole: bool) -> str:
    """Return the query of a model's rows at the source."""
    return plan.plain(model.text) if is_whole else sample_of(plan, [model.text]).query(model.text)


def _done(target: Target, statement: str) -> bool:
    """Run a statement, and return whether it could be."""
    target.ask("savepoint before")
    try:
        target.ask(statement)
    except Interrupted:
        raise
    except LoaderError:
        target.ask("rollback to savepoint before")
        return False
    return True


def _stored(type_: str) -> str:
    """Return a type as a model's table has it: enums as texts, and character without a length."""
    if "." in type_:
        return "text"
    return re.sub(r"^character(?! varying)", "bpchar", re.sub(r"^bit(?! varying)", "varbit", type_))


def _read_rows(node: dict[str, Any]) -> Iterator[float]:
    """Yield how many rows of tables the nodes of a plan read."""
    if "Relation Name" in node:
        rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        yield rows * node["Actual Loops"]
    for child in node.get("Plans", ()):
        yield from _read_rows(child)
