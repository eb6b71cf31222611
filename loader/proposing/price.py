"""What each proposed model will hold and cost, by what a sample of the rows gives."""

from __future__ import annotations

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.book import Book, Model
from loader.proposing.catalog import Relation
from loader.proposing.sample import Sample, sample_of
from waltally.tables import format_table
from waltally.units import size

_INDEXED = 1.8
"""A table with its indexes, by the size of its rows."""
_MICROSECONDS = {"rows": 10, "fact": 15, "fact over models": 70}
"""About what a changed row costs the server in batches; only for comparing kinds."""
_OFTEN = 5
"""Of a group with more sampled rows nearly every one like it is in the sample."""
_SUM = "sum(waltally_rows)"
_LITTLE = 0.25
"""The share of what it counts, and of the largest table, from which a fact saves little."""
_FEW = 1000
"""A model with fewer rows costs nothing that matters."""


def price_lines(book: Book) -> list[str]:
    """Return a line for each model; the first ones say which saves little."""
    lines, warnings, small = [], [], []
    largest = max((one.rows for one in book.sources), default=0)
    counted: dict[int, float] = {}
    shares: dict[int, tuple[Relation | None, float]] = {}
    for number, model in enumerate(book.models):
        query, is_grouped = _with_rows(model)
        sample = sample_of(book, [query])
        # Some blocks have more than their share of a fact's groups.
        inputs = [shares[n] for n in book.inputs(model.text)]
        share = min((s for one, s in inputs if one == sample.relation), default=sample.share)
        rows, sampled, groups, width = _size(sample, query, share if is_grouped else 1.0)
        shares[number] = sample.relation, sampled / groups if groups else 1.0
        facts = [counted[n] for n in book.inputs(model.text) if not book.models[n].copied]
        counted[number] = max(rows, *facts, 0)
        if groups < _FEW and model.copied:
            small.append(model.name)
            continue
        kind = next(
            (kind for kind in ("fact over models", "rows") if model.kind.startswith(kind)), "fact"
        )
        held = f"about {groups:,.0f} rows, {size(groups * width * _INDEXED)}"
        lines.append(f"{model.name}: {held}, {_MICROSECONDS[kind]} µs a change")
        lines.append(f"  {model.kind}")
        if groups > max(_FEW, _LITTLE * max(counted[number], largest)) and not model.copied:
            warnings.append(
                f"{model.name} saves little: about {groups:,.0f} rows for the"
                f" {counted[number]:,.0f} that it counts"
            )
    if small:
        lines.append(f"{', '.join(small)}: fewer than {_FEW:,} rows")
    return [*warnings, *lines]


def identity_lines(book: Book, has_old_rows: dict[str, bool]) -> list[str]:
    """Return the SQL for tables whose old values a fact needs."""
    facts = [model for model in book.models if not model.copied]
    counted = {one.table for model in facts for one in book.tables(model.text)}
    tables = [table for table in sorted(counted, key=str) if not has_old_rows.get(str(table))]
    return [f"alter table {format_table(table)} replica identity full;" for table in tables]


def _size(sample: Sample, query: str, share: float) -> tuple[float, float, float, float]:
    """Return how many rows a model counts, its rows here and in all, and the bytes of one.

    The number of groups is estimated as ANALYZE estimates that of values, without those that the
    sample often has, which are all known.
    """
    ctes = f"with {', '.join(ctes)} " if (ctes := sample.ctes()) else ""
    sums = (
        f"count(*), {_SUM}, avg(pg_column_size(m))",
        *(f"{one} filter (where waltally_rows <= {_OFTEN})" for one in ("count(*)", _SUM)),
        "count(*) filter (where waltally_rows = 1)",
    )
    ((sampled, rows, width, rare, rare_rows, single),) = (
        (float(value or 0) for value in row)
        for row in sample.book.catalog.connection.ask(
            f"{ctes}select {', '.join(sums)} from ({sample.over(query)}) as m"
        )
    )
    more = rare * (rare_rows / (rare_rows - single + single * share) - 1) if rare else 0
    return rows / share, sampled, sampled + more, width


def _with_rows(model: Model) -> tuple[str, bool]:
    """Return a model's query with the number of rows of each group, and whether it has groups."""
    query = tree.parse(model.text)[0]
    count = tree.expression("1" if model.copied else "count(*)")
    target = pb.ResTarget(name="waltally_rows", val=count)
    query.target_list.append(pb.Node(res_target=target))
    return tree.statement(query), bool(model.copied or query.group_clause)
