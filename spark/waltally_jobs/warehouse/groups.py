"""Groups of a model, of its baseline or of an archive: queries, and the tables that tasks make.

They have the columns part (null in a model), dimensions and sums, whose numbers are texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as compute

from waltally.models import Model
from waltally.tables import literal, quoted
from waltally_jobs.common.arrow import Task
from waltally_jobs.common.numbers import print_number, total

if TYPE_CHECKING:
    from waltally_jobs.common.connections import TargetSession

TOTALS = "groups bigint, totals array<string>"
"""The columns of what the task of `totals_of` makes."""


def totals_of(model: Model) -> Task:
    """Return the task that gives of groups their number, and what each measure adds up to."""

    def make(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            totals = [
                print_number(
                    # A sum of nothing is null.
                    total(compute.list_element(batch["sums"], place).drop_null().to_pylist())
                )
                for place, _ in enumerate(model.measures)
            ]
            yield pa.RecordBatch.from_pydict(
                {"groups": [batch.num_rows], "totals": pa.array([totals], pa.list_(pa.string()))}
            )

    return make


def model_query(model: Model) -> str:
    """Return the query of the rows in the model's table."""
    dimensions = ", ".join(f"{quoted(each.name)}::text" for each in model.dimensions)
    numbers = ", ".join(f"{quoted(each.name)}::text" for each in model.measures)
    return (
        f"select null::text as part, array[{dimensions}]::text[] as dimensions,"
        f" array[{numbers}]::text[] as sums from {model.relation.quoted}"
    )


def baseline_query(model: Model, target: TargetSession) -> str:
    """Return the query of the model's baseline."""
    return (
        f"select part, dimensions, measures::text[] as sums from {target.table('baseline_group')}"
        f" where slot_name = {literal(target.slot)} and declared_name = {literal(model.name)}"
    )


def archived_query(model: Model, target: TargetSession) -> str:
    """Return the query of what was deleted from the tables whose deletes the model ignores."""
    return (
        f"select part, dimensions, measures::text[] as sums from {target.table('archived_delete')}"
        f" where slot_name = {literal(target.slot)} and model_name = {literal(str(model.relation))}"
    )
