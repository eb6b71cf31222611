"""Copies of what models need of tables, in the target, which evaluates their queries over them.

So where groups are many, the source only copies columns; and where it is another major version, or
differs in encoding, collation or zone data, the query means what it means in the target.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from waltally.models import Model, ModelTable
from waltally.tables import Table, quoted
from waltally_jobs.common.connections import TargetSession
from waltally_jobs.evaluation import evaluating, ranges
from waltally_jobs.evaluation.tasks import Range


@dataclass(frozen=True)
class Copy:
    """A copy of the columns `names` of a model's table: texts in c1, c2, …, with `times`."""

    model: Model
    part: ModelTable
    table: Table
    names: tuple[str, ...]

    @property
    def columns(self) -> str:
        """What is copied: COPY calls the types' own output, and no cast."""
        return ", ".join(map(quoted, self.names))


@contextlib.contextmanager
def made(target: TargetSession, parts: Sequence[tuple[Model, ModelTable]]) -> Iterator[list[Copy]]:
    """Make an empty copy for each of these tables, for the block."""
    names = [model.needed_columns(part) for model, part in parts]
    columns = [
        "attempt bigint, times bigint"
        + "".join(f", c{number} text" for number in range(1, len(own) + 1))
        for own in names
    ]
    with evaluating.made(target, columns) as tables:
        yield [
            Copy(model, part, table, own)
            for (model, part), table, own in zip(parts, tables, names, strict=True)
        ]


def ranges_of(
    target: TargetSession, copy: Copy, copied: Sequence[Mapping[str, int]]
) -> Iterator[tuple[Range, int]]:
    """Yield the ranges of a copy, each with its pages; only what these attempts wrote counts.

    Rows come in parts: what stands for 5 is in those of 1 and of 4.
    """
    target.ask(f"analyze {copy.table.quoted}")
    own = f"attempt = any ('{{{','.join(str(each['attempt']) for each in copied)}}}')"
    columns = "".join(f", c{number} as {quoted(name)}" for number, name in enumerate(copy.names, 1))
    ((times,),) = target.ask(f"select bit_or(times) from {copy.table.quoted}")
    (leaf,) = ranges.leaves(target, copy.table)
    for digit in range((times or 0).bit_length()):
        if times & (unit := 1 << digit):
            texts = f"select ctid{columns} from {copy.table.quoted}"
            relation = f"({texts} where {own} and times & {unit} <> 0) as copied"
            rows = ranges.whole(target, copy.model, copy.part, relation)
            for condition in ranges.cut(leaf, ranges.PAGES_PER_GROUPED_RANGE):
                yield replace(rows, condition=condition, times=unit), leaf.pages
