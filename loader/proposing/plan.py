"""What is proposed: tables, models over them, and the values of the query's parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import Any

from loader.proposing import tree
from loader.proposing.catalog import Catalog, Relation
from loader.setup.dbt_text import rendered

_MARKS = re.compile(
    r"""(?P<text>[eE]?'(?:[^']|'')*')|"(?:[^"]|"")*"|\$(?P<value>\d+)"""
    r"""|\b(?P<mark>waltally_(?:source|model)_\d+)\b"""
)
PERCENT = 2
"""How many percent of a sampled table's blocks are read."""
_FEW_ROWS = 100_000
"""A table with fewer rows is read whole."""


def free(name: str, taken: Container[str]) -> str:
    """Return the name, with a number where it is taken."""
    names = chain([name], (f"{name}_{n}" for n in count(2)))
    return next(one for one in names if one not in taken)


@dataclass(frozen=True)
class Parameter:
    """What the application fills in."""

    name: str
    """As the query has it."""
    value: str | None
    """A constant, as SQL writes it."""
    written: str = ""
    """What the application sends in its place, where that is no constant."""


@dataclass(frozen=True)
class Compiled:
    """What the compiler makes of a model."""

    declaration: Mapping[str, Any] = field(default_factory=dict)
    kind: str = ""
    """As it says it."""
    keys: tuple[str, ...] = ()
    """The columns of the unique index."""
    needed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The columns that it reads, by table."""
    hidden: int = 0
    """How many columns the table has beside the query's: numbers of rows and values."""
    options: Mapping[str, object] = field(default_factory=dict)
    """What the model has to say in its config."""


@dataclass
class Model:
    """A model: a query whose tables and models are named by marks."""

    name: str
    query: str = ""
    columns: tuple[str, ...] = ()
    copied: str = ""
    """The mark of the table that a rows model copies."""
    where: str = ""
    """Which of its rows."""
    compiled: Compiled = Compiled()
    meanings: dict[str, str] = field(default_factory=dict)
    """What its columns are."""
    grains: dict[str, str] = field(default_factory=dict)
    """The columns that are the beginnings of hours, days and the like."""
    grouped: tuple[str, frozenset[str]] | None = None
    """The rows that it groups, and by which expressions."""

    @property
    def text(self) -> str:
        """The query. A copy's columns come one by one."""
        if not self.copied:
            return self.query
        where = f" where {self.where}" if self.where else ""
        columns = (tree.sql(tree.column(name)) for name in self.columns)
        return f"select {', '.join(columns)} from {self.copied}{where}"


@dataclass
class Plan:
    """Tables and models by their marks, and parameters by number."""

    catalog: Catalog
    grain: str = ""
    sources: dict[str, Relation] = field(default_factory=dict)
    models: dict[str, Model] = field(default_factory=dict)
    """Each after those that it reads."""
    parameters: dict[int, Parameter] = field(default_factory=dict)
    taken: frozenset[str] = frozenset()
    """Names that other models have."""
    ignore_deletes: tuple[str, ...] = ()
    """The tables whose deleted rows stay counted."""
    notes: list[str] = field(default_factory=list)
    constants: dict[str, str] = field(default_factory=dict)
    """By column, a constant that a condition compares it with."""
    ranges: dict[str, str] = field(default_factory=dict)
    """By time, the grain at which its parameters begin."""
    sampled: Relation | None = None
    """The table of which only some blocks are read."""

    def copied(self) -> Plan:
        """Return a copy: what a way to keep a query puts into it can be left out again."""
        models = {mark: replace(model) for mark, model in self.models.items()}
        return replace(self, models=models, notes=[*self.notes], ranges={**self.ranges})

    def take(self, other: Plan) -> None:
        """Let the plan have the models of a copy."""
        self.models, self.notes, self.ranges = other.models, other.notes, other.ranges

    def parameter(self, given: Parameter) -> int:
        """Return the parameter's number; the same one has the same."""
        known = (number for number, other in self.parameters.items() if other == given)
        number = next(known, len(self.parameters) + 1)
        self.parameters[number] = given
        return number

    def source(self, relation: Relation) -> str:
        """Return the mark of a table."""
        known = (mark for mark, other in self.sources.items() if other == relation)
        mark = next(known, f"waltally_source_{len(self.sources)}")
        self.sources[mark] = relation
        return mark

    def model(self, model: Model) -> str:
        """Return the mark of a model; one with the same query is the same.

        A copy of the same rows gets the columns of both, and one with all columns of another over
        the same groups takes its place.
        """
        for mark, known in self.models.items():
            if model.copied and (known.copied, known.where) == (model.copied, model.where):
                known.columns = tuple(dict.fromkeys((*known.columns, *model.columns)))
                return mark
            if known.text == model.text:
                return mark
            has_all = known.meanings.items() <= model.meanings.items()
            if model.grouped and known.grouped == model.grouped and has_all:
                self.models[mark] = replace(model, name=known.name)
                return mark
        taken = {*self.taken, *(known.name for known in self.models.values())}
        model.name = free(model.name[:44], taken)
        mark = f"waltally_model_{len(self.models)}"
        self.models[mark] = model
        return mark

    def render(
        self,
        text: str,
        source: Callable[[Relation], str],
        model: Callable[[Model], str] | None = None,
        is_jinja: bool = False,
    ) -> str:
        """Return the text with what its marks name; without `model` models keep their marks.

        For Jinja parameters stay as they were sent.
        """

        def one(found: re.Match[str]) -> str:
            if found["value"]:
                given = self.parameters[int(found["value"])]
                return (is_jinja and given.written) or given.value or "null"
            mark = found["mark"]
            if mark in self.sources:
                return source(self.sources[mark])
            if model and mark in self.models:
                return model(self.models[mark])
            return rendered(found[0]) if is_jinja else found[0]

        return _MARKS.sub(one, text)

    def plain(self, text: str) -> str:
        """Return a query over the tables, with the models as CTEs before it."""
        ctes = ", ".join(self.ctes(text))
        body = self.over_tables(text)
        return f"with {ctes} select * from ({body}) as answer" if ctes else body

    def ctes(self, *texts: str) -> list[str]:
        """Return the models that marked texts read as CTEs, and the sampled table, by their marks.

        Also that table as `waltally_sampled`, with the block of each row.
        """
        ctes = [
            f"{mark} as ({self.over_tables(self.models[mark].text)})"
            for mark in self.needed(*texts)
        ]
        if not self.sampled:
            return ctes
        blocks = "(ctid::text::point)[0] as waltally_block, 1 as waltally_blocks"
        of = f"from {self.sampled.table.quoted} tablesample system ({PERCENT}) repeatable (1)"
        return [
            f"{self.source(self.sampled)} as materialized (select * {of})",
            f"waltally_sampled as materialized (select *, {blocks} {of})",
            *ctes,
        ]

    def over_tables(self, text: str) -> str:
        """Return a query over tables and the CTEs."""
        return self.render(
            text, lambda one: self.source(one) if one == self.sampled else one.table.quoted
        )

    def sample(self, *texts: str) -> Plan:
        """Return the plan over a sample of the largest table that texts read, if it is large."""
        read = (*texts, *(self.models[mark].text for mark in self.needed(*texts)))
        tables = [one for text in read for one in self.tables(text)]
        large = [one for one in tables if one.rows > _FEW_ROWS and one.kind == "r"]
        return replace(self, sampled=max(large, key=lambda one: one.rows, default=None))

    def tables(self, text: str) -> list[Relation]:
        """Return the tables that a marked text itself reads."""
        marks = self._marks(text)
        return [one for mark, one in self.sources.items() if mark in marks]

    def inputs(self, text: str) -> list[str]:
        """Return the marks of the models that a marked text itself reads."""
        marks = self._marks(text)
        return [mark for mark in self.models if mark in marks]

    def needed(self, *texts: str) -> list[str]:
        """Return the marks of the models that marked texts read, themselves or by others."""
        marks = set[str]().union(*map(self._marks, texts))
        for mark, model in reversed(self.models.items()):
            if mark in marks:
                marks |= self._marks(model.text)
        return [mark for mark in self.models if mark in marks]

    def _marks(self, text: str) -> set[str]:
        return {found["mark"] for found in _MARKS.finditer(text)}

    def columns(self, text: str) -> list[tuple[str, str]]:
        """Return the names and types of what a marked query gives. Raises LoaderError."""
        return self.catalog.columns(self.plain(text))

    def type_of(self, text: str, inputs: str) -> str:
        """Return the type of an expression over what stands in FROM. Raises LoaderError."""
        ((_, type_),) = self.columns(f"select {text} as value from {inputs}")
        return type_
