"""The partitions of the change log, as the catalog has them."""

from __future__ import annotations

from loader.staging.prune_session import PruneSession
from loader.staging.pruned import BESIDE_THE_LOG, IS_LIKE_THE_LOG, IS_MARKED, STATE
from loader.staging.retention import Partition
from waltally import lsn

_PARTITIONS = f"""
select
    c.relname,
    {STATE},
    coalesce(pg_total_relation_size(c.oid), 0),
    pg_get_expr(c.relpartbound, c.oid),
    {IS_MARKED}
from {BESIDE_THE_LOG}
where
    n.nspname = %s
    and c.relname ~ '^change_log_[0-9a-f]{{{{8}}}}$'
    and {IS_LIKE_THE_LOG}
order by c.relname
"""

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
    for name, state, size, bounds, is_pruned in session.query(_PARTITIONS, session.schema):
        number = int(name[-8:], 16)
        partition = Partition(number, state, size, None, is_pruned)
        first, end = lsn.show(partition.from_lsn), lsn.show(partition.to_lsn)
        if state == "detached" or bounds == f"FOR VALUES FROM ('{first}') TO ('{end}')":
            found.append(Partition(number, state, size, _age(session, name), is_pruned))
    return found


def _age(session: PruneSession, name: str) -> float | None:
    ((age,),) = session.query(_AGE, table=name)
    return None if age is None else float(age)
