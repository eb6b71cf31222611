"""What no text and no statistics say of a query: asked on a terminal, else said by flags."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace

from loader.proposing.grain import GRAINS
from loader.proposing.plan import Plan
from waltally.errors import SettingError

Ask = Callable[[str, str | bool], str | bool]
"""Asks a question with a proposal, which is a text to change, or yes or no."""


@dataclass(frozen=True)
class Options:
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


def with_parameters(plan: Plan, options: Options, ask: Ask | None) -> Options:
    """Return the options with the columns that the application fills in; needs no split query."""
    known = {parameter.name for parameter in plan.parameters.values()}
    _refuse_unknown(
        "parameter", options.parameter, known, "column that a constant is compared with"
    )
    if ask is None:
        return options
    varied = plan.catalog.have_many_values([*plan.constants], [*plan.sources.values()])
    filled_in = [
        column
        for column, value in plan.constants.items()
        if column in varied
        and ask(f"{column} is compared with {value}: does the application fill it in", True)
    ]
    return replace(options, parameter=(*options.parameter, *filled_in))


def with_timezone(plan: Plan, options: Options, ask: Ask | None) -> Options:
    """Return the options with the zone of dates. Raises SettingError where nobody can be asked."""
    if options.timezone or not any(
        "timezone" in model.compiled.options for model in plan.models.values()
    ):
        return options
    if ask is None:
        raise SettingError(
            "The query has dates or hours, and nobody says of which time zone",
            f"say it by --timezone; the session's is {plan.catalog.timezone}",
        )
    zone = ask("The time zone of the query's dates", plan.catalog.timezone)
    return replace(options, timezone=str(zone))


def with_grain_and_deletes(plan: Plan, options: Options, ask: Ask | None) -> Options:
    """Return the options with the grain of ranges, and the tables whose deletes are ignored."""
    counted = {
        str(one.table): one
        for model in plan.models.values()
        if not model.copied
        for one in plan.tables(model.text)
    }
    _refuse_unknown("ignore-deletes", options.ignore_deletes, counted, "fact")
    if ask is None:
        return options
    grain = options.grain
    if plan.ranges and not grain:
        column, proposal = next(iter(plan.ranges.items()))
        while grain not in GRAINS:
            what = f"The bounds sent for {column} begin a day, hour, minute or second"
            grain = str(ask(what, proposal))
    ignored = [
        name
        for name, relation in counted.items()
        if name not in plan.ignore_deletes
        and plan.catalog.has_deletes(relation)
        and ask(f"Do deleted rows of {name} stay counted, as in a purge", False)
    ]
    return replace(options, grain=grain, ignore_deletes=(*options.ignore_deletes, *ignored))


def _refuse_unknown(flag: str, given: Iterable[str], known: Collection[str], what: str) -> None:
    if unknown := [one for one in given if one not in known]:
        raise SettingError(
            f"--{flag} {unknown[0]}: the query has no such {what}",
            f"name one of {', '.join(sorted(known))}" if known else f"leave out --{flag}",
        )
