"""A query split as the command splits it, and the parts that tests look at."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.catalog import Catalog
from loader.proposing.compiling import compiler
from loader.proposing.plan import Plan
from loader.proposing.prepare import prepare
from loader.proposing.propose import Proposed, propose
from loader.proposing.prove import Proof, prove
from loader.proposing.questions import Options
from loader.proposing.split import split as split_query
from testkit.databases import Database
from testkit.servers import connect_target
from waltally.database import connect
from waltally.settings import Settings


def proposed(database: Database, query: str, name: str = "report", **options: object) -> Proposed:
    """Return what the command would write. Raises LoaderError."""
    dsn = database.cluster.dsn(database.name)
    settings = Settings.of(dsn, dsn, "waltally", "cdc")
    options = {"prove": "all", "timezone": "UTC", "anyway": True, **options}
    return propose(settings, {name: query}, Options(**options))  # type: ignore[arg-type]


@dataclass
class Halves:
    """A query in two halves: the models, and what reads them."""

    plan: Plan
    original: str
    select: pb.SelectStmt

    @property
    def models(self) -> list[str]:
        return [self._text(model.text) for model in self.plan.models.values()]

    @property
    def reads(self) -> str:
        return self._text(tree.statement(self.select))

    def prove(self, is_sample: bool = False) -> Proof:
        """Return the first comparison that found a difference, else the last one."""
        proofs = [*prove(self.plan, self.original, self.select, is_sample)]
        return next((one for one in proofs if one.missing or one.surplus), proofs[-1])

    def _text(self, text: str) -> str:
        return self.plan.render(text, lambda table: table.table.name, lambda model: model.name)


def split(database: Database, query: str, timezone: str = "UTC", grain: str = "") -> Halves:
    """Split a query. Raises LoaderError where it is not kept."""
    dsn = database.cluster.dsn(database.name)
    source = connect(dsn, "source")
    plan = Plan(Catalog(source, timezone), grain)
    (asked,) = prepare(plan, query, {})
    with (
        closing(connect_target(dsn)) as target,
        closing(connect(dsn, "source")) as other,
        compiler(other, target) as compile_,
    ):
        split_query(plan, "report", asked.select, compile_)
    return Halves(plan, asked.original, asked.select)


def must_prove(shop: Database, query: str, timezone: str = "UTC") -> Halves:
    halves = split(shop, query, timezone)
    assert all(model.compiled.kind for model in halves.plan.models.values())
    proof = halves.prove()
    assert (proof.missing, proof.surplus) == ([], [])
    assert proof.rows
    return halves
