"""A fact's row in model_watermark: how far it is built, on which baseline, by which declaration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from common.connections import Connection

from waltally import lsn
from waltally.errors import NotSetUp, SettingError
from waltally.facts import Declaration, Fact
from waltally.tables import Table


@dataclass(frozen=True)
class Watermark:
    """Every change with a commit LSN below applied_lsn is in the fact.

    `baseline_id` is of the baseline that it was built on, None where it was built on none.
    """

    applied_lsn: int
    baseline_id: str | None
    declaration: Declaration


def find(target: Connection, schema: str, slot: str, fact: Fact) -> Watermark | None:
    """Return the fact's watermark for the slot, None where it was never built from it."""
    row = target.execute(
        "select applied_lsn::text, baseline_id::text, declaration"
        f" from {Table(schema, 'model_watermark').quoted}"
        " where model_name = %s and slot_name = %s",
        (str(fact.relation), slot),
    ).fetchone()
    if row is None:
        return None
    applied, baseline_id, declaration = row
    return Watermark(
        lsn.parse(str(applied)),
        None if baseline_id is None else str(baseline_id),
        cast(Declaration, declaration or {}),
    )


def read(target: Connection, schema: str, slot: str, fact: Fact) -> Watermark:
    """Return the watermark of a fact that is built as it is registered.

    Raises NotSetUp where it is not built, SettingError where it was built by another declaration.
    """
    found = find(target, schema, slot, fact)
    exists = target.execute("select to_regclass(%s)", (fact.relation.quoted,)).fetchone()
    if found is None or exists == (None,):
        raise NotSetUp(
            f"{fact.relation} has not been built from the slot {slot} yet",
            "`dbt build`, with the same LOADER_SLOT and LOADER_SCHEMA; where it waits for its"
            f" baseline: `spark-submit spark/seed.py --fact {fact.name}`, then `dbt build`",
        )
    if found.declaration != fact.declaration:
        raise SettingError(
            f"{fact.relation} holds what it counted by another declaration than the one that"
            " `loader setup` registered",
            f"`spark-submit spark/seed.py --fact {fact.name}`, then `dbt build`",
        )
    return found
