"""Groups of a model and of its archived deletes: queries, and the comparison with a model."""

from __future__ import annotations

import json

from waltally.models import Model
from waltally.tables import literal
from waltally_jobs.common.compared import Compared, Comparison, Difference
from waltally_jobs.common.connections import TargetSession


def archived_query(model: Model, target: TargetSession) -> str:
    """Return the query of what was deleted from the tables whose deletes the model ignores.

    It gives part, dimensions and sums, as texts.
    """
    return (
        f"select part, dimensions, measures::text[] as sums from {target.table('archived_delete')}"
        f" where slot_name = {literal(target.slot)} and model_name = {literal(str(model.relation))}"
    )


def summed(model: Model, term: str) -> str:
    """Return SQL: an array of what `term` gives for the place of each measure."""
    places = range(1, len(model.measures) + 1)
    return f"array[{', '.join(term.format(place) for place in places)}]"


def compare(
    target: TargetSession,
    model: Model,
    relation: str,
    counted: str,
    is_uncertain: bool,
    limit: int,
    purged: bool = True,
) -> tuple[Comparison, dict[str, str]]:
    """Compare what the relation has of the model with what was counted, in an open transaction.

    `counted` are groups of each source, and `purged` says that archived deletes come beside them.
    With `is_uncertain` only counts that are too small are differences. Returns also how much of
    each measure is of archived deletes.
    """
    archived = (
        f"select part, dimensions, sums::numeric[] as measures"
        f" from ({archived_query(model, target)}) as deletes where {purged}"
    )
    ((query,),) = target.ask_staging(
        "select {}.write_comparison(%s, %s, %s, %s, %s, %s)",
        (json.dumps(model.declaration), relation, counted, archived, is_uncertain, limit),
    )
    # Texts of keys are as in the query's time zone.
    zone = model.declaration["timezone"]
    target.ask("select set_config('timezone', %s, true)", (zone,))
    ((count, totals, differing, largest),) = target.ask(query)
    # What the query does not show itself is told only where it differs.
    shown = [each for each in totals if not each[0].startswith("waltally_") or each[1] != each[2]]
    names = [each.name for each in model.dimensions]
    differences = [
        Difference(measure, own, right, dict(zip(names, key, strict=True)))
        for key, measure, own, right in largest
    ]
    found = [Compared(*each) for *each, _ in shown]
    return Comparison(count, found, differing, differences), {
        name: gone for name, *_, gone in shown
    }
