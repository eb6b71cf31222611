"""`loader init` proposes columns that a person would count by, and writes what dbt can parse."""

from __future__ import annotations

import re

import pytest
import yaml

from loader.setup.cost import cost_lines
from loader.setup.parents import Parent, files, with_names
from loader.setup.proposal import Column, model_sql, model_yaml, propose
from waltally.errors import SettingError
from waltally.tables import Table

ORDERS = Table("Shop", "Web Orders")
TIME = "timestamp with time zone"


def column(name: str, type_: str = "text", **more: object) -> Column:
    given = {
        "is_not_null": True,
        "is_key": False,
        "is_foreign_key": False,
        "values": None,
        **more,
    }
    return Column(name, type_, **given)  # type: ignore[arg-type]


def test_the_columns_with_the_fewest_values_are_proposed_and_further_ones_named() -> None:
    columns = [
        column("id", "uuid", is_key=True, values=5),
        column("email", values=900_000),
        column("channel", values=4),
        column("shop", values=120),
        column("constant", values=1),
        column("status", "enum", values=8),
        column("warehouse", values=12),
    ]
    proposal = propose(ORDERS, columns, [])
    assert proposal.names == ("channel", "status", "warehouse")
    assert proposal.others == ("shop",)


def test_without_statistics_types_and_foreign_keys_tell() -> None:
    columns = [
        column("note"),
        column("status", "enum"),
        column("is_paid", "boolean"),
        column("customer_id", "uuid", is_foreign_key=True),
    ]
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
    assert "'tax_cents': {'sum': 'tax_cents', 'of': 'web_orders'}," in model_sql(proposal)
    (model,) = yaml.safe_load(model_yaml(proposal))["models"]
    named = [each["name"] for each in model["columns"]]
    assert named == ["id", "status", "row_count", "tax_cents"]


def test_named_columns_are_taken_in_their_order() -> None:
    columns = [column("a", "character"), column("b", values=2), column("c", "jsonb")]
    assert [each.name for each in propose(ORDERS, columns, ["b", "a"]).dimensions] == ["b", "a"]
    with pytest.raises(SettingError, match="no column c, d that a fact can count by") as refused:
        propose(ORDERS, columns, ["c", "d"])
    assert refused.value.sentence.endswith("--by: a, b, c.KEY")


def test_nothing_likely_is_one_sentence_with_what_there_is() -> None:
    with pytest.raises(SettingError, match="looks like one to count by") as refused:
        propose(ORDERS, [column("note"), column("body", "jsonb")], [])
    assert refused.value.sentence.endswith("--by: note, body.KEY")
    with pytest.raises(SettingError, match="looks like one to count by") as refused:
        propose(ORDERS, [column("body", "bytea")], [])
    assert refused.value.sentence.endswith("take another table")


def test_a_long_table_and_one_that_begins_with_a_digit_get_names_that_a_fact_can_have() -> None:
    long = propose(Table("public", "o" * 63), [column("status", values=3)], [])
    assert len(long.name) == 48
    digit = propose(Table("public", "2026_orders"), [column("status", values=3)], [])
    assert (digit.name, digit.part) == ("ft_2026_orders", "rows_2026_orders")


def test_a_dashboard_begins_with_a_day_and_a_document_has_paths() -> None:
    columns = [
        column("updated_at", TIME),
        column("placed_at", TIME, is_not_null=False),
        column("status", values=3),
        column("details", "jsonb"),
        column("hours", "numeric"),
    ]
    proposal = propose(ORDERS, columns, [], ["hours"], "Europe/Berlin")
    assert proposal.names == ("day", "status")
    text = model_sql(proposal)
    assert "'day': {'date_of': 'placed_at', 'timezone': 'Europe/Berlin', 'nulls': 'count'}," in text
    assert "'hours': {'sum': 'hours', 'of': 'web_orders'}," in text
    named = propose(ORDERS, columns, ["updated_at", "details.ship.to", "status"])
    assert named.names == ("day", "status", "to")
    assert "'to': {'path': ['ship', 'to'], 'of': 'details', 'nulls': 'count'}," in model_sql(named)
    with pytest.raises(SettingError, match="no column status that a fact can add up") as refused:
        propose(ORDERS, columns, [], ["status"])
    assert refused.value.sentence.endswith("--sum: hours")


def test_what_a_change_costs_is_said_by_the_statistics() -> None:
    columns = [
        column("id", "uuid", is_key=True, width=16),
        column("status", values=3, width=6),
        column("body", width=2000),
    ]
    proposal = propose(ORDERS, columns, [])
    said, full, wide = cost_lines(proposal, columns)
    assert re.findall(r"([\d.]+) kB", said + full) == ["2.3", "2.4", "4.4", "2.0"], said
    assert wide.startswith("Most of it is body,")
    assert "--columns id" in wide
    assert "analyze Shop.Web Orders first" in cost_lines(proposal, [column("body")])[0]
    may_be_null = [*columns, column("team", values=3, width=4, is_not_null=False)]
    _, _, said, _ = cost_lines(propose(ORDERS, may_be_null, ["team"]), may_be_null)
    assert said.startswith("team may be null, so only `full` is possible")


def test_parents_are_current_rows_and_the_fact_has_a_roll_up_by_their_names() -> None:
    columns = [column("status", values=3), column("customer_id", "bigint", is_foreign_key=True)]
    parent = Parent("customer_id", Table("public", "customers"), "id", "bigint", "name")
    proposal = propose(ORDERS, columns, ["status"], more=["customer_id"])
    assert proposal.names == ("status", "customer_id")
    found = files(proposal, with_names([parent], proposal, lambda _, names: names[0]))
    assert found.keys() == {
        f"models/{name}.{kind}"
        for name in ("customers", "ft_web_orders_by_name")
        for kind in ("sql", "yml")
    }
    assert "columns={'id': 'bigint', 'name': 'text'}," in found["models/customers.sql"]
    roll_up = found["models/ft_web_orders_by_name.sql"]
    assert "'customer': {'rows': ref('customers'), 'by': {'id': 'customer_id'}}," in roll_up
    assert "'customer_name': 'customer.name'," in roll_up
    assert "'customer_id': 'customer_id'" not in roll_up
