"""What may be asked of a fact: values of its dimensions, and a line per value. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from waltally.errors import SettingError
from waltally.facts import Fact
from waltally.tables import format_names, parse_names


@dataclass(frozen=True)
class Query:
    """What a person asks of a fact."""

    fact: Fact
    where: Mapping[str, str]
    """By dimension, the one value that its groups have."""
    by: tuple[str, ...]
    """The dimensions that each get a line per value."""


def parse_query(facts: Sequence[Fact], name: str, where: Sequence[str], by: str) -> Query:
    """Return what is asked for. Raises SettingError that lists what there is."""
    fact = next((each for each in facts if each.name == name), None)
    if fact is None:
        raise SettingError(
            f"There is no fact {name}",
            "name one of: "
            + "; ".join(f"{each.name} (by {format_names(_dimensions(each))})" for each in facts),
        )
    wanted = {}
    for text in where:
        # A name may have the sign too.
        known = [each for each in _dimensions(fact) if text.startswith(f"{each}=")]
        dimension = max(known, key=len, default=text.partition("=")[0])
        if dimension == text:
            raise SettingError(
                f"{text!r} is not dimension=value",
                "write one of: " + ", ".join(f"{each}=…" for each in _dimensions(fact)),
            )
        wanted[_dimension(fact, dimension)] = text[len(dimension) + 1 :]
    names = [_dimension(fact, each) for each in parse_names(by, "--by", "--by")]
    return Query(fact, wanted, tuple(dict.fromkeys(names)))


def _dimensions(fact: Fact) -> list[str]:
    return [each.name for each in fact.dimensions]


def _dimension(fact: Fact, name: str) -> str:
    if name not in _dimensions(fact):
        raise SettingError(
            f"The fact {fact.name} has no dimension {name!r}",
            "name one of: " + format_names(_dimensions(fact)),
        )
    return name
