"""How many rows and bytes each proposed model will hold, by what a sample of the rows gives."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.plan import Model, Plan
from loader.proposing.prove import PERCENT, sample_of
from waltally.tables import quoted

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
    sample = sample_of(plan, [model.text])
    marks = {plan.source(sample.relation): "waltally_sampled"} if sample.relation else {}
    models = {own: _counting(one, own, marks) for own, one in plan.models.items()}
    sample = replace(sample, plan=replace(plan, models=models))
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
        for row in plan.catalog.connection.ask(sample.query(models[mark].text, ", ".join(sums)))
    )
    share = PERCENT / 100 if sample.relation else 1.0
    rows = groups
    if model.compiled.keys and seen:
        rows += rare_groups * (seen / (seen - once + once * share) - 1)
    return Size(rows, width, groups)


def _counting(model: Model, mark: str, marks: dict[str, str]) -> Model:
    """Return a model with the number of blocks in which each of its rows is.

    `marks`: by mark of what has blocks, what to read in its place; the model comes to it.
    """
    query = tree.parse(model.text)[0]
    if tree.has_star(query) or tree.is_distinct_on(query) or tree.has_windows(query):
        _count_rows(query, mark, marks)
        return Model(model.name, tree.statement(query))
    block, blocks = "null::float8", "1" if model.copied else "count(*)"
    if of := _read_blocks(query, marks):
        marks[mark] = mark
        block, blocks = f"{of}.waltally_block", f"{of}.waltally_blocks"
        if not model.copied:
            block, blocks = f"min({block})", f"greatest(count(distinct {block}), max({blocks}))"
    tree.add_column(query, "waltally_block", block)
    tree.add_column(query, "waltally_blocks", blocks)
    return Model(model.name, tree.statement(query))


def _count_rows(query: pb.SelectStmt, mark: str, marks: dict[str, str]) -> None:
    """Let the first rows of groups have the number of blocks in which their group is."""
    is_filtered = tree.has_star(query)
    inner = query.from_clause[0].range_subselect.subquery.select_stmt if is_filtered else query
    of = _read_blocks(inner, marks)
    if of:
        marks[mark] = mark
    block, blocks = f"{of}.waltally_block" if of else "null::float8", "1"
    windows = tree.find(inner, pb.WindowDef) if is_filtered else []
    groups = [inner.distinct_clause, *(one.partition_clause for one in windows)]
    parts = next(filter(None, groups), None)
    if of and parts:
        by = f"partition by {', '.join(map(tree.sql, parts))} order by {block}"
        blocks = f"dense_rank() over ({by}) + dense_rank() over ({by} desc) - 1"
    tree.add_column(inner, "waltally_block", block)
    tree.add_column(inner, "waltally_blocks", blocks)


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
