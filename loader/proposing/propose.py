"""`loader init --query`: from a query to models, a view, a proof and a price."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace

from postgast import pg_query_pb2 as pb

from loader.monitoring import text_lines
from loader.proposing import price, questions, tree
from loader.proposing.catalog import Catalog
from loader.proposing.compiling import compiler
from loader.proposing.files import model_files, share, view_files
from loader.proposing.plan import Model, Plan, free
from loader.proposing.prepare import Asked, prepare
from loader.proposing.prove import Proof, prove, require_same
from loader.proposing.questions import Ask, Options
from loader.proposing.sizes import Size, measured, sizes_of
from loader.proposing.split import split
from loader.source.table_shape import read_shapes
from waltally.database import Target, connect, connect_target
from waltally.errors import Interrupted, SettingError
from waltally.settings import Settings
from waltally.tables import Table


@dataclass(frozen=True)
class Proposed:
    """What is to be written, and what was found out about it."""

    files: dict[str, str]
    readers: list[str]
    """Those of the files that read the models."""
    tables: list[Table]
    models: list[str]
    seeded: list[str]
    """The models over tables."""
    lines: list[str]
    compiled: dict[str, Model]
    """The models by name."""
    prices: dict[str, price.Price]
    """By query; none of one whose tables are small."""


def propose(
    settings: Settings, texts: dict[str, str], options: Options, ask: Ask | None = None
) -> Proposed:
    """Return models and views of the queries, proven; `ask` where somebody can be asked.

    `texts`: by name, files with queries; of several in one file the second has a number.
    Raises LoaderError where one is not kept.
    """
    with (
        closing(connect(settings.source, "source")) as source,
        closing(connect_target(settings)) as target,
    ):
        target.give_up_locks()
        for session in (source, target):
            limit = f"{options.timeout}s"
            session.ask("select set_config('statement_timeout', %s, false)", (limit,))
        catalog = Catalog(source, options.timezone)
        prepared, asked = _prepared(catalog, texts, options)
        answered = questions.with_parameters(prepared, options, ask)
        if answered != options:
            options = answered
            prepared, asked = _prepared(catalog, texts, options)
        plan, views = _split(target, prepared, asked, options)
        for with_answers in (questions.with_timezone, questions.with_grain_and_deletes):
            # No transaction is open while somebody thinks.
            answered = with_answers(plan, options, ask)
            if answered != options:
                options = answered
                catalog.use_zone(options.timezone)
                plan, views = _split(target, prepared, asked, options)
        with text_lines.shown("proving what is proposed"):
            kept = share(plan, options.written)
            proofs = _proven(plan, views, options)
            sizes, prices = _priced(plan, target, views, proofs)
        _require_cheap(plan, views, prices, options)
        tables = [one.table for one in plan.sources.values()]
        shapes = read_shapes(source, tables)
        old_rows = {str(table): bool(shape["has_old_rows"]) for table, shape in shapes.items()}
        lines = [
            *(*price.price_lines(plan, sizes), *plan.notes, *_lines(proofs)),
            *(f"{name}: not proven" for name in views if name not in proofs),
            *(*_lines(prices), *price.identity_lines(plan, old_rows)),
        ]
    files: dict[str, str] = {}
    for name, one in views.items():
        files |= view_files(plan, name, one.select)
    new = [model for model in plan.models.values() if model.name not in kept]
    return Proposed(
        model_files(plan, new) | files,
        [path for path in files if path.endswith(".sql")],
        tables,
        [model.name for model in new],
        [model.name for model in new if plan.tables(model.text)],
        lines,
        {model.name: model for model in plan.models.values()},
        prices,
    )


def _prepared(
    catalog: Catalog, texts: dict[str, str], options: Options
) -> tuple[Plan, dict[str, Asked]]:
    """Return the queries by name, before anything is kept of them."""
    plan = Plan(catalog)
    asked: dict[str, Asked] = {}
    for name, text in texts.items():
        for one in prepare(plan, text, options.values, options.parameter):
            asked[free(name, asked)] = one
    return plan, asked


def _split(
    target: Target, prepared: Plan, asked: dict[str, Asked], options: Options
) -> tuple[Plan, dict[str, Asked]]:
    """Return the models of the queries, and the queries as they read them."""
    plan = replace(
        prepared.copied(),
        grain=options.grain,
        ignore_deletes=options.ignore_deletes,
        # A view would be written over a model of another query.
        taken=frozenset(options.written) | asked.keys(),
    )
    views = {name: replace(one, select=tree.copied(one.select)) for name, one in asked.items()}
    source = prepared.catalog.connection
    with text_lines.shown("splitting the query"), compiler(source, target) as compile_:
        for name, one in views.items():
            split(plan, f"{name}_counts"[:44], one.select, compile_)
            _require_enums(target, one.select)
    return plan, views


def _require_enums(target: Target, select: pb.SelectStmt) -> None:
    """Raise SettingError where the view has values of an enum that the target has not."""
    for one in tree.find(select, pb.TypeName):
        *schema, name = (part.string.sval for part in one.names)
        type_ = Table(schema[-1] if schema else "pg_catalog", name).quoted
        if schema and target.ask("select to_regtype(%s) is null", (type_,)) == [(True,)]:
            raise SettingError(
                f"The view has values of the enum {type_}, which the target has not",
                "write the column as column::text in the query, or make the type there too",
            )


def _proven(plan: Plan, views: dict[str, Asked], options: Options) -> dict[str, Proof]:
    """Return what the comparisons gave. Raises LoaderError where rows differ, or time is over."""
    proofs: dict[str, Proof] = {}
    for name, one in views.items() if options.prove != "none" else ():
        try:
            for proof in prove(plan, one.original, one.select, options.prove == "sample"):
                require_same(plan, name, one.select, proof)
                proofs[name] = proof
        except Interrupted as error:
            said = str(error)
            raise Interrupted(
                f"{name} was being compared when {said[:1].lower()}{said[1:]}. Compared so far:"
                f" {'; '.join(_lines(proofs)) or 'nothing'}",
                "give it more time by --timeout 1h, or compare nothing by --prove none",
            ) from error
        if proofs[name].is_empty:
            raise SettingError(
                f"{name}: neither the query nor the view has a row here, which proves nothing",
                "give parameters values that the rows have, or leave it by --prove none",
            )
    return proofs


def _lines(results: Mapping[str, Proof | price.Price]) -> list[str]:
    return [f"{name}: {own.line}" for name, own in results.items()]


def _priced(
    plan: Plan, target: Target, views: dict[str, Asked], proofs: dict[str, Proof]
) -> tuple[dict[str, Size], dict[str, price.Price]]:
    """Return what the models hold, and what keeping each query of large tables costs."""
    large = [name for name in proofs if price.is_priced(plan, views[name].original)]
    if not large:
        return sizes_of(plan), {}
    with measured(plan, target) as sizes:
        return sizes, {
            name: price.price_of(
                plan, target, views[name].original, views[name].select, proofs[name], sizes
            )
            for name in large
        }


def _require_cheap(
    plan: Plan, views: dict[str, Asked], prices: dict[str, price.Price], options: Options
) -> None:
    for name, own in prices.items():
        if own.is_dear and not options.anyway:
            said = f"{name} costs more than it gives: it {own.line}"
            raise SettingError(said, price.cheaper(plan, views[name].select))
