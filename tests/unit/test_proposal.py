"""`loader init` proposes columns that a person would count by, and writes what dbt can parse."""

from __future__ import annotations

import re

import pytest
import yaml

from loader.setup.cost import cost_lines
from loader.setup.proposal import Column, model_sql, model_yaml, propose, source_yaml
from waltally.errors import SettingError
from waltally.tables import Table, quoted

ORDERS = Table("Shop", "Web Orders")
TIME = "timestamp with time zone"


def column(name: str, type_: str = "text", **more: object) -> Column:
    given = {
        "is_not_null": True,
        "is_key": False,
        "is_foreign_key": False,
        "values": None,
        "sql": name if name.isidentifier() else quoted(name),
        **more,
    }
    return Column(name, type_, **given)  # type: ignore[arg-type]


def test_the_columns_with_the_fewest_values_are_proposed_and_further_ones_named() -> None:
    sizes = {"email": 900_000, "channel": 4, "shop": 120, "constant": 1, "warehouse": 12}
    columns = [
        *(column("id", "uuid", is_key=True, values=5), column("status", "enum", values=8)),
        *(column(name, values=values) for name, values in sizes.items()),
    ]
    proposal = propose(ORDERS, columns, [])
    assert proposal.names == ("channel", "status", "warehouse")
    assert proposal.others == ("shop",)


def test_without_statistics_types_and_foreign_keys_tell() -> None:
    keyed = column("customer_id", "uuid", is_foreign_key=True)
    columns = [column("note"), column("status", "enum"), column("is_paid", "boolean"), keyed]
    assert propose(ORDERS, columns, []).names == ("status", "is_paid", "customer_id")


def test_a_sum_is_named_and_is_no_dimension() -> None:
    columns = [
        column("status", values=3),
        column("tax_cents", "bigint", values=4),
        column("{{ total", "numeric"),
        column("row_amount {{", "numeric"),
    ]
    assert propose(ORDERS, columns, []).sums == ()
    proposal = propose(ORDERS, columns, [], ["tax_cents", "{{ total"])
    assert [each.name for each in proposal.dimensions] == ["status"]
    text = model_sql(proposal)
    assert "    sum(tax_cents) as tax_cents,\n" in text
    assert """    sum({{ '"{{ total"' }}) as {{ '"{{ total"' }}\n""" in text
    (model,) = yaml.safe_load(model_yaml(proposal))["models"]
    named = [each["name"] for each in model["columns"]]
    assert named == ["status", "row_count", "tax_cents"]


def test_named_columns_are_taken_in_their_order() -> None:
    columns = [column("a", "character"), column("b", values=2), column("c", "jsonb")]
    assert [each.name for each in propose(ORDERS, columns, ["b", "a"]).dimensions] == ["b", "a"]
    with pytest.raises(SettingError, match="no column c, d that a model can count by") as refused:
        propose(ORDERS, columns, ["c", "d"])
    assert refused.value.sentence.endswith("--by: a, b")


def test_nothing_likely_is_one_sentence_with_what_there_is() -> None:
    body = column("body", "jsonb")
    for columns, end in (([column("note"), body], "--by: note"), ([body], "take another table")):
        with pytest.raises(SettingError, match="looks like one to count by") as refused:
            propose(ORDERS, columns, [])
        assert refused.value.sentence.endswith(end)


def test_any_table_gets_a_name_that_a_model_can_have() -> None:
    for table, name in ("o" * 63, "ft_" + "o" * 45), ("2026_orders", "ft_2026_orders"):
        assert propose(Table("public", table), [column("status", values=3)], []).name == name


def test_a_dashboard_begins_with_a_day() -> None:
    columns = [
        column("updated_at", TIME),
        column("placed_at", TIME, is_not_null=False),
        column("status", values=3),
        column("hours", "numeric"),
    ]
    proposal = propose(ORDERS, columns, [], ["hours"], "Europe/Berlin")
    assert proposal.names == ("day", "status")
    assert model_sql(proposal).partition("}}")[2] == (
        "\n\nselect\n"
        "    (placed_at at time zone 'Europe/Berlin')::date as day,\n"
        "    status,\n"
        "    count(*) as row_count,\n"
        "    sum(hours) as hours\n"
        "from {{ source('Shop', 'Web Orders') }}\n"
        "group by 1, 2\n"
    )
    assert propose(ORDERS, columns, ["updated_at", "status"]).names == ("day", "status")
    with pytest.raises(SettingError, match="no column status that a model can add up") as refused:
        propose(ORDERS, columns, [], ["status"])
    assert refused.value.sentence.endswith("--sum: hours")


def test_what_a_change_costs_is_said_by_the_statistics() -> None:
    columns = [
        column("id", "uuid", is_key=True, width=16),
        column("status", values=3, width=6),
        column("body", width=2000),
    ]
    proposal = propose(ORDERS, columns, [])
    said, wide = cost_lines(ORDERS, proposal.columns, columns)
    assert re.findall(r"([\d.]+) kB", said) == ["2.0", "2.3", "4.4"], said
    assert wide.startswith("Most of it is body,")
    assert "--columns id" in wide
    assert "analyze Shop.Web Orders first" in cost_lines(ORDERS, (), [column("body")])[0]


def test_a_time_without_a_zone_is_meant_in_utc() -> None:
    columns = [column("at", "timestamp without time zone"), column("status", values=3)]
    days = {"UTC": "at", "Asia/Tokyo": "at at time zone 'UTC' at time zone 'Asia/Tokyo'"}
    for zone, day in days.items():
        assert f"    ({day})::date" in model_sql(propose(ORDERS, columns, [], (), zone))


def test_a_source_is_added_and_what_is_there_stays() -> None:
    text = source_yaml("", ORDERS)
    others = [Table("Shop", '{{ a "b" }}'), Table("public", "orders"), Table("Shop", "orders")]
    for table in others:
        more = source_yaml(text, table)
        assert more.startswith(text)
        assert source_yaml(more, table) == more
        text = more
    assert [
        (source["name"], [list(table.values()) for table in source["tables"]])
        for source in yaml.safe_load(text)["sources"]
    ] == [
        ("Shop", [["Web Orders"], ["a_b_061427", """{{ '{{ a ""b"" }}' }}"""]]),
        ("public", [["orders"]]),
        ("Shop", [["orders"]]),
    ]
    for other in ("- a\n", "sources: [{name: a}]\n", "{"):
        with pytest.raises(SettingError, match="another form") as refused:
            source_yaml(other, ORDERS)
        assert refused.value.remedy == "add it: the source Shop, the table Web Orders"
