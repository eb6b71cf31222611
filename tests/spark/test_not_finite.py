"""NaN and the infinities are null to a seed too, however it counts."""

from __future__ import annotations

from decimal import Decimal

import pytest

from testkit.facts import count, declare, summed
from tests.spark.support import Source, counted_by

TABLE = """
    create table public.measured (id int, kind text, size numeric, factor numeric);
    alter table public.measured replica identity full;
    insert into public.measured values
        (1, 'a', 1.5, 2), (2, 'a', 'NaN', 2), (3, 'a', 'Infinity', 2), (4, 'a', 2, 'NaN'),
        (5, 'a', 'NaN', 'NaN'), (6, 'a', null, 7), (7, 'a', 1, null);
"""
FACT = declare(
    "public.measured",
    ("kind", "text"),
    measures=[
        count("row_count", "rows"),
        summed("size", "size"),
        {**summed("size", "product"), "columns": ["size", "factor"]},
    ],
)


@pytest.mark.parametrize("who", ["server", "Spark"])
def test_what_json_has_no_number_for_adds_nothing(source: Source, who: str) -> None:
    source.execute(TABLE)
    source.register(FACT, "ft_measured")
    with counted_by(who):
        said = source.must_seed("--fact", "ft_measured")
    assert "cannot be counted" not in said
    assert "3 values are NaN or infinite, so null, in size of public.measured" in said
    assert "2 values are NaN or infinite, so null, in factor of public.measured" in said
    numbers = [Decimal(7), Decimal("4.5"), Decimal(3)]
    assert source.groups("ft_measured") == {("rows", "a"): numbers}
