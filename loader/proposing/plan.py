"""What is proposed: tables, models over them, and the values of the query's parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import Any

from loader.proposing import tree
from loader.proposing.catalog import Catalog, Relation
from loader.setup.dbt_text import rendered

_MARKS = re.compile(
    r"""(?P<text>[eE]?'(?:[^']|'')*')|"(?:[^"]|"")*"|\$(?P<value>\d+)"""
    r"""|\bwaltally_(?P<kind>source|model)_(?P<number>\d+)\b"""
)


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
    grouped: tuple[str, frozenset[str]] = ("", frozenset())
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
    """Sources and models by number, and parameters by theirs."""

    catalog: Catalog
    grain: str = ""
    sources: list[Relation] = field(default_factory=list)
    models: list[Model] = field(default_factory=list)
    parameters: dict[int, Parameter] = field(default_factory=dict)
    taken: frozenset[str] = frozenset()
    """Names that other models have."""
    purged: tuple[str, ...] = ()
    """The tables whose deleted rows stay counted."""
    notes: list[str] = field(default_factory=list)
    constants: dict[str, str] = field(default_factory=dict)
    """By column, a constant that a condition compares it with."""
    ranges: dict[str, str] = field(default_factory=dict)
    """By time, the grain at which its parameters begin."""

    def copied(self) -> Plan:
        """Return a copy: what a way to keep a query puts into it can be left out again."""
        models = [replace(model) for model in self.models]
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
        if relation not in self.sources:
            self.sources.append(relation)
        return f"waltally_source_{self.sources.index(relation)}"

    def model(self, model: Model) -> str:
        """Return the mark of a model; one with the same query is the same.

        A copy of the same rows gets the columns of both.
        """
        for number, known in enumerate(self.models):
            if model.copied and (known.copied, known.where) == (model.copied, model.where):
                known.columns = tuple(dict.fromkeys((*known.columns, *model.columns)))
                return f"waltally_model_{number}"
            if known.text == model.text:
                return f"waltally_model_{number}"
        taken = {*self.taken, *(known.name for known in self.models)}
        model.name = free(model.name[:44], taken)
        self.models.append(model)
        return f"waltally_model_{len(self.models) - 1}"

    def widened(self, model: Model) -> str:
        """Return the mark of a model of which one with the same groups has all columns."""
        for number, known in enumerate(self.models):
            has_all = known.meanings.items() <= model.meanings.items()
            if known.grouped == model.grouped and has_all:
                model.name = known.name
                self.models[number] = model
                return f"waltally_model_{number}"
        return self.model(model)

    def marked(self, mark: str) -> Relation | Model | None:
        """Return what a mark names."""
        found = _MARKS.fullmatch(mark)
        if not found or not found["kind"]:
            return None
        known = self.sources if found["kind"] == "source" else self.models
        return known[int(found["number"])]

    def render(
        self,
        text: str,
        source: Callable[[Relation], str],
        model: Callable[[Model], str],
        is_jinja: bool = False,
    ) -> str:
        """Return the text with what its marks name. For Jinja parameters stay as they were sent."""

        def one(mark: re.Match[str]) -> str:
            if mark["value"]:
                given = self.parameters[int(mark["value"])]
                return (is_jinja and given.written) or given.value or "null"
            if mark["kind"]:
                number = int(mark["number"])
                if mark["kind"] == "source":
                    return source(self.sources[number])
                return model(self.models[number])
            return rendered(mark[0]) if is_jinja else mark[0]

        return _MARKS.sub(one, text)

    def plain(self, text: str) -> str:
        """Return a query over the tables, with the models as CTEs before it."""
        ctes = ", ".join(self.ctes(self.needed(text)))
        body = self.over_tables(text)
        return f"with {ctes} select * from ({body}) as answer" if ctes else body

    def ctes(self, models: Iterable[int], replaced: Relation | None = None) -> list[str]:
        """Return these models as CTEs, as `over_tables` names them."""
        return [
            f"waltally_model_{n} as ({self.over_tables(self.models[n].text, replaced)})"
            for n in sorted(models)
        ]

    def over_tables(self, text: str, replaced: Relation | None = None) -> str:
        """Return a query over tables and the models' CTEs; of one table over a CTE of its mark."""
        return self.render(
            text,
            lambda one: self.source(one) if one == replaced else one.table.quoted,
            lambda model: f"waltally_model_{self.models.index(model)}",
        )

    def tables(self, text: str) -> list[Relation]:
        """Return the tables that a marked text itself reads."""
        numbers = {m["number"] for m in _MARKS.finditer(text) if m["kind"] == "source"}
        return [self.sources[int(number)] for number in sorted(numbers)]

    def inputs(self, text: str) -> list[int]:
        """Return the models that a marked text itself reads, by number."""
        numbers = {m["number"] for m in _MARKS.finditer(text) if m["kind"] == "model"}
        return sorted(map(int, numbers))

    def needed(self, text: str) -> set[int]:
        """Return the models that a marked text reads, itself or by others."""
        own = {*self.inputs(text)}
        return own.union(*(self.needed(self.models[number].text) for number in own))

    def columns(self, text: str) -> list[tuple[str, str]]:
        """Return the names and types of what a marked query gives. Raises LoaderError."""
        return self.catalog.columns(self.plain(text))

    def type_of(self, text: str, inputs: str) -> str:
        """Return the type of an expression over what stands in FROM. Raises LoaderError."""
        ((_, type_),) = self.columns(f"select {text} as value from {inputs}")
        return type_
