"""What no text and no statistics say of a query: asked on a terminal, else said by flags."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from loader.proposing.book import Book
from loader.proposing.catalog import Relation
from waltally.errors import SettingError


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
    taken: frozenset[str] = frozenset()
    """Names that other models have."""
    is_asked: bool = False
    """Whether somebody is there who can be asked."""
    denied: frozenset[str] = frozenset()
    """The columns and tables of which the user said no."""


@dataclass(frozen=True)
class Question:
    """A question with a proposal."""

    flag: str
    """The field of Wish that the answer sets."""
    text: str
    proposal: str | bool
    """A text to change, or yes or no."""
    about: str = ""
    """The column or table of a yes."""

    def answer(self, wish: Wish, answer: str | bool) -> Wish:
        """Return the wish with the answer."""
        if answer is False:
            return replace(wish, denied=wish.denied | {self.about})
        said = answer if isinstance(answer, str) else (*getattr(wish, self.flag), self.about)
        return replace(wish, **{self.flag: said})  # type: ignore[arg-type]


def first_question(book: Book, wish: Wish) -> Question | None:
    """Return a question that is open. Raises SettingError for a zone where nobody can be asked."""
    _refuse_unknown(book, wish)
    if wish.is_asked:
        questions = _questions(book, wish)
        return next((one for one in questions if one.about not in wish.denied), None)
    if not wish.timezone and any("timezone" in model.options for model in book.models):
        raise SettingError(
            "The query has dates or hours, and nobody says of which time zone",
            f"say it by --timezone; the session's is {book.catalog.timezone}",
        )
    return None


def _questions(book: Book, wish: Wish) -> Iterator[Question]:
    """Yield what is not said yet; how a query is split depends on the first ones."""
    varied = book.catalog.have_many_values([*book.constants], book.sources)
    for column, value in book.constants.items():
        if column in varied:
            text = f"{column} is compared with {value}: does the application fill it in"
            yield Question("parameter", text, True, column)
    if not wish.timezone and any("timezone" in model.options for model in book.models):
        yield Question("timezone", "The time zone of the query's dates", book.catalog.timezone)
    if not wish.grain and book.ranges:
        text, grain = next(iter(book.ranges.items()))
        asked = f"All bounds of {text} that are sent begin a (day, hour, minute or second)"
        yield Question("grain", asked, grain)
    for relation in _counted(book):
        name = str(relation.table)
        if name not in book.purged and book.catalog.has_deletes(relation):
            text = f"Rows of {name} were deleted: do they stay counted, as after a purge"
            yield Question("ignore_deletes", text, False, name)


def _counted(book: Book) -> list[Relation]:
    """Return the tables that facts count."""
    return [one for model in book.models if not model.copied for one in book.tables(model.text)]


def _refuse_unknown(book: Book, wish: Wish) -> None:
    names = {parameter.name for parameter in book.parameters.values()}
    counted = {str(one.table) for one in _counted(book)}
    for flag, given, known in (
        ("--parameter", wish.parameter, names),
        ("--ignore-deletes", wish.ignore_deletes, counted),
    ):
        if unknown := [one for one in given if one not in known]:
            what = "column that a constant is compared with" if flag == "--parameter" else "fact"
            raise SettingError(
                f"{flag} {unknown[0]}: the query has no such {what}",
                f"name one of {', '.join(sorted(known))}" if known else f"leave out {flag}",
            )
