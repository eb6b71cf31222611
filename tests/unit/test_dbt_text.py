"""What `loader init` writes into a dbt project, and says of costs."""

from __future__ import annotations

import pytest
import yaml

from loader.setup.cost import Column, cost_lines
from loader.setup.dbt_text import source_yaml
from waltally.errors import SettingError
from waltally.tables import Table

ORDERS = Table("Shop", "Web Orders")


def test_what_a_change_costs_is_said_by_the_statistics() -> None:
    columns = [
        Column("id", True, 16),
        Column("status", False, 6),
        Column("body", False, 2000),
    ]
    said, wide = cost_lines(ORDERS, {"status"}, columns)
    assert "adds about 2.0 kB of WAL" in said
    assert wide.startswith("Most of a row is body,")
    assert "--columns id" in wide
    assert (
        "analyze Shop.Web Orders first" in cost_lines(ORDERS, (), [Column("body", False, None)])[0]
    )


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
    for name in ("it's", "\x1b]0;title\x07"):
        with pytest.raises(SettingError, match="has a ' or a control character"):
            source_yaml("", Table("public", name))
