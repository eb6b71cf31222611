"""Compares roll-ups with a query over their inputs, in one snapshot of the target.

The audit compares the inputs themselves with the tables. A roll-up is small, so PostgreSQL
computes the query, by aggregates of its own and by none of the SQL that keeps the roll-up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from common.connections import TargetSession, exported_snapshot
from warehouse import fact_state

from auditing.report import RollUpReport
from waltally.errors import LoaderError
from waltally.facts import Fact, parse_roll_up
from waltally.tables import Table, quoted


def compare(target: TargetSession, refused: dict[str, LoaderError]) -> list[RollUpReport]:
    """Compare every roll-up of the slot; note in `refused` why one cannot be compared."""
    rows = target.ask(
        "select fact_name, declaration ->> 'schema', declaration ->> 'table', declaration"
        f" from {target.table('roll_up')} as rolled"
        " where exists (select from"
        f" {target.table('installed_model')} as input"
        " where input.slot_name = %s and input.model_name = any (rolled.inputs))"
        " order by fact_name",
        (target.slot,),
    )
    found = []
    for name, namespace, relation, declaration in rows:
        roll_up = parse_roll_up(name, Table(namespace, relation), declaration)
        try:
            with exported_snapshot(target):
                fact_state.applied_lsn(target, roll_up)
                ((groups, differing),) = target.ask(difference_query(roll_up))
        except LoaderError as error:
            refused[roll_up.name] = error
            continue
        found.append(RollUpReport(roll_up.name, str(roll_up.relation), groups, differing))
    return found


def difference_query(roll_up: Fact) -> str:
    """Return SQL that gives how many groups there are and how many of them differ.

    What dbt's role has stored is names and numbers for it, never SQL.
    """
    made: Mapping[str, Any] = roll_up.declaration
    keys = ", ".join(f"d{place}" for place in range(len(made["dimensions"])))
    sums = [each["column"] for each in made["measures"] if each["kind"] == "sum"]
    finer = ", ".join(
        [
            *(f"{_of(each)} as d{place}" for place, each in enumerate(made["dimensions"])),
            *(f"{_of(each)} as v{place}" for place, each in enumerate(made["values"])),
            *(f"f.{quoted(column)} as s{place}" for place, column in enumerate(sums)),
            f"f.{quoted(made['present_column'])} as present",
        ]
    )
    walked = "".join(
        f", sum(present) filter (where v{value} is not null)"
        f" over (partition by {keys} order by v{value}) as u{value}"
        f", sum(present) filter (where v{value} is not null)"
        f" over (partition by {keys}) as t{value}"
        for value in sorted(
            {int(each["value"]) for each in made["measures"] if each["kind"] == "percentile"}
        )
    )
    joins = " ".join(
        f"left join {Table(*each['place']).quoted} as l{number} on "
        + " and ".join(f"l{number}.{quoted(by['key'])} = {_of(by)}" for by in each["by"].values())
        for number, each in enumerate(made["lookups"])
    )
    wanted = ", ".join(_measure(each, sums) for each in made["measures"])
    names = ", ".join(quoted(each["name"]) for each in [*made["dimensions"], *made["measures"]])
    nothing = {"sum": " <> 0", "distinct": " <> 0"}
    something = " or ".join(
        f"m.{quoted(each['name'])}" + nothing.get(each["kind"], " is not null")
        for each in made["measures"]
    )
    fact = Table(*made["fact_place"]).quoted
    values = ", ".join(f"x{place}" for place in range(len(made["measures"])))
    return (
        f"with finer as (select {finer} from {fact} as f {joins}),"
        f" walked as (select *{walked} from finer),"
        f" wanted as (select * from (select {keys}, {wanted} from walked group by {keys}) as m"
        f" where {something}),"
        f" stored as (select * from (select {names} from {roll_up.relation.quoted}) as m"
        f" where {something}),"
        " differing as ((select * from wanted except select * from stored)"
        " union all (select * from stored except select * from wanted))"
        " select (select count(*) from wanted),"
        f" (select count(*) from (select distinct {keys} from differing as m ({keys}, {values}))"
        " as d)"
    )


def _of(column: Mapping[str, Any]) -> str:
    """Return a column of the fact, whose alias is f, or of a lookup: l0, l1, ..."""
    return f"{quoted(column['alias'])}.{quoted(column['column'])}"


def _measure(measure: Mapping[str, Any], sums: list[str]) -> str:
    name, kind = quoted(measure["name"]), measure["kind"]
    if kind == "sum":
        return f"sum(s{sums.index(measure['column'])})::{measure['type']} as {name}"
    value = f"v{int(measure['value'])}"
    there = "filter (where present <> 0"
    collated = f'{value} collate "C"' if measure["type"] == "text" else value
    match kind:
        case "distinct":
            return f"count(distinct {value}) {there}) as {name}"
        case "percentile":
            rank = f"ceil({float(measure['fraction'])}::float8 * t{value[1:]}::float8)"
            reached = f"u{value[1:]} >= {rank}"
            return f"min({collated}) {there} and present > 0 and {reached}) as {name}"
        case "min" | "max":
            return f"{kind}({collated}) {there}) as {name}"
    raise ValueError(kind)
