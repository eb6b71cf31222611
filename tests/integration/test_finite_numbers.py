"""JSON has neither NaN nor an infinity: a constraint of the source must keep them out of a fact."""

from __future__ import annotations

import re

import pytest
from psycopg2 import errors

from loader.source.table_checks import SPECIAL, kept_out
from testkit.databases import Database, paste
from testkit.facts import column, declare, summed
from waltally.tables import quoted

PLAIN = (
    *("c <> 'NaN'", "c < 1e9", "c between 0 and 100", "c > -5 and c < 5.5", "c <= 10::bigint"),
    *("c is not null", "i > 3 and c < 100", "c < 5 and c > -5 and i = 1"),
    *("c > '-Infinity' and c < 'Infinity'", "c = 3", "c >= 0", "c > 'NaN'", "c >= 'NaN'", "true"),
    *("i = 1 and c < 5", "c <> all (array[1, null])", "c <= 'Infinity'", "c < 5 or i = 2", "i < 2"),
)
OTHERS = (
    *("c not in ('NaN', 'Infinity')", "c in (1, 2.5)", "c is null or c < 7", "1 = 1 and c < 5"),
    *("c between symmetric 1 and 0", "c < 5 and (i = 1 or c > -1)", "(c < 5 and i = 1) = false"),
    *("not c = 'NaN'", "0 <= c", "(c < 100 and i > 3) or c is null", "c < i", "abs(c) < 5"),
    *("case when i = 1 then c < 5 end", "(c < 5) is not false", "c = any (array[1, null])"),
    *("c < nullif(5, 5)", "(c < 5) = (i = 1)", "not (c < 5 and i = 1)", "i::text || c < '5'"),
)
"""What need not be understood, and must not be taken for more than it says."""

AMOUNTS = """
    create table amounts (
        id int primary key, i int, amount numeric, price numeric(8, 2), rate real,
        ratio double precision, "Odd ""c" numeric, whole bigint
    );
    alter table amounts replica identity full
"""


def is_refused(database: Database, name: str, value: str) -> bool:
    """Return whether no row can have the value, whatever is in the other column."""
    for i in (1, 2, 5, None):
        try:
            database.execute(
                f"insert into public.amounts (id, i, {quoted(name)}) values (1, %s, %s)", i, value
            )
        except errors.CheckViolation:
            continue
        database.execute("delete from public.amounts")
        return False
    return True


def test_what_a_check_is_said_to_keep_out_is_refused_by_the_server(database: Database) -> None:
    name = 'Odd "c'
    database.execute(AMOUNTS)
    database.execute("set search_path = pg_catalog")
    for check in (*PLAIN, *OTHERS):
        holds = re.sub(r"\bc\b", lambda _: quoted(name), check)
        database.execute(f"alter table public.amounts add constraint checked check ({holds})")
        printed = database.value(
            "select pg_get_expr(conbin, conrelid) from pg_constraint where conname = 'checked'"
        )
        refused = {value for value in SPECIAL if is_refused(database, name, value)}
        found = kept_out(printed, name)
        assert found == refused if check in PLAIN else found <= refused, printed
        database.execute("alter table public.amounts drop constraint checked")


def totals(*columns: str) -> dict[str, object]:
    """Declare a fact with the sums of these columns."""
    measures = [summed(each, f"{each}_sum") for each in columns]
    return declare("public.amounts", measures=measures)


def test_the_remedy_keeps_them_out_while_the_application_writes(source: Database) -> None:
    source.execute(AMOUNTS)
    source.execute("insert into amounts (id, amount) values (1, 5), (2, null)")
    source.declare(ft_amounts=totals("amount", "price", "whole", 'Odd "c'))
    done = source.loader("setup")
    assert done.returncode == 17
    assert 'Odd "c, amount, price of public.amounts may be NaN or infinite' in done.stderr
    [remedy] = re.findall(r"^Try: (.*)", done.stderr, re.M)
    paste(source.cluster, source.name, remedy)
    source.must("setup")
    for value in SPECIAL:
        with pytest.raises(errors.CheckViolation):
            source.execute("update amounts set amount = %s", value)
    source.execute("update amounts set amount = null; update amounts set price = 7")

    # Somebody takes it away while all goes on.
    source.execute("alter table amounts drop constraint amounts_amount_finite")
    done = source.loader("status")
    assert done.returncode == 17
    assert "amount of public.amounts may be NaN or infinite" in done.stdout
    source.execute("update amounts set amount = 'NaN' where id = 1")
    [remedy] = re.findall(r"^ *Try: (alter .*)", done.stdout, re.M)
    with pytest.raises(AssertionError, match="violated by some row"):
        paste(source.cluster, source.name, remedy)
    # Once the rows are put right, what is left to do is said again.
    source.execute("update amounts set amount = null where amount = 'NaN'")
    [remedy] = re.findall(r"^Try: (.*)", source.loader("setup").stderr, re.M)
    assert remedy == 'alter table "public"."amounts" validate constraint "amounts_amount_finite";'
    paste(source.cluster, source.name, remedy)
    assert "is set up" in source.must("setup", "--check")


USES: list[tuple[dict[str, object], bool]] = [
    (declare("public.amounts", ("i", "integer"), ("whole", "bigint")), False),
    (totals("whole"), False),
    (totals("counted"), False),
    (declare("public.amounts", ("price", "numeric(8, 2)")), True),
    (declare("public.amounts", ("rate", "text")), True),
    (
        declare(
            "public.amounts",
            where=[{"column": "ratio", "test": "is_null", "values": [], "is_null": True}],
        ),
        True,
    ),
    (
        declare(
            "public.amounts",
            kind="current_rows",
            key=["id"],
            dimensions=[column("id", "integer"), column("price", "numeric(8, 2)", nulls="count")],
        ),
        True,
    ),
]


def test_every_use_of_a_number_that_may_be_nan_is_refused_and_no_other(source: Database) -> None:
    # The stream has a domain's values as texts, NaN among them.
    source.execute("create domain counted as numeric")
    source.execute(AMOUNTS.replace("whole bigint", "whole bigint, counted counted"))
    for declaration, is_refused in USES:
        source.declare(ft_amounts=declaration)
        done = source.loader("setup")
        assert done.returncode == (17 if is_refused else 0), (declaration, done.stderr)
        assert ("may be NaN or infinite" in done.stderr) == is_refused, declaration
