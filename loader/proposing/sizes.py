"""How many rows and bytes the proposed models hold: as tables at the target, or by a sample."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from tempfile import TemporaryFile

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.plan import PERCENT, Model, Plan
from loader.proposing.stopping import is_stopped, not_stopped
from loader.setup.compile_queries import Undone
from waltally.database import Connection, Target
from waltally.errors import Interrupted, LoaderError
from waltally.tables import quoted

_WHOLE_ROWS = 2_000_000
"""The models of tables with more rows are judged by a sample."""
LONGEST = 10
"""So many seconds a query may take before its time is that of the sample."""
# What a row takes of its pages: a pointer of 4 bytes and, aligned to 8, a header and the values.
# Pages are filled to four fifths (cdc.write_table), those of an index to about three quarters.
_BYTES = """
avg(4 + ceil(pg_column_size(row({columns})) / 8.0) * 8 + 8 * {hidden}) / 0.8
+ avg(4 + ceil((pg_column_size(row({keys})) - 24 + 8) / 8.0) * 8) / 0.75
"""
_OFTEN = 5
"""Of a group that is in more sampled blocks nearly every one like it is in the sample."""
_UNFOLDS = re.compile(r"unnest|_elements|_each|_keys|_to_table|_matches|generate_")
"""Functions that give several rows."""


@dataclass(frozen=True)
class Size:
    """What a model will hold."""

    rows: float
    width: float
    """The bytes of a row with its index."""
    sampled: float
    """How many rows the sample gives."""

    @property
    def bytes(self) -> float:
        """All of its bytes."""
        return self.rows * self.width


@contextmanager
def measured(plan: Plan, target: Target) -> Iterator[dict[str, Size]]:
    """Have the models at the target for the block, and give what they hold. Raises LoaderError.

    They are made whole where their tables are not too large, else of a sample.
    """
    if max(one.rows for one in plan.sources.values()) <= _WHOLE_ROWS:
        with ExitStack() as stack:
            try:
                sizes = stack.enter_context(made(plan, target, True))
            except Interrupted:
                # It takes too long.
                if is_stopped():
                    raise
            else:
                yield sizes
                return
    sizes = sizes_of(plan)
    with made(plan, target, False):
        yield sizes


@contextmanager
def made(plan: Plan, target: Target, is_whole: bool) -> Iterator[dict[str, Size]]:
    """Have tables of the models at the target for the block: of all rows, or of the sample's.

    Gives what the tables hold, by mark.

    Nothing stays at the target. Raises LoaderError, Interrupted where it takes too long.
    """
    with suppress(Undone), target.transaction(), limited(plan.catalog.connection):
        # As a table that is read often is in memory.
        target.ask("set local temp_buffers = '256MB'")
        target.ask("select set_config('statement_timeout', %s, true)", (f"{2 * LONGEST}s",))
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


@contextmanager
def limited(connection: Connection) -> Iterator[None]:
    """Let no statement of the block take longer than LONGEST."""
    ((before,),) = connection.ask("select current_setting('statement_timeout')")
    connection.ask("select set_config('statement_timeout', %s, false)", (f"{LONGEST}s",))
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
    text = model.text
    query = (plan if is_whole else plan.sample(text)).plain(text)
    into = f"{mark} ({', '.join(map(quoted, model.columns))})"
    if not (
        is_whole
        and not plan.tables(text)
        and _done(target, f"insert into {into} {plan.over_tables(text)}")
    ):
        with TemporaryFile() as rows, not_stopped():
            plan.catalog.connection.copy(f"copy ({query}) to stdout", rows)
            rows.seek(0)
            target.copy(f"copy {into} from stdin", rows)
    if model.compiled.keys:
        # A value may be too long for an index.
        _done(target, f"create index on {mark} ({', '.join(map(quoted, model.compiled.keys))})")
    target.ask(f"analyze {mark}")


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


def sizes_of(plan: Plan) -> dict[str, Size]:
    """Return what each model will hold, by mark."""
    sizes: dict[str, Size] = {}
    for mark, model in plan.models.items():
        own = _size(plan, mark)
        inputs = plan.inputs(model.text)
        # What is joined may multiply the rows of copies.
        known = [sizes[n].rows for n in inputs if len(inputs) == 1 or not plan.models[n].copied]
        rows = min(own.rows, max(known, default=own.rows))
        calls = tree.find(tree.parse(model.text)[0], pb.FuncCall)
        unfolds = any(_UNFOLDS.search(tree.called(call)) for call in calls)
        if (tables := plan.tables(model.text)) and not unfolds:
            # One row of a table is in one group; what is estimated may be more.
            rows = min(rows, sum(one.rows for one in tables))
        sizes[mark] = replace(own, rows=rows)
    return sizes


def _size(plan: Plan, mark: str) -> Size:
    """Return what a model will hold.

    The number of groups is estimated as ANALYZE estimates that of values, but by the blocks in
    which a group is, since similar rows are often stored together. Groups that the sample often has
    are all known.
    """
    model = plan.models[mark]
    sample = plan.sample(model.text)
    marks = {plan.source(sample.sampled): "waltally_sampled"} if sample.sampled else {}
    models = {own: _counting(one, own, marks) for own, one in plan.models.items()}
    text = replace(sample, models=models).plain(models[mark].text)
    rare = f"filter (where waltally_blocks <= {_OFTEN})"
    columns, keys = (
        ", ".join(map(quoted, names)) for names in (model.columns, model.compiled.keys)
    )
    sums = (
        "count(*)",
        _BYTES.format(columns=columns, keys=keys, hidden=model.compiled.hidden),
        f"count(*) {rare}, sum(waltally_blocks) {rare}",
        "count(*) filter (where waltally_blocks = 1)",
    )
    ((groups, width, rare_groups, seen, once),) = (
        (float(value or 0) for value in row)
        for row in plan.catalog.connection.ask(f"select {', '.join(sums)} from ({text}) as m")
    )
    share = PERCENT / 100 if sample.sampled else 1.0
    rows = groups
    if model.compiled.keys and seen:
        rows += rare_groups * (seen / (seen - once + once * share) - 1)
    return Size(rows, width, groups)


def _counting(model: Model, mark: str, marks: dict[str, str]) -> Model:
    """Return a model with the number of blocks in which each of its rows, or its group, is.

    `marks`: by mark of what has blocks, what to read in its place; the model comes to it.
    """
    query = tree.parse(model.text)[0]
    is_filtered = tree.has_star(query)
    inner = query.from_clause[0].range_subselect.subquery.select_stmt if is_filtered else query
    windows = tree.find(inner, pb.WindowDef) if is_filtered else []
    groups = [inner.distinct_clause, *(one.partition_clause for one in windows)]
    is_grouped = not (
        model.copied or is_filtered or tree.is_distinct_on(query) or tree.has_windows(query)
    )
    of = _read_blocks(inner, marks)
    block, blocks = f"{of}.waltally_block", f"{of}.waltally_blocks"
    if of:
        marks[mark] = mark
    if not of:
        block, blocks = "null::float8", "count(*)" if is_grouped else "1"
    elif is_grouped:
        block, blocks = f"min({block})", f"greatest(count(distinct {block}), max({blocks}))"
    elif parts := next(filter(None, groups), None):
        by = f"partition by {', '.join(map(tree.sql, parts))} order by {block}"
        blocks = f"dense_rank() over ({by}) + dense_rank() over ({by} desc) - 1"
    elif not model.copied:
        blocks = "1"
    tree.add_column(inner, "waltally_block", block)
    tree.add_column(inner, "waltally_blocks", blocks)
    return Model(model.name, tree.statement(query))


def _read_blocks(query: pb.SelectStmt, marks: dict[str, str]) -> str:
    """Let a query read what has blocks, and return its alias in FROM; empty where nothing has."""
    for entry in tree.own(query, pb.RangeVar):
        if entry.relname in marks:
            entry.alias.aliasname = entry.alias.aliasname or entry.relname
            entry.relname = marks[entry.relname]
            return str(entry.alias.aliasname)
    for sub in tree.own(query, pb.RangeSubselect):
        arms = tree.arms(sub.subquery.select_stmt)
        if any(map(_mixes_columns, arms)):
            continue
        aliases = [_read_blocks(arm, marks) for arm in arms]
        if not any(aliases):
            continue
        for arm, of in zip(arms, aliases, strict=True):
            if not (of and tree.has_star(arm)):
                # Of a table that is read whole all groups are known.
                block = f"{of}.waltally_block" if of else "null::float8"
                blocks = f"{of}.waltally_blocks" if of else str(_OFTEN + 1)
                tree.add_column(arm, "waltally_block", block)
                tree.add_column(arm, "waltally_blocks", blocks)
        return str(sub.alias.aliasname)
    return ""


def _mixes_columns(select: pb.SelectStmt) -> bool:
    """Return whether a star gives more than the columns of one entry of FROM, in their order."""
    is_alone = len(select.target_list) == len(select.from_clause) == 1
    is_join = any(entry.HasField("join_expr") for entry in select.from_clause)
    return tree.has_star(select) and (is_join or not is_alone)
