"""Setup notes what a sum cannot hold. JSON has neither NaN nor an infinity: the log has null."""

from __future__ import annotations

import re

from testkit.databases import Database
from testkit.facts import column, declare, summed

AMOUNTS = """
    create table amounts (
        id int primary key, amount numeric, price numeric(8, 2), rate double precision, whole bigint
    );
    alter table amounts replica identity full
"""


def test_setup_notes_sums_that_may_meet_nan_and_the_log_has_null(source: Database) -> None:
    source.execute(AMOUNTS)
    types = {"amount": "numeric", "price": "numeric(10, 2)", "whole": "bigint"}
    measures = [{**summed(name, f"{name}_sum"), "type": type_} for name, type_ in types.items()]
    dimensions = [column("id", "integer"), column("rate", "double precision", nulls="count")]
    source.declare(
        ft_amounts=declare("public.amounts", measures=measures),
        amount_rows=declare(
            "public.amounts", kind="current_rows", key=["id"], dimensions=dimensions
        ),
    )
    said = source.must("setup")
    assert "amount, price of public.amounts can hold NaN or an infinity" in said
    assert re.findall("stop at a total of (.*) that reaches (.*), as", said) == [
        ("price_sum", "10^8"),
        ("whole_sum", "2^63"),
    ]
    assert source.must("setup") == "Everything is set up already.\n"
    source.execute(
        "insert into amounts values (1, 'NaN', 'NaN', 'Infinity', 1), (2, '-Infinity', 5, 2.5, 1)"
    )
    source.must("run", "--once")
    assert source.execute(
        "select array("
        "select c ->> 'value' from json_array_elements(payload::json -> 'columns') as c"
        ") from cdc.change_log order by ordinal"
    ) == [(["1", None, None, None, "1"],), (["2", None, "5.00", "2.5", "1"],)]
    assert "can hold NaN" not in source.loader("status").stdout
