"""What is said to do about rejected changes names each cause once, and ends with the seed."""

from __future__ import annotations

from loader.monitoring.findings import rejection_remedy

SEED = "then `spark-submit spark/seed.py --fact ft_orders`, then `dbt build`"


def test_each_cause_is_named_once_and_the_seed_comes_last() -> None:
    said = rejection_remedy(
        "ft_orders",
        [
            "the replica identity carries no old row",
            "the replica identity does not carry the old code",
            "the value of code is not of type integer",
            "the values of code, note together are longer than 1800 bytes",
        ],
    )
    identity, value, values, seed = said.split("; ")
    assert identity == "run the SQL that `loader setup --check` prints"
    assert value.startswith("correct the table's values")
    assert values.startswith("shorten the table's values")
    assert seed == SEED


def test_a_reason_that_is_not_known_or_may_not_be_read_is_still_counted_by_the_seed() -> None:
    for reasons in (["the action is not known"], None):
        assert rejection_remedy("ft_orders", reasons) == (
            f"read the reason in rejected_changes and remove its cause; {SEED}"
        )
