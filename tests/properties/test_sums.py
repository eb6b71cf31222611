"""Sums over Arrow's tables are exact, whatever type their numbers need."""

from __future__ import annotations

from decimal import Decimal
from random import Random

import pyarrow as pa
import pytest
from rules.numbers import Number, add, print_number
from waltally_jobs.common import sums

WHOLE: list[Number] = [0, 1, -1, 2**62, 2**63 - 1, 1 - 2**63]
LARGE: list[Number] = [Decimal("0.5"), 9 * Decimal(10) ** 31, Decimal("-1.000001")]
ANY: list[Number] = [*WHOLE, *LARGE, 10**40, Decimal("1e-9"), Decimal("123456789.0000000001")]


@pytest.mark.parametrize("numbers", [WHOLE, LARGE, ANY], ids=["whole", "decimals", "any"])
def test_sums_by_a_key_are_exact(numbers: list[Number]) -> None:
    dice = Random(5)
    for size in (0, 1, 2, 3, 50):
        rows = [(dice.choice(("a", "b", None)), dice.choice(numbers)) for _ in range(size)]
        wanted: dict[str | None, Number] = {}
        for key, number in rows:
            wanted[key] = add(wanted.get(key, 0), number)
        cuts = [rows[: size // 2], rows[size // 2 :]]
        tables = [
            pa.table(
                {
                    "key_0": pa.array([key for key, _ in part], pa.string()),
                    "sum_0": sums.numbers_of([number for _, number in part]),
                }
            )
            for part in cuts
        ]
        found = sums.added(sums.together(tables, ["sum_0"]), ["key_0"], ["sum_0"])
        texts = sums.texts_of(found["sum_0"].combine_chunks()).to_pylist()
        assert dict(zip(found["key_0"].to_pylist(), texts, strict=True)) == {
            key: print_number(number) for key, number in wanted.items()
        }
