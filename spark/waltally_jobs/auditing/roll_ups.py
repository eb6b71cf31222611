"""Compares roll-ups with a recount: a query over their inputs, as the tables say that these are.

What an input differs in from the tables is taken out of it in the query, so that a roll-up which is
wrong together with its fact is found. A roll-up is small, so PostgreSQL computes the query in one
snapshot of the target, by aggregates of its own and by none of the SQL that keeps the roll-up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from waltally.errors import LoaderError
from waltally.facts import Fact, parse_roll_up
from waltally.tables import Table, literal, quoted
from waltally_jobs.auditing.report import Difference, FactReport, RollUpReport
from waltally_jobs.common.connections import TargetSession, exported_snapshot
from waltally_jobs.common.errors import AuditIncomplete
from waltally_jobs.warehouse.fact import applied_lsn

_ROLL_UPS = """
select rolled.fact_name, rolled.declaration, array_agg(distinct input.fact_name)
from {}.roll_up as rolled
inner join {}.installed_model as input on input.model_name = any (rolled.inputs)
where input.slot_name = %s
group by rolled.model_name
order by cardinality(rolled.inputs), rolled.fact_name
"""

Recounts = dict[Table, str]
"""By relation of an input the query that stands for it, where it is not as the tables say."""


def compare(
    target: TargetSession,
    facts: Sequence[Fact],
    reports: Sequence[FactReport],
    refused: dict[str, LoaderError],
) -> list[RollUpReport]:
    """Compare every roll-up of the slot; note in `refused` why one cannot be compared.

    `reports` say what the `facts` differ in from the tables.
    """
    rows = target.ask_staging(_ROLL_UPS, (target.slot,), target.schema)
    recounts: Recounts = {}
    reasons: dict[str, str] = dict.fromkeys(refused, "could not be compared")
    by_name = {fact.name: fact for fact in facts}
    for report in reports:
        fact, comparison = by_name[report.name], report.comparison
        if comparison.difference_count > len(comparison.corrections):
            reasons[fact.name] = f"differs in {comparison.difference_count:,} values"
        elif comparison.corrections:
            recounts[fact.relation] = corrected(fact, comparison.corrections)
    found = []
    for name, declaration, inputs in rows:
        relation = Table(declaration["schema"], declaration["table"])
        try:
            for each in inputs:
                if each in reasons:
                    raise AuditIncomplete(
                        f"{relation} was not compared: its input {each} {reasons[each]}",
                        f"make {each} right, then the audit again",
                    )
            roll_up = parse_roll_up(name, relation, declaration)
            with exported_snapshot(target):
                applied_lsn(target, roll_up)
                ((groups, differing),) = target.ask(difference_query(roll_up, recounts))
        except LoaderError as error:
            refused[name] = error
            continue
        recounts[relation] = f"({_recount(roll_up, recounts)})"
        found.append(RollUpReport(name, str(relation), groups, differing))
    return found


def corrected(fact: Fact, found: Sequence[Difference]) -> str:
    """Return a query of the fact's rows, without what they were found to differ in from the tables.

    The rows are those of now: later deltas were added to the wrong numbers too.
    """
    names = [each.name for each in fact.dimensions]
    columns = ", ".join(map(quoted, names))
    stored = f"select {columns} from {fact.relation.quoted}"
    if fact.kind == "current_rows":
        wrong, missing = (
            [each.dimensions for each in found if each.difference.startswith("-") is is_missing]
            for is_missing in (False, True)
        )
        return (
            f"({stored} except all {_given(fact, columns, wrong)}"
            f" union all {_given(fact, columns, missing)})"
        )
    sums = [quoted(each.name) for each in fact.measures]
    both = f"{columns}, {', '.join(sums)}"
    nothing = dict.fromkeys((each.name for each in fact.measures), "0")
    rows = [{**nothing, **each.dimensions, each.measure: each.difference} for each in found]
    totals = ", ".join(f"sum({name}) as {name}" for name in sums)
    less = f"{columns}, {', '.join(f'-{name}' for name in sums)}"
    return (
        f"(select {columns}, {totals} from (select {both} from {fact.relation.quoted}"
        f" union all {_given(fact, less, rows)}) as corrected group by {columns})"
    )


def _given(fact: Fact, columns: str, rows: Sequence[Mapping[str, str | None]]) -> str:
    """Return a query of rows that are given, in the types of the fact's table."""
    text = literal(json.dumps(rows))
    return f"select {columns} from json_populate_recordset(null::{fact.relation.quoted}, {text})"


def difference_query(roll_up: Fact, recounts: Mapping[Table, str]) -> str:
    """Return SQL that gives how many groups there are and how many of them differ."""
    keys = ", ".join(quoted(each.name) for each in roll_up.dimensions)
    values = ", ".join(quoted(each.name) for each in roll_up.measures)
    stored = f"select {keys}, {values} from {roll_up.relation.quoted}"
    return (
        f"with wanted as (select * from ({_recount(roll_up, recounts)}) as m"
        f" where {_something(roll_up)}),"
        f" stored as (select * from ({stored}) as m where {_something(roll_up)}),"
        " differing as ((select * from wanted except select * from stored)"
        " union all (select * from stored except select * from wanted))"
        " select (select count(*) from wanted),"
        f" (select count(*) from (select distinct {keys} from differing) as d)"
    )


def _something(roll_up: Fact) -> str:
    """Return the condition that tells a group from one whose rows are all gone."""
    nothing = {"sum": " <> 0", "distinct": " <> 0"}
    return " or ".join(
        quoted(each.name) + nothing.get(each.kind, " is not null") for each in roll_up.measures
    )


def _recount(roll_up: Fact, recounts: Mapping[Table, str]) -> str:
    """Return the query whose result the roll-up must hold.

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
        f"left join {_from(each['place'], recounts)} as l{number} on "
        + " and ".join(f"l{number}.{quoted(by['key'])} = {_of(by)}" for by in each["by"].values())
        for number, each in enumerate(made["lookups"])
    )
    dimensions = [
        f"d{place} as {quoted(each['name'])}" for place, each in enumerate(made["dimensions"])
    ]
    measures = [_measure(each, sums) for each in made["measures"]]
    fact = _from(made["fact_place"], recounts)
    return (
        f"with finer as (select {finer} from {fact} as f {joins} where {_held(made)}),"
        f" walked as (select *{walked} from finer)"
        f" select {', '.join(dimensions + measures)} from walked group by {keys}"
    )


def _held(made: Mapping[str, Any]) -> str:
    """Return the condition of a row whose texts a roll-up can hold; see the macro explain_long.

    Only a lookup has longer ones: a fact refuses them.
    """
    texts = [each for each in (*made["dimensions"], *made["values"]) if each["type"] == "text"]
    if all(each["alias"] == "f" for each in texts):
        return "true"
    lengths = [
        f"coalesce(octet_length({_of(each)}), 0)"
        for each in made["dimensions"]
        if each["type"] == "text"
    ]
    limits = [f"coalesce(octet_length({_of(each)}), 0) <= 1000" for each in texts]
    if len(lengths) > 1:
        limits.append(f"{' + '.join(lengths)} <= 1800")
    return " and ".join(limits)


def _from(place: Sequence[str], recounts: Mapping[Table, str]) -> str:
    relation = Table(*place)
    return recounts.get(relation, relation.quoted)


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
