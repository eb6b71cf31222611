"""Reads the slot's present baselines as of one moment."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from common.arrow_source import rows
from common.connections import Connection, exported_snapshot, resolved
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from warehouse.fact import columns

from archiving.manifests import Baseline, Origin
from archiving.settings import ArchiveSettings
from waltally import lsn
from waltally.facts import Declaration, Fact, parse
from waltally.tables import Table, literal, quoted

SCHEMA = "part string, dimensions array<string>, sums array<string>"
"""The columns of a baseline's files: cdc.baseline_group, the numbers as texts."""

_FOUND = """
    select
        baseline.fact_name,
        fact.relation_schema,
        fact.relation_name,
        baseline.declaration,
        baseline.baseline_id::text,
        baseline.snapshot_lsn::text,
        baseline.system_identifier
    from {schema}.baseline
    inner join {schema}.fact using (slot_name, fact_name)
    where slot_name = %s
    order by fact_name
"""


@dataclass(frozen=True)
class OpenBaseline:
    """A baseline before it has files, in a snapshot that ends with `open_baselines`."""

    baseline: Baseline
    conninfo: str = field(repr=False)
    snapshot: str
    query: str

    def groups(self, spark: SparkSession) -> DataFrame:
        """Return its groups, with the columns of SCHEMA."""
        dimensions, sums = columns(self.baseline.fact)
        ddl = ", ".join(f"{name} string" for name in ("part", *dimensions, *sums))
        found = rows(spark, self.conninfo, [self.query], ddl, self.snapshot)
        return found.select(
            "part", sql.array(*dimensions).alias("dimensions"), sql.array(*sums).alias("sums")
        )


@contextlib.contextmanager
def open_baselines(
    target: Connection, settings: ArchiveSettings, origin: Origin
) -> Iterator[Sequence[OpenBaseline]]:
    """Yield the slot's baselines of registered facts; they do not change within the block."""
    with exported_snapshot(target) as snapshot:
        found = target.execute(
            _FOUND.format(schema=quoted(settings.schema)).encode(), (settings.slot,)
        ).fetchall()
        opened = []
        for name, relation_schema, relation_name, declaration, id_, at, system in found:
            fact = parse(
                str(name),
                Table(str(relation_schema), str(relation_name)),
                cast(Declaration, declaration),
            )
            groups, totals = _size(target, settings, fact)
            baseline = Baseline(
                Origin(str(system), origin.source_database),
                fact,
                str(id_),
                lsn.parse(str(at)),
                groups,
                totals,
                (),
            )
            opened.append(
                OpenBaseline(baseline, resolved(target), snapshot, _query(settings, fact))
            )
        yield opened


def _size(target: Connection, settings: ArchiveSettings, fact: Fact) -> tuple[int, tuple[str, ...]]:
    """Return how many groups a baseline has, and the sum of each measure over them."""
    totals = ", ".join(
        f"coalesce(trim_scale(sum(measures[{place}])), 0)::text"
        for place, _ in enumerate(fact.measures, 1)
    )
    row = target.execute(
        f"select count(*), {totals} from {_groups(settings, fact)}".encode()
    ).fetchone()
    assert row is not None
    count, *found = row
    return int(str(count)), tuple(map(str, found))


def _query(settings: ArchiveSettings, fact: Fact) -> str:
    dimensions, sums = columns(fact)
    selected = [f"dimensions[{place}] as {name}" for place, name in enumerate(dimensions, 1)]
    selected += [f"measures[{place}]::text as {name}" for place, name in enumerate(sums, 1)]
    return f"select part, {', '.join(selected)} from {_groups(settings, fact)}"


def _groups(settings: ArchiveSettings, fact: Fact) -> str:
    return (
        f"{Table(settings.schema, 'baseline_group').quoted}"
        f" where slot_name = {literal(settings.slot)} and fact_name = {literal(fact.name)}"
    )
