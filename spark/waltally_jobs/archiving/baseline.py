"""Reads the slot's present baselines as of one moment."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from waltally import lsn
from waltally.database import Connection
from waltally.models import Model
from waltally.tables import Table, literal, quoted
from waltally_jobs.archiving.manifests import Baseline, Origin
from waltally_jobs.common.connections import TargetSession, exported_snapshot
from waltally_jobs.warehouse import groups

_FOUND = """
    select
        baseline.declared_name,
        known.relation_schema,
        known.relation_name,
        baseline.declaration,
        baseline.baseline_id::text,
        baseline.snapshot_lsn::text,
        baseline.system_identifier,
        coalesce(baseline.table_identities, '{{}}') as table_identities,
        (
            select coalesce(
                jsonb_agg(
                    to_jsonb(rejected) - '{{slot_name, declared_name}}'::text[]
                    order by part, reason
                ),
                '[]'
            )
            from {schema}.baseline_rejection as rejected
            where (rejected.slot_name, rejected.declared_name)
                = (baseline.slot_name, baseline.declared_name)
        ) as rejections,
        exists (
            select from {schema}.model_watermark as mark
            where
                mark.slot_name = baseline.slot_name
                and mark.model_name = known.relation_schema || '.' || known.relation_name
                and mark.declaration = baseline.declaration
        ) as keeps_archived
    from {schema}.baseline
    inner join {schema}.registered_model as known using (slot_name, declared_name)
    where slot_name = %s
    order by declared_name
"""


@dataclass(frozen=True)
class OpenBaseline:
    """A baseline before it has files, in a snapshot that ends with `open_baselines`."""

    baseline: Baseline
    snapshot: str
    query: str
    archived_query: str
    archived_groups: int


@contextlib.contextmanager
def open_baselines(target: TargetSession, origin: Origin) -> Iterator[Sequence[OpenBaseline]]:
    """Yield the slot's baselines of registered models; they do not change within the block."""
    with exported_snapshot(target) as snapshot:
        found = target.ask(_FOUND.format(schema=quoted(target.schema)), (target.slot,))
        opened = []
        for name, relation_schema, relation_name, declaration, id_, at, system, *counted in found:
            identities, rejections, keeps_archived = counted
            model = Model(name, Table(relation_schema, relation_name), declaration)
            query = groups.baseline_query(model, target)
            # The seed has put all that were before its snapshot into one row a group; of a model
            # that was declared otherwise it has kept none.
            archived = (
                groups.archived_query(model, target)
                + f" and {keeps_archived} and commit_lsn < {literal(at)}"
            )
            baseline = Baseline(
                Origin(system, origin.source_database),
                model,
                id_,
                lsn.parse(at),
                _count(target, query),
                (),
                (),
                identities,
                tuple(rejections),
            )
            count = _count(target, archived)
            opened.append(OpenBaseline(baseline, snapshot, query, archived, count))
        yield opened


def _count(target: Connection, query: str) -> int:
    ((count,),) = target.ask(f"select count(*) from ({query}) as groups")
    return int(count)
