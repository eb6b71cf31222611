"""Setup notes what a sum cannot hold. JSON has neither NaN nor an infinity: the log has null."""

from __future__ import annotations

from testkit.databases import Database
from testkit.model import Query, counting

AMOUNTS = """
    create table amounts (
        id int primary key, amount numeric, price numeric(8, 2), rate double precision, whole bigint
    );
    alter table amounts replica identity full
"""


def test_setup_notes_sums_that_may_meet_nan_and_the_log_has_null(source: Database) -> None:
    source.execute(AMOUNTS)
    sums = {"amounts": "sum(amount)", "prices": "sum(price)", "ids": "sum(id)"}
    source.declare(
        ft_amounts=counting("public.amounts", **sums),
        amount_rows=Query("select id, rate from {public.amounts}"),
    )
    said = source.must("setup")
    assert "amount, price of public.amounts can hold NaN or an infinity" in said
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
