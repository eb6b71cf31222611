"""What no text and no statistics say of a query: asked on a terminal, else said by flags."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace

from loader.proposing.book import Book
from loader.proposing.grain import GRAINS
from waltally.errors import SettingError

Ask = Callable[[str, str | bool], str | bool]
"""Asks a question with a proposal, which is a text to change, or yes or no."""


@dataclass(frozen=True)
class Wish:
    """What the user says beside the query: fields are named like flags."""

    timezone: str = ""
    """Empty where nobody said it: the session's."""
    grain: str = ""
    parameter: tuple[str, ...] = ()
    """The columns that are compared with what the application fills in."""
    ignore_deletes: tuple[str, ...] = ()
    """The tables whose deleted rows stay counted."""
    prove: str = "sample"
    values: dict[str, str] = field(default_factory=dict)
    timeout: int = 300
    """How many seconds a comparison may take."""
    anyway: bool = False
    """Whether to write also what costs more than it gives."""
    written: dict[str, str] = field(default_factory=dict)
    """By name, the texts of the models that the folder has."""


def with_parameters(book: Book, wish: Wish, ask: Ask | None) -> Wish:
    """Return the wish with the columns that the application fills in; needs no split query."""
    known = {parameter.name for parameter in book.parameters.values()}
    _refuse_unknown("parameter", wish.parameter, known, "column that a constant is compared with")
    if ask is None:
        return wish
    varied = book.catalog.have_many_values([*book.constants], book.sources)
    filled_in = [
        column
        for column, value in book.constants.items()
        if column in varied
        and ask(f"{column} is compared with {value}: does the application fill it in", True)
    ]
    return replace(wish, parameter=(*wish.parameter, *filled_in))


def with_timezone(book: Book, wish: Wish, ask: Ask | None) -> Wish:
    """Return the wish with the zone of dates. Raises SettingError where nobody can be asked."""
    if wish.timezone or not any("timezone" in model.options for model in book.models):
        return wish
    if ask is None:
        raise SettingError(
            "The query has dates or hours, and nobody says of which time zone",
            f"say it by --timezone; the session's is {book.catalog.timezone}",
        )
    zone = ask("The time zone of the query's dates", book.catalog.timezone)
    return replace(wish, timezone=str(zone))


def with_grain_and_deletes(book: Book, wish: Wish, ask: Ask | None) -> Wish:
    """Return the wish with the grain of ranges, and the tables that are purged."""
    counted = {
        str(one.table): one
        for model in book.models
        if not model.copied
        for one in book.tables(model.text)
    }
    _refuse_unknown("ignore-deletes", wish.ignore_deletes, counted, "fact")
    if ask is None:
        return wish
    grain = wish.grain
    if book.ranges and not grain:
        column, proposal = next(iter(book.ranges.items()))
        while grain not in GRAINS:
            what = f"The bounds sent for {column} begin a day, hour, minute or second"
            grain = str(ask(what, proposal))
    purged = [
        name
        for name, relation in counted.items()
        if name not in book.purged
        and book.catalog.has_deletes(relation)
        and ask(f"Do deleted rows of {name} stay counted, as in a purge", False)
    ]
    return replace(wish, grain=grain, ignore_deletes=(*wish.ignore_deletes, *purged))


def _refuse_unknown(flag: str, given: Iterable[str], known: Collection[str], what: str) -> None:
    if unknown := [one for one in given if one not in known]:
        raise SettingError(
            f"--{flag} {unknown[0]}: the query has no such {what}",
            f"name one of {', '.join(sorted(known))}" if known else f"leave out --{flag}",
        )
