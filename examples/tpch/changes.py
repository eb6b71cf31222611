"""Kinds of change to the eight tables; each returns how many rows it changed.

Values are often those that a query looks for, and keys often such as no other row has.
"""

from __future__ import annotations

from testkit.traffic import BaseSession, Changes

KEYS = {
    "region": ("r_regionkey",),
    "nation": ("n_nationkey",),
    "supplier": ("s_suppkey",),
    "customer": ("c_custkey",),
    "part": ("p_partkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}
"""By table its primary key; rows are chosen by the first column."""
_PARENTS = {
    "n_regionkey": "region",
    "s_nationkey": "nation",
    "c_nationkey": "nation",
    "o_custkey": "customer",
    "l_partkey": "part",
    "l_suppkey": "supplier",
}
_DAYS = ("1993-08-30", "1993-11-11", "1994-05-31", "1995-03-15", "1995-09-20", "1996-02-29")
_MONEY = ("-999.99", "0", "0.01", "1234.56", "9999.99")
VALUES: dict[str, dict[str, tuple[object, ...]]] = {
    "region": {"r_name": ("EUROPE", "ASIA", "AMERICA", "AFRICA")},
    "nation": {
        "n_name": ("FRANCE", "GERMANY", "BRAZIL", "CANADA", "SAUDI ARABIA", "INDIA", "PERU"),
        "n_regionkey": (),
        "n_comment": ("", "nothing that is kept"),
    },
    "supplier": {
        "s_nationkey": (),
        "s_comment": ("a Customer has Complaints", "none", "Complaints of a Customer"),
        "s_acctbal": _MONEY,
        "s_phone": ("13-000", "31-111"),
    },
    "customer": {
        "c_nationkey": (),
        "c_mktsegment": ("BUILDING", "MACHINERY"),
        "c_phone": ("13-111", "31-222", "18-333", "99-444", "1"),
        "c_acctbal": _MONEY,
    },
    "part": {
        "p_brand": ("Brand#12", "Brand#23", "Brand#34", "Brand#45"),
        "p_container": ("SM CASE", "SM PKG", "MED BOX", "MED BAG", "LG CASE", "LG PKG"),
        "p_size": (1, 3, 5, 9, 14, 15, 49),
        "p_type": (
            *("ECONOMY ANODIZED STEEL", "SMALL PLATED BRASS", "PROMO BURNISHED TIN"),
            "MEDIUM POLISHED BRASS",
        ),
        "p_name": ("forest green lace", "forest linen", "dark green navy", "almond lace"),
    },
    "partsupp": {"ps_supplycost": ("0.25", "0.50", "1.00"), "ps_availqty": (0, 1, 12, 99, 9999)},
    "orders": {
        "o_custkey": (),
        "o_orderstatus": ("F", "O", "P"),
        "o_totalprice": _MONEY,
        "o_orderdate": _DAYS,
        "o_orderpriority": ("1-URGENT", "2-HIGH", "5-LOW"),
        "o_comment": ("special, very special requests", "nothing", "requests, special"),
    },
    "lineitem": {
        "l_partkey": (),
        "l_suppkey": (),
        "l_quantity": (1, 3, 11, 20, 24, 50, "120.5", 300),
        "l_extendedprice": _MONEY,
        "l_discount": (0, "0.05", "0.06", "0.07", "0.10"),
        "l_returnflag": ("R", "A", "N"),
        "l_shipdate": _DAYS,
        "l_commitdate": _DAYS,
        "l_receiptdate": _DAYS,
        "l_shipmode": ("MAIL", "SHIP", "AIR", "AIR REG"),
        "l_shipinstruct": ("DELIVER IN PERSON", "NONE"),
    },
}
"""By table and column what it may become; of a parent's key, a key."""


class TradeSession(BaseSession):
    """A session that orders, ships, renames and deletes."""

    def near(self, table: str) -> int:
        """Return a key that a row of the table may have."""
        key = KEYS[table][0]
        [(low, high)] = self.rows(f"select min({key}), max({key}) from tpch.{table}")
        return self.rng.randint(low or 0, (high or 0) + 1)

    def some(self, table: str, limit: int = 3) -> list[str]:
        """Return the places of up to so many rows from a random key on, which it locks."""
        key = KEYS[table][0]
        return self.fetch(
            f"select ctid::text from tpch.{table} where {key} >= %s order by {key}"
            " limit %s for update",
            self.near(table),
            self.rng.randint(1, limit),
        )

    def change(self, table: str, limit: int = 3) -> int:
        """Give some rows other values in some columns."""
        own = VALUES[table]
        names = self.rng.sample(list(own), self.rng.randint(1, min(3, len(own))))
        values = [
            self.near(_PARENTS[name]) if name in _PARENTS else self.rng.choice(own[name])
            for name in names
        ]
        assigned = ", ".join(f"{name} = %s" for name in names)
        return self.run(
            f"update tpch.{table} set {assigned} where ctid = any(%s::tid[])",
            *values,
            self.some(table, limit),
        )

    def copy(self, table: str, limit: int, **changed: object) -> int:
        """Insert some rows again, with other values in some columns, where their keys are free."""
        chosen = self.some(table, limit)
        names = self.fetch(
            "select attname::text from pg_attribute where attrelid = %s::regclass and attnum > 0"
            " order by attnum",
            f"tpch.{table}",
        )
        columns = ", ".join("%s" if name in changed else name for name in names)
        return self.run(
            f"insert into tpch.{table} select {columns} from tpch.{table}"
            " where ctid = any(%s::tid[]) on conflict do nothing",
            *(changed[name] for name in names if name in changed),
            chosen,
        )


def change_lines(session: TradeSession) -> int:
    """Lines get other dates, quantities, parts and suppliers."""
    return session.change("lineitem", 20)


def change_orders(session: TradeSession) -> int:
    """Orders get another customer, day, state or priority."""
    return session.change("orders", 5)


def change_parts(session: TradeSession) -> int:
    """Parts get another brand, type, size, box or name."""
    return session.change("part", 5)


def change_stock(session: TradeSession) -> int:
    """Suppliers ask another price, and have more or less."""
    return session.change("partsupp", 10)


def change_a_person(session: TradeSession) -> int:
    """Customers and suppliers move, and owe money."""
    return session.change(session.rng.choice(("customer", "supplier")))


def change_the_world(session: TradeSession) -> int:
    """A nation or a region gets another name, or moves."""
    return session.change(session.rng.choice(("nation", "nation", "region")), 1)


def swap_nations(session: TradeSession) -> int:
    """Two nations exchange their names."""
    return session.run(
        "update tpch.nation as one set n_name = other.n_name from tpch.nation as other"
        " where (one.n_nationkey, other.n_nationkey) in ((%(a)s, %(b)s), (%(b)s, %(a)s))"
        % {"a": session.rng.randint(0, 24), "b": session.rng.randint(0, 24)}
    )


def order(session: TradeSession) -> int:
    """An order comes with lines."""
    key = 10_000_000 + session.rng.randrange(10_000_000)
    return session.copy("orders", 1, o_orderkey=key) + session.copy("lineitem", 7, l_orderkey=key)


def cancel(session: TradeSession) -> int:
    """An order is deleted, with its lines or without."""
    gone = session.fetch(
        "delete from tpch.orders where ctid = any(%s::tid[]) returning o_orderkey",
        session.some("orders", 2),
    )
    if session.rng.random() < 0.3:
        return len(gone)
    return len(gone) + session.run("delete from tpch.lineitem where l_orderkey = any(%s)", gone)


def delete(session: TradeSession) -> int:
    """A few rows of any table are deleted; what refers to them stays."""
    table = session.rng.choice(list(KEYS))
    return session.run(
        f"delete from tpch.{table} where ctid = any(%s::tid[])", session.some(table, 2)
    )


def change_keys(session: TradeSession) -> int:
    """A row of any table gets another key, unless another row has it."""
    table = session.rng.choice(list(KEYS))
    name = session.rng.choice(KEYS[table])
    new = session.near("supplier" if name == "ps_suppkey" else table)
    return session.run(
        f"update tpch.{table} set {name} = %s where ctid = any(%s::tid[]) and not exists"
        f" (select from tpch.{table} as other where other.{name} = %s)",
        new,
        session.some(table, 1),
        new,
    )


def copy(session: TradeSession) -> int:
    """A row of any table comes once more, under another key."""
    table = session.rng.choice(list(KEYS))
    return session.copy(table, 2, **{KEYS[table][0]: session.near(table)})


def truncate(session: TradeSession) -> int:
    """A table is emptied, and most of its rows come again in the same transaction."""
    session.run("set local lock_timeout = '2s'")  # the other sessions wait behind it
    table = session.rng.choice(list(KEYS))
    session.run(f"create temp table kept on commit drop as select * from tpch.{table}")
    session.run(f"truncate tpch.{table}")
    done = session.run(f"insert into tpch.{table} select * from kept where random() < 0.95")
    session.run("drop table kept")
    return done


CHANGES: Changes[TradeSession] = {
    change_lines: 12,
    change_orders: 8,
    change_parts: 4,
    change_stock: 4,
    change_a_person: 4,
    change_the_world: 1,
    swap_nations: 1,
    order: 6,
    cancel: 3,
    delete: 2,
    change_keys: 4,
    copy: 4,
}
TRUNCATES: Changes[TradeSession] = {truncate: 1}
