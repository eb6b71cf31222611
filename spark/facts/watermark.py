"""The fact's row in model_watermark: how far it is built, and on which baseline."""

from __future__ import annotations

from dataclasses import dataclass

from common.connections import Connection

from waltally import lsn
from waltally.errors import NotSetUp
from waltally.tables import Table


@dataclass(frozen=True)
class Watermark:
    """Every change with a commit LSN below applied_lsn is in the fact.

    `seed_id` is of the baseline that it was built on, None where it was built on none.
    """

    applied_lsn: int
    seed_id: str | None


def find(target: Connection, schema: str, slot: str, fact: Table) -> Watermark | None:
    """Return the fact's watermark for the slot, None where it was never built from it."""
    row = target.execute(
        f"select applied_lsn::text, seed_id::text from {Table(schema, 'model_watermark').quoted}"
        " where model_name = %s and slot_name = %s",
        (str(fact), slot),
    ).fetchone()
    if row is None:
        return None
    return Watermark(lsn.parse(str(row[0])), None if row[1] is None else str(row[1]))


def not_built(slot: str, fact: Table) -> NotSetUp:
    """Return the error for a fact that was never built from the slot."""
    return NotSetUp(
        f"{fact} has not been built from the slot {slot} yet",
        "`dbt build`, with the same LOADER_SLOT, LOADER_SCHEMA and DBT_SCHEMA",
    )
