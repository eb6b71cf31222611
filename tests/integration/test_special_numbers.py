"""JSON has neither NaN nor an infinity: they are null in the log, and setup says so in a note."""

from __future__ import annotations

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
    measures = [summed(each, f"{each}_sum") for each in ("amount", "price", "whole")]
    dimensions = [column("id", "integer"), column("rate", "double precision", nulls="count")]
    source.declare(
        ft_amounts=declare("public.amounts", measures=measures),
        amount_rows=declare(
            "public.amounts", kind="current_rows", key=["id"], dimensions=dimensions
        ),
    )
    said = source.must("setup")
    assert "amount, price of public.amounts can hold NaN or an infinity" in said
    assert "can hold NaN" not in source.must("setup")
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
