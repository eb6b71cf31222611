"""Kinds of change to the shop's parcels and customers; each returns how many rows it changed."""

from __future__ import annotations

from examples.shop.session import CUSTOMERS, REGIONS, ShopSession
from testkit.traffic import awkward_time


def send(session: ShopSession) -> int:
    """Some parcels are sent to a customer, or to a guest."""
    return session.run(
        'insert into "Web Shop"."Parcels" ("Customer no", "sentAt", "Days")'
        " select %s, %s, %s from generate_series(1, %s)",
        session.customer(),
        awkward_time(session.rng).isoformat() + "Z",
        session.rng.choice((None, session.days())),
        session.rng.randint(1, 4),
    )


def deliver(session: ShopSession) -> int:
    """Parcels arrive, or come back."""
    return session.run(
        'update "Web Shop"."Parcels" set "Days" = %s where "Parcel no" = any(%s)',
        session.days(),
        session.some_parcels(session.rng.randint(1, 8)),
    )


def redirect(session: ShopSession) -> int:
    """Parcels go to somebody else, at another time."""
    return session.run(
        'update "Web Shop"."Parcels" set "Customer no" = %s, "sentAt" = %s'
        ' where "Parcel no" = any(%s)',
        session.customer(),
        awkward_time(session.rng).isoformat() + "Z",
        session.some_parcels(2),
    )


def lose(session: ShopSession) -> int:
    """Parcels are deleted."""
    return session.run(
        'delete from "Web Shop"."Parcels" where "Parcel no" = any(%s)', session.some_parcels(3)
    )


def register(session: ShopSession) -> int:
    """Somebody becomes a customer; there may be parcels of an older one with that number."""
    number = session.rng.randint(1, CUSTOMERS)
    return session.run(
        'insert into "Web Shop"."Customers" values (%s, %s, %s) on conflict do nothing',
        number,
        f"Customer {number}",
        session.rng.choice(REGIONS),
    )


def move_house(session: ShopSession) -> int:
    """Customers move to another region; their parcels move with them."""
    first = session.rng.randint(1, CUSTOMERS)
    return session.run(
        'update "Web Shop"."Customers" set "Region" = %s where "Customer no" between %s and %s',
        session.rng.choice(REGIONS),
        first,
        first + session.rng.choice((0, 0, 0, 5)),
    )


def marry(session: ShopSession) -> int:
    """A customer gets another name, which nothing is counted by."""
    return session.run(
        'update "Web Shop"."Customers" set "Name" = %s where "Customer no" = %s',
        f'O\'Neil & "sons" \\ {session.rng.randint(1, 999)}',
        session.rng.randint(1, CUSTOMERS),
    )


def forget(session: ShopSession) -> int:
    """A customer asks to be forgotten; the parcels stay."""
    return session.run(
        'delete from "Web Shop"."Customers" where "Customer no" = %s',
        session.rng.randint(1, CUSTOMERS),
    )


def renumber(session: ShopSession) -> int:
    """A customer gets another number; the parcels keep the old one."""
    number = session.rng.randint(1, CUSTOMERS)
    return session.run(
        'update "Web Shop"."Customers" set "Customer no" = %s where "Customer no" = %s'
        ' and not exists (select from "Web Shop"."Customers" where "Customer no" = %s)',
        number,
        session.rng.randint(1, CUSTOMERS),
        number,
    )


def truncate_parcels(session: ShopSession) -> int:
    """The parcels are emptied, between two of the same transaction."""
    session.run("set local lock_timeout = '2s'")
    send(session)
    session.run('truncate "Web Shop"."Parcels"')
    return send(session)


def truncate_customers(session: ShopSession) -> int:
    """The customers are loaded again from somewhere else, in a transaction with a parcel."""
    session.run("set local lock_timeout = '2s'")
    session.run('truncate "Web Shop"."Customers"')
    send(session)
    return session.run(
        """
        insert into "Web Shop"."Customers"
        select n, 'Customer ' || n, %s from generate_series(1, %s) as n
        """,
        session.rng.choice(REGIONS),
        session.rng.randint(1, CUSTOMERS),
    )
