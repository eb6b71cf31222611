"""`loader init --query`: from a query to models, a view, a proof and a price."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from postgast import pg_query_pb2 as pb

from loader.monitoring import text_lines
from loader.proposing import tree
from loader.proposing.book import Book, Model, free
from loader.proposing.catalog import Catalog
from loader.proposing.compiling import compiler
from loader.proposing.estimate import Size, sizes_of
from loader.proposing.files import model_files, view_files
from loader.proposing.prepare import Asked, prepare
from loader.proposing.price import (
    Price,
    cheaper,
    identity_lines,
    is_priced,
    measured,
    price_lines,
    price_of,
)
from loader.proposing.prove import Proof, prove
from loader.proposing.questions import (
    Ask,
    Wish,
    with_grain_and_deletes,
    with_parameters,
    with_timezone,
)
from loader.proposing.sharing import share
from loader.proposing.split import Split
from loader.source.table_shape import read_shapes
from waltally.database import Connection, Target, connect, connect_target
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
    prices: dict[str, Price]
    """By query; none of one whose tables are small."""


def propose(
    settings: Settings, texts: dict[str, str], wish: Wish, ask: Ask | None = None
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
            session.ask("select set_config('statement_timeout', %s, false)", (f"{wish.timeout}s",))
        book, asked = _prepared(source, texts, wish)
        wish = with_parameters(book, wish, ask)
        book, asked = _split(source, target, texts, wish)
        for with_answers in (with_timezone, with_grain_and_deletes):
            # No transaction is open while somebody thinks.
            answered = with_answers(book, wish, ask)
            if answered != wish:
                wish = answered
                book, asked = _split(source, target, texts, wish)
        with text_lines.shown("proving what is proposed"):
            kept = share(book, wish.written)
            proofs, prices, sizes = _proofs(book, target, asked, wish)
            held = price_lines(book, sizes)
        tables = [one.table for one in book.sources]
        shapes = read_shapes(source, tables)
        old_rows = {str(table): bool(shape["has_old_rows"]) for table, shape in shapes.items()}
        lines = [*held, *book.notes, *proofs, *identity_lines(book, old_rows)]
    views: dict[str, str] = {}
    for name, one in asked:
        views |= view_files(book, name, one.select, one.original)
    models = [model.name for model in book.models if model.name not in kept]
    files = model_files(book)
    return Proposed(
        {path: text for path, text in files.items() if Path(path).stem in models} | views,
        [path for path in views if path.endswith(".sql")],
        tables,
        models,
        [model.name for model in book.models if model.name in models and book.tables(model.text)],
        lines,
        {model.name: model for model in book.models},
        prices,
    )


def _prepared(
    source: Connection, texts: dict[str, str], wish: Wish
) -> tuple[Book, list[tuple[str, Asked]]]:
    """Return the queries with their names, before anything is kept of them."""
    catalog = Catalog(source, wish.timezone)
    book = Book(catalog, wish.grain, taken=frozenset(wish.written), purged=wish.ignore_deletes)
    asked: dict[str, Asked] = {}
    for name, text in texts.items():
        for one in prepare(book, text, wish.values, wish.parameter):
            asked[free(name, asked)] = one
    # A view would be written over a model of another query.
    book.taken |= asked.keys()
    return book, [*asked.items()]


def _split(
    source: Connection, target: Target, texts: dict[str, str], wish: Wish
) -> tuple[Book, list[tuple[str, Asked]]]:
    with text_lines.shown("splitting the query"), compiler(source, target) as compile_:
        book, asked = _prepared(source, texts, wish)
        for name, one in asked:
            _name_columns(book, one)
            Split(book, f"{name}_counts"[:44], compile_).split(one.select)
            _require_enums(target, one.select)
    return book, asked


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


def _name_columns(book: Book, asked: Asked) -> None:
    """Give the view's columns the query's names; of two that are the same, the second a number."""
    targets = asked.select.target_list
    if not targets or tree.has_star(asked.select):
        return
    taken: list[str] = []
    for (name, _), target in zip(book.columns(asked.original), targets, strict=True):
        own = free(name, taken)
        if own != name:
            book.notes.append(f"Two columns are named {name}: the view's second one is {own}")
        taken.append(own)
        target.res_target.name = own


def _proofs(
    book: Book, target: Target, asked: list[tuple[str, Asked]], wish: Wish
) -> tuple[list[str], dict[str, Price], list[Size]]:
    """Return what the comparisons gave, by query what keeping costs, and what models hold.

    Raises LoaderError where rows differ, time is over, or keeping costs more than it gives.
    """
    if wish.prove == "none":
        return [f"{name}: not proven" for name, _ in asked], {}, sizes_of(book)
    lines: dict[str, str] = {}
    proofs: dict[str, Proof] = {}
    for name, one in asked:
        try:
            for proof in prove(book, one.original, one.select, wish.prove == "sample"):
                _judge(book, name, one, proof)
                proofs[name] = proof
                lines[name] = f"{name}: {proof.line}"
        except Interrupted as error:
            said = str(error)
            raise Interrupted(
                f"{name} was being compared when {said[:1].lower()}{said[1:]}. Compared so far:"
                f" {'; '.join(lines.values()) or 'nothing'}",
                "give it more time by --timeout 1h, or compare nothing by --prove none",
            ) from error
        if proofs[name].is_empty:
            raise SettingError(
                f"{name}: neither the query nor the view has a row here, which proves nothing",
                "give parameters values that the rows have, or leave it by --prove none",
            )
    large = [(name, one) for name, one in asked if is_priced(book, one.original)]
    if not large:
        return [*lines.values()], {}, sizes_of(book)
    with measured(book, target) as sizes:
        prices = {
            name: price_of(book, target, one.original, one.select, proofs[name], sizes)
            for name, one in large
        }
    for name, one in large:
        if prices[name].is_dear and not wish.anyway:
            said = f"{name} costs more than it gives: it {prices[name].line}"
            raise SettingError(said, cheaper(book, one.select))
        lines[f"{name}'s price"] = f"{name}: {prices[name].line}"
    return [*lines.values()], prices, sizes


def _judge(book: Book, name: str, asked: Asked, proof: Proof) -> None:
    """Raise SettingError where the rows differ."""
    if not proof.missing and not proof.surplus:
        return
    if proof.settings:
        raise SettingError(
            f"{name}: the view would give other rows to a session with another {proof.settings}."
            f" {_difference(proof)}",
            "say the zone of dates by --timezone, and write what has a text by to_char() or"
            " extract(), such as to_char(max(at) at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS')",
        )
    view = book.render(
        tree.statement(asked.select), lambda table: str(table.table), lambda model: model.name
    )
    raise SettingError(
        f"{name}: {proof.line}. {_difference(proof)}",
        f"report it with the query; nothing was written. The view would be: {view}",
    )


def _difference(proof: Proof) -> str:
    rows = [("the query alone has", proof.missing), ("the view alone has", proof.surplus)]
    return "; ".join(f"{who} {', '.join(some[:3])}" for who, some in rows if some)
