"""What each proposed model will hold and cost, by what a sample of the rows gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.book import Book, Model
from loader.proposing.sample import PERCENT, sample_of
from loader.setup.cost import cost_lines
from loader.setup.read_catalog import read_columns
from waltally.tables import format_table, quoted
from waltally.units import size

# What a row takes of its pages: a pointer of 4 bytes and, aligned to 8, a header and the values.
# Pages are filled to four fifths (cdc.write_table), those of an index to about three quarters.
_BYTES = """
avg(4 + ceil(pg_column_size(row({columns})) / 8.0) * 8 + 8 * {hidden}) / 0.8
+ avg(4 + ceil((pg_column_size(row({keys})) - 24 + 8) / 8.0) * 8) / 0.75
"""
_MICROSECONDS = {"rows": 10, "fact": 15, "fact over models": 70}
"""About what a changed row costs the server in batches; only for comparing kinds."""
_OFTEN = 5
"""Of a group that is in more sampled blocks nearly every one like it is in the sample."""
_LITTLE = 0.25
"""The share of the largest table's rows from which a model saves little."""
_FEW = 1000
"""A model with fewer rows costs nothing that matters."""


def price_lines(book: Book) -> list[str]:
    """Return a line for each model; the first ones say which saves little."""
    lines, warnings, small = [], [], []
    largest = max((one.rows for one in book.sources), default=0)
    sizes: list[float] = []
    for number, model in enumerate(book.models):
        groups, width = _size(book, number)
        facts = [sizes[n] for n in book.inputs(model.text) if not book.models[n].copied]
        groups = min(groups, max(facts, default=groups))
        sizes.append(groups)
        if groups < _FEW and model.copied:
            small.append(model.name)
            continue
        kind = next(
            (kind for kind in ("fact over models", "rows") if model.kind.startswith(kind)), "fact"
        )
        held = f"about {groups:,.0f} rows, {size(groups * width)}"
        lines.append(f"{model.name}: {held}, {_MICROSECONDS[kind]} µs a change")
        lines.append(f"  {model.kind}")
        if groups > max(_FEW, _LITTLE * largest):
            warnings.append(
                f"{model.name} saves little: about {groups:,.0f} rows, and the largest table has"
                f" {largest:,.0f}"
            )
    if small:
        lines.append(f"{', '.join(small)}: fewer than {_FEW:,} rows")
    return [*warnings, *lines]


def identity_lines(book: Book, has_old_rows: dict[str, bool]) -> Iterator[str]:
    """Yield the SQL for tables whose old values a fact needs, and what that costs."""
    facts = [model for model in book.models if not model.copied]
    counted = {one.table for model in facts for one in book.tables(model.text)}
    tables = [table for table in sorted(counted, key=str) if not has_old_rows.get(str(table))]
    if tables:
        yield "A fact needs the old values of what it counts. At the source:"
    for table in tables:
        yield f"  alter table {format_table(table)} replica identity full;"
        needed = {name for model in facts for name in model.needed.get(str(table), ())}
        columns = read_columns(book.catalog.connection, table)
        yield from (f"  {line}" for line in cost_lines(table, needed, columns))


def _size(book: Book, number: int) -> tuple[float, float]:
    """Return how many rows a model has, and the bytes of one with its index.

    The number of groups is estimated as ANALYZE estimates that of values, but by the blocks in
    which a group is, since similar rows are often stored together. Groups that the sample often has
    are all known.
    """
    model = book.models[number]
    sample = sample_of(book, [model.text])
    marks = {book.source(sample.relation): "waltally_sampled"} if sample.relation else {}
    models = [_counting(one, f"waltally_model_{n}", marks) for n, one in enumerate(book.models)]
    sample = replace(sample, book=replace(book, models=models))
    ctes = f"with {', '.join(ctes)} " if (ctes := sample.ctes()) else ""
    rare = f"filter (where waltally_blocks <= {_OFTEN})"
    columns, keys = (", ".join(map(quoted, names)) for names in (model.columns, model.keys))
    sums = (
        "count(*)",
        _BYTES.format(columns=columns, keys=keys, hidden=model.hidden),
        f"count(*) {rare}, sum(waltally_blocks) {rare}",
        "count(*) filter (where waltally_blocks = 1)",
    )
    ((groups, width, rare_groups, seen, once),) = (
        (float(value or 0) for value in row)
        for row in book.catalog.connection.ask(
            f"{ctes}select {', '.join(sums)} from ({sample.over(models[number].text)}) as m"
        )
    )
    share = PERCENT / 100 if sample.relation else 1.0
    if model.keys and seen:
        groups += rare_groups * (seen / (seen - once + once * share) - 1)
    return groups, width


def _counting(model: Model, mark: str, marks: dict[str, str]) -> Model:
    """Return a model with the number of blocks in which each of its rows is.

    `marks`: by mark of what has blocks, what to read in its place; the model comes to it.
    """
    query = tree.parse(model.text)[0]
    block, blocks = "null::float8", "1" if model.copied else "count(*)"
    if of := _read_blocks(query, marks):
        marks[mark] = mark
        block, blocks = f"{of}.waltally_block", f"{of}.waltally_blocks"
        if not model.copied:
            block, blocks = f"min({block})", f"greatest(count(distinct {block}), max({blocks}))"
    tree.add_column(query, "waltally_block", block)
    tree.add_column(query, "waltally_blocks", blocks)
    return Model(model.name, tree.statement(query))


def _read_blocks(query: pb.SelectStmt, marks: dict[str, str]) -> str:
    """Let a query read what has blocks, and return its alias in FROM; empty where nothing has."""
    for entry in tree.find(query, pb.RangeVar, tree.here(query)):
        if entry.relname in marks:
            entry.alias.aliasname = entry.alias.aliasname or entry.relname
            entry.relname = marks[entry.relname]
            return str(entry.alias.aliasname)
    for sub in tree.find(query, pb.RangeSubselect, tree.here(query)):
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
