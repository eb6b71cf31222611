"""Asks the query and what reads the models, in one snapshot, whether they give the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace

from postgast import pg_query_pb2 as pb

from loader.proposing import tree
from loader.proposing.book import Book
from loader.proposing.sample import PERCENT, Sample, sample_of
from waltally.errors import SettingError

_DIGITS = {"real": 3, "double precision": 11}
"""How many digits after the first are compared of a float, whose sum has no order."""
_MOST_SHOWN = 1000


@dataclass(frozen=True)
class Proof:
    """What the comparison gave."""

    rows: int
    """How many rows both have."""
    missing: list[str]
    surplus: list[str]
    sampled: str
    """The table of which only some blocks were read; empty for none."""

    @property
    def is_empty(self) -> bool:
        """Whether neither query nor view has a row."""
        return not (self.rows or self.missing or self.surplus)

    @property
    def line(self) -> str:
        """The result as one line."""
        part = f" ({PERCENT} % of {self.sampled})" if self.sampled else " (all rows)"
        return (
            f"same rows: {self.rows:,}, missing {len(self.missing):,},"
            f" surplus {len(self.surplus):,}{part}"
        )


def prove(book: Book, original: str, reads: pb.SelectStmt, is_sample: bool) -> Iterator[Proof]:
    """Compare the query with what reads the models: on a sample, then on all rows.

    `is_sample`: all rows are compared only where the sample gives none. Raises LoaderError.
    """
    bare = tree.parse(original)[0]
    has_limit = bare.HasField("limit_count") or bare.HasField("limit_offset")
    texts = (
        [_without_limit(one) for one in (bare, reads)]
        if has_limit
        else [original, tree.statement(reads)]
    )
    types, others = (book.columns(text) for text in texts)
    if [type_ for _, type_ in types] != [type_ for _, type_ in others]:
        raise SettingError(f"The columns would be {others} in place of {types}", "cast them")
    names = [name for name, _ in types]
    if len({*names}) == len(names) and names != [name for name, _ in others]:
        raise SettingError(f"The columns would be {others} in place of {types}", "name them by AS")
    sample = sample_of(book, texts)
    proof = _compare(sample, texts, [type_ for _, type_ in types])
    yield proof
    if sample.relation and (not is_sample or proof.is_empty):
        yield _compare(replace(sample, relation=None), texts, [type_ for _, type_ in types])


def _compare(sample: Sample, texts: list[str], types: list[str]) -> Proof:
    names = [f"c{n}" for n in range(len(types))]
    shown = ", ".join(_compared(name, type_) for name, type_ in zip(names, types, strict=True))
    query, reads = map(sample.over, texts)
    columns = ", ".join(names)
    ctes = [
        *sample.ctes(),
        f"asked ({columns}) as materialized (select {shown} from ({query}) as q ({columns}))",
        f"kept ({columns}) as materialized (select {shown} from ({reads}) as q ({columns}))",
    ]
    alone = (
        f"(select {{}}, x::text from (select * from {{}} except all select * from {{}}) as x"
        f" limit {_MOST_SHOWN})"
    )
    asked = (
        "select 0, count(*)::text from asked",
        alone.format(1, "asked", "kept"),
        alone.format(2, "kept", "asked"),
    )
    rows = sample.book.catalog.connection.ask(f"with {', '.join(ctes)} {' union all '.join(asked)}")
    count = next(int(value) for side, value in rows if side == 0)
    missing = [value for side, value in rows if side == 1]
    surplus = [value for side, value in rows if side == 2]
    return Proof(
        count - len(missing),
        missing,
        surplus,
        str(sample.relation.table) if sample.relation else "",
    )


def _compared(name: str, type_: str) -> str:
    """Return a column as it is compared."""
    if type_ in _DIGITS:
        return f"to_char({name}, '9.{'9' * _DIGITS[type_]}EEEE')"
    if type_ in ("json", "xml", "point") or type_.startswith("json"):
        return f"{name}::text"
    return name


def _without_limit(select: pb.SelectStmt) -> str:
    other = deepcopy(select)
    for part in ("limit_count", "limit_offset", "sort_clause"):
        other.ClearField(part)
    other.limit_option = pb.LIMIT_OPTION_DEFAULT
    return tree.statement(other)
