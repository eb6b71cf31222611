"""The partitions of the change log, as the catalog has them."""

from __future__ import annotations

from loader.staging.layout import PARTITION_NAME, Block
from loader.staging.prune_session import PruneSession
from loader.staging.pruned import BESIDE_THE_LOG, IS_LIKE_THE_LOG, IS_MARKED, STATE
from loader.staging.retention import Partition
from waltally import lsn

_PARTITIONS = f"""
select
    c.relname,
    {STATE},
    coalesce(pg_total_relation_size(c.oid), 0),
    c.reltuples::bigint,
    pg_get_expr(c.relpartbound, c.oid),
    {IS_MARKED}
from {BESIDE_THE_LOG}
where
    n.nspname = %s
    and c.relname ~ %s
    and {IS_LIKE_THE_LOG}
order by c.relname
"""

_COUNTED_BYTES = 64 * 2**20
"""The rows of a smaller partition are counted."""

# Fast, over the primary key: first the slots that the partition has, then each slot's last row.
_AGE = """
with recursive slot (name) as (
    (select slot_name from {0}.{1} order by slot_name limit 1)
    union all
    select (select slot_name from {0}.{1} where slot_name > slot.name order by slot_name limit 1)
    from slot
    where slot.name is not null
)
select extract(epoch from now() - max(newest.staged_at))::float8
from slot
cross join lateral (
    select staged_at from {0}.{1} as log
    where log.slot_name = slot.name
    order by log.slot_name desc, log.commit_lsn desc, log.ordinal desc
    limit 1
) as newest
"""


def read_partitions(session: PruneSession) -> list[Partition]:
    """Return the loader's partitions. Tables with other columns or bounds are not ours."""
    found = []
    for name, state, size, estimate, bounds, is_pruned in session.query(
        _PARTITIONS, session.schema, PARTITION_NAME
    ):
        block = Block.named(name)
        first, end = lsn.show(block.from_lsn), lsn.show(block.to_lsn)
        if state != "detached" and bounds != f"FOR VALUES FROM ('{first}') TO ('{end}')":
            continue
        # A table that was never analyzed has no estimate; autovacuum analyzes every larger one.
        is_estimate = size >= _COUNTED_BYTES and estimate >= 0
        rows = estimate if is_estimate else _count(session, name)
        found.append(
            Partition(block, state, size, _age(session, name), rows, is_estimate, is_pruned)
        )
    return found


def _age(session: PruneSession, name: str) -> float | None:
    ((age,),) = session.query(_AGE, table=name)
    return None if age is None else float(age)


def _count(session: PruneSession, name: str) -> int:
    ((rows,),) = session.query("select count(*) from {0}.{1}", table=name)
    return int(rows)
