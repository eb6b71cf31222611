"""TPC-H's tables and queries for the demo, the tests and the benchmark."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from demo.example import Example
from examples.tpch.changes import CHANGES, KEYS, TRUNCATES, TradeSession
from testkit.comparison import Recount
from testkit.source import transaction
from testkit.traffic import Sessions

_HERE = Path(__file__).parent
_ROWS = 8_661_245
"""What the eight tables have at scale 1."""
LEAST = 0.001
"""The least scale at which there are ten suppliers."""


def create(dsn: str) -> None:
    """Make the empty tables."""
    with transaction(dsn) as cursor:
        cursor.execute((_HERE / "source.sql").read_text())


def fill(dsn: str, rows: int, seed: int) -> None:
    """Fill the empty tables with about so many rows in all, the same for each seed."""
    fill_scale(dsn, max(rows / _ROWS, LEAST))


def fill_scale(dsn: str, scale: float) -> None:
    """Fill the empty tables at a scale. Raises subprocess.CalledProcessError."""
    program = Path(sys.executable).parent / "tpchgen-cli"
    with tempfile.TemporaryDirectory() as folder, transaction(dsn) as cursor:
        subprocess.run(
            [program, "csv", "--scale-factor", f"{scale:.6f}", "--output-dir", folder],
            check=True,
            capture_output=True,
        )
        for table in KEYS:
            # At small scales two rows of partsupp have one key.
            cursor.execute(f"create temp table incoming (like tpch.{table})")
            with (Path(folder) / f"{table}.csv").open() as rows:
                cursor.copy_expert("copy incoming from stdin (format csv, header)", rows)
            cursor.execute(
                f"insert into tpch.{table} select * from incoming on conflict do nothing;"
                " drop table incoming"
            )
            cursor.execute(f"analyze tpch.{table}")


def traffic(dsn: str, *, seed: int, rate: float | None, truncates: bool) -> Sessions[TradeSession]:
    """Four sessions that order, ship, rename and delete."""
    changes = CHANGES | TRUNCATES if truncates else CHANGES
    return Sessions(dsn, TradeSession, changes, seed=seed, rate=rate)


COLUMNS = {
    "q01": "l_returnflag l_linestatus sum_qty sum_base_price sum_disc_price sum_charge avg_qty"
    " avg_price avg_disc count_order",
    "q02": "s_acctbal s_name n_name p_partkey p_mfgr s_address s_phone s_comment",
    "q03": "l_orderkey revenue o_orderdate o_shippriority",
    "q04": "o_orderpriority order_count",
    "q05": "n_name revenue",
    "q06": "revenue",
    "q07": "supp_nation cust_nation l_year revenue",
    "q08": "o_year mkt_share",
    "q09": "nation o_year sum_profit",
    "q10": "c_custkey c_name revenue c_acctbal n_name c_address c_phone c_comment",
    "q11": "ps_partkey value",
    "q12": "l_shipmode high_line_count low_line_count",
    "q13": "c_count custdist",
    "q14": "promo_revenue",
    "q15": "s_suppkey s_name s_address s_phone total_revenue",
    "q16": "p_brand p_type p_size supplier_cnt",
    "q17": "avg_yearly",
    "q18": "c_name c_custkey o_orderkey o_orderdate o_totalprice sum",
    "q19": "revenue",
    "q20": "s_name s_address",
    "q21": "s_name numwait",
    "q22": "cntrycode numcust totacctbal",
}
"""By view its columns, in the order of its query."""


def query(view: str) -> str:
    """Return the query that a view answers, over the tables."""
    return (_HERE / "queries" / f"{view}.sql").read_text()


def _recount(view: str) -> Recount:
    """Every column of a view is compared; the blanks with which char(n) is filled up are not."""
    columns = COLUMNS[view].split()
    texts = ", ".join(f"rtrim({name})" if name in _TEXTS else name for name in columns)
    return Recount(view, tuple(columns), (), _asked(texts, view), is_rows=True)


def _asked(columns: str, view: str) -> str:
    asked = query(view).replace("%", "%%")  # a recount has parameters
    return f"set local search_path to tpch; select {columns} from ({asked}) as asked"


_TEXTS = {
    *("l_returnflag", "l_linestatus", "s_name", "n_name", "p_mfgr", "s_phone", "o_orderpriority"),
    *("supp_nation", "cust_nation", "nation", "c_phone", "l_shipmode", "p_brand"),
}
"""Columns that are char(n)."""

EXAMPLE = Example(
    name="tpch",
    slots=("tpch",),
    about="orders with lines, other dates, prices, parts and customers, nations that swap names",
    create=create,
    fill=fill,
    traffic=traffic,
    recounts=(
        Recount(
            "pricing_summary",
            ("l_returnflag", "l_linestatus"),
            ("sum_qty", "count_order"),
            _asked("l_returnflag, l_linestatus, sum_qty, count_order", "q01"),
        ),
        *map(_recount, COLUMNS),
    ),
    total="select sum(count_order)::bigint from analytics.pricing_summary",
    total_of="lines in q01",
    table="""
        select nation, o_year::text, round(sum_profit)
        from analytics.q09
        where o_year >= 1995
    """,
    corner="q09, profit",
)
