"""`loader init` proposes columns that a person would count by, and writes what dbt can parse."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from loader.scaffold.project import project_name
from loader.scaffold.proposal import Column, hints, likely, model_sql, model_yaml, propose
from waltally.errors import SettingError
from waltally.tables import Table

ORDERS = Table("Shop", "Web Orders")


def column(name: str, type_: str = "text", **more: object) -> Column:
    given = {
        "is_not_null": True,
        "is_key": False,
        "is_foreign_key": False,
        "values": None,
        **more,
    }
    return Column(name, type_, **given)  # type: ignore[arg-type]


def test_enums_come_first_and_then_those_with_the_fewest_values() -> None:
    columns = [
        column("id", "uuid", is_key=True, values=5),
        column("email", values=900_000),
        column("channel", values=4),
        column("shop", values=120),
        column("constant", values=1),
        column("status", "enum", values=8),
        column("warehouse", values=12),
    ]
    assert [each.name for each in likely(columns)] == ["status", "channel", "warehouse"]


def test_numbers_and_dates_come_last_unless_they_name_a_row() -> None:
    columns = [
        column("quantity", "integer", values=2),
        column("due", "date", values=3),
        column("customer_id", "integer", values=90, is_foreign_key=True),
        column("channel", values=400),
    ]
    assert [each.name for each in likely(columns)] == ["customer_id", "channel", "quantity"]


def test_without_statistics_types_and_foreign_keys_tell() -> None:
    columns = [
        column("note"),
        column("status", "enum"),
        column("is_paid", "boolean"),
        column("customer_id", "uuid", is_foreign_key=True),
    ]
    assert [each.name for each in likely(columns)] == ["status", "is_paid", "customer_id"]


def test_named_columns_are_taken_in_their_order() -> None:
    columns = [column("a"), column("b", values=2), column("c", "jsonb")]
    assert [each.name for each in propose(ORDERS, columns, ["b", "a"]).dimensions] == ["b", "a"]
    with pytest.raises(SettingError, match="no column c, d that a fact can count by") as refused:
        propose(ORDERS, columns, ["c", "d"])
    assert refused.value.sentence.endswith("--by: a, b")


def test_nothing_likely_is_one_sentence_with_what_there_is() -> None:
    with pytest.raises(SettingError, match="looks like one to count by") as refused:
        propose(ORDERS, [column("note"), column("body", "jsonb")], [])
    assert refused.value.sentence.endswith("--by: note")
    with pytest.raises(SettingError, match="looks like one to count by") as refused:
        propose(ORDERS, [column("body", "jsonb")], [])
    assert refused.value.sentence.endswith("take another table")


def test_the_model_declares_the_table_and_its_nulls() -> None:
    columns = [
        column("channel", values=3, is_not_null=False),
        column("status", "enum", values=5),
        column("amount", "numeric"),
        column("placed_at", "timestamp with time zone"),
    ]
    proposal = propose(ORDERS, columns, [])
    assert proposal.name == "ft_web_orders"
    text = model_sql(proposal)
    assert """tables={'web_orders': '"Shop"."Web Orders"'}""" in text
    assert "'channel': {'type': 'text', 'nulls': 'count'}," in text
    assert "'status': 'text'," in text
    assert hints(proposal) == [
        "a sum, such as {'sum': 'amount', 'of': 'web_orders'}; of amount",
        "a day, such as {'date_of': 'placed_at', 'timezone': 'Europe/London'}; of placed_at",
    ]
    (model,) = yaml.safe_load(model_yaml(proposal))["models"]
    assert [each["name"] for each in model["columns"]] == ["id", "status", "channel", "row_count"]


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("facts", "facts"),
        ("/a/Web Shop", "web_shop"),
        ("2026", "facts_2026"),
        ("waltally", "facts_waltally"),
        ("数量", "facts"),
    ],
)
def test_a_project_is_called_as_its_folder(folder: str, name: str) -> None:
    assert project_name(Path(folder)) == name


def test_a_long_table_and_one_that_begins_with_a_digit_get_names_that_a_fact_can_have() -> None:
    long = propose(Table("public", "o" * 63), [column("status", values=3)], [])
    assert len(long.name) == 48
    digit = propose(Table("public", "2026_orders"), [column("status", values=3)], [])
    assert (digit.name, digit.part) == ("ft_2026_orders", "rows_2026_orders")


def test_a_column_that_jinja_would_render_is_in_no_yaml() -> None:
    names = ["{{ 1 }}", "[1] #}", "a: b", "no", "1", "- &x", "ü"]
    proposal = propose(ORDERS, [column(name, values=2) for name in names], names)
    text = model_yaml(proposal)
    assert not set("{}%") & set(text)
    (model,) = yaml.safe_load(text)["models"]
    assert [each["name"] for each in model["columns"]] == ["id", *names[2:], "row_count"]
    assert "ü" in text, "a person reads it"


def test_a_name_is_quoted_only_where_it_must_be() -> None:
    text = model_sql(propose(Table("public", "orders"), [column("status", values=3)], []))
    assert "tables={'orders': 'public.orders'}" in text
