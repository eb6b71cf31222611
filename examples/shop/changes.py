"""Kinds of change to the shop's orders; each returns how many rows it changed."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from psycopg2.extras import execute_values

from demo.base_session import BaseSession
from demo.clock import awkward_time
from demo.worker import Changes

Key = tuple[int, int]

SHOPS = 5
CHANNELS = ("web", "web", "app", "phone", 'odd "channel", \\ %s', None)
STATUSES = ("draft", "placed", "sent", "returned")


class ShopSession(BaseSession):
    """A session that writes orders; it deletes and inserts by their keys."""

    def new_keys(self, count: int = 1) -> list[Key]:
        """Return keys that no row has."""
        numbers = self.fetch(
            """select nextval('"Web Shop"."Order numbers"') from generate_series(1, %s)""", count
        )
        return [(self.rng.randint(1, SHOPS), number) for number in numbers]

    def some_keys(self, limit: int = 1) -> list[Key]:
        """Return up to `limit` neighbouring keys from a random one on; none if no row follows."""
        shop = self.rng.randint(1, SHOPS)
        [(low, high)] = self.rows(
            'select min("Order no"), max("Order no") from "Web Shop"."Orders" where "Shop id" = %s',
            shop,
        )
        if low is None:
            return []
        found = self.rows(
            'select "Shop id", "Order no" from "Web Shop"."Orders" '
            'where ("Shop id", "Order no") >= (%s, %s) order by 1, 2 limit %s',
            shop,
            self.rng.randint(low, high),
            limit,
        )
        return [(shop, number) for shop, number in found]

    def amount(self) -> Decimal | None:
        """Return a price, a refund, a price of many decimals, zero or none."""
        digits = self.rng.randint(0, 4)
        value = Decimal(self.rng.randint(-90 * 10**digits, 400 * 10**digits)).scaleb(-digits)
        return self.rng.choice((value, value, value, Decimal(0), None))

    def insert(self, keys: Sequence[Key]) -> int:
        """Insert orders in one statement; rows whose key exists already stay as they are."""
        rows = [
            (
                *key,
                self.rng.choice(CHANNELS),
                self.rng.choice(STATUSES),
                awkward_time(self.rng).isoformat() + "Z",
                self.amount(),
            )
            for key in keys
        ]
        execute_values(
            self.cursor,
            'insert into "Web Shop"."Orders" ("Shop id", "Order no", "Channel", "Status", '
            '"placedAt", "Total, gross") values %s on conflict do nothing',
            rows,
            page_size=len(rows),
        )
        return self.cursor.rowcount

    def update(self, assignments: str, keys: Sequence[Key], *values: object) -> int:
        """Update the orders with these keys."""
        return self.run(
            f'update "Web Shop"."Orders" set {assignments} '
            'where ("Shop id", "Order no") in (select * from unnest(%s::integer[], %s::bigint[]))',
            *values,
            [shop for shop, _ in keys],
            [number for _, number in keys],
        )

    def delete(self, keys: Sequence[Key]) -> list[Key]:
        """Delete the orders with these keys and return the keys of those that were there."""
        found = self.rows(
            'delete from "Web Shop"."Orders" '
            'where ("Shop id", "Order no") in (select * from unnest(%s::integer[], %s::bigint[])) '
            'returning "Shop id", "Order no"',
            [shop for shop, _ in keys],
            [number for _, number in keys],
        )
        return [(shop, number) for shop, number in found]


def place_order(session: ShopSession) -> int:
    """An order is placed."""
    return session.insert(session.new_keys())


def import_orders(session: ShopSession) -> int:
    """Many orders come in one statement."""
    return session.insert(session.new_keys(session.rng.randint(2, 40)))


def change_status(session: ShopSession) -> int:
    """Orders move on; a draft begins to count, or stops."""
    chosen = session.some_keys(session.rng.randint(1, 10))
    return session.update('"Status" = %s', chosen, session.rng.choice(STATUSES))


def reprice(session: ShopSession) -> int:
    """Orders get another total, or none."""
    chosen = session.some_keys(session.rng.randint(1, 5))
    return session.update('"Total, gross" = %s', chosen, session.amount())


def discount(session: ShopSession) -> int:
    """Hundreds of totals change in one statement."""
    chosen = session.some_keys(session.rng.randint(100, 300))
    return session.update('"Total, gross" = "Total, gross" * 0.9', chosen)


def move_in_time(session: ShopSession) -> int:
    """Orders move to another day."""
    moment = awkward_time(session.rng).isoformat() + "Z"
    return session.update('"placedAt" = %s', session.some_keys(3), moment)


def change_channel(session: ShopSession) -> int:
    """Somebody finds out how orders came, or that nobody knows."""
    return session.update('"Channel" = %s', session.some_keys(4), session.rng.choice(CHANNELS))


def comment(session: ShopSession) -> int:
    """Text that breaks careless quoting; nothing that is counted changes."""
    text = session.rng.choice(
        ['O\'Neil "said" \\ \\u0041 {"action":"D"} $$ %s', session.rng.randbytes(20_000).hex()]
    )
    return session.update('"Comment" = %s', session.some_keys(3), text)


def change_key(session: ShopSession) -> int:
    """An order moves to another shop and gets another number."""
    [(shop, number)] = session.new_keys()
    return session.update('"Shop id" = %s, "Order no" = %s', session.some_keys(), shop, number)


def delete(session: ShopSession) -> int:
    """Orders are deleted; `reinsert_later` may bring them back."""
    gone = session.delete(session.some_keys(3))
    session.deleting += gone
    return len(gone)


def reinsert_later(session: ShopSession) -> int:
    """The key of an order that an earlier transaction deleted is inserted again."""
    return session.insert([session.deleted.pop()]) if session.deleted else 0


def delete_and_reinsert(session: ShopSession) -> int:
    """Orders are deleted and inserted again, with other values, in one transaction."""
    gone = session.delete(session.some_keys(2))
    return session.insert(gone) if gone else 0


def several_changes_of_one_order(session: ShopSession) -> int:
    """An order is placed, priced twice, moved, and sometimes deleted in one transaction."""
    chosen = session.new_keys()
    session.insert(chosen)
    for _ in range(2):
        session.update('"Total, gross" = %s', chosen, session.amount())
    session.update('"Channel" = %s', chosen, session.rng.choice(CHANNELS))
    if session.rng.random() < 0.4:
        session.delete(chosen)
    return 1


def unrelated(session: ShopSession) -> int:
    """A write to a table that no fact counts."""
    return session.run(
        'update "Web Shop"."Shops" set "Name" = "Name" where "Shop id" = %s',
        session.rng.randint(1, SHOPS),
    )


def truncate(session: ShopSession) -> int:
    """The table is emptied, between two orders of the same transaction."""
    session.run("set local lock_timeout = '2s'")  # the other sessions wait behind it
    session.insert(session.new_keys())
    session.run('truncate "Web Shop"."Orders"')
    return session.insert(session.new_keys())


CHANGES: Changes[ShopSession] = {
    place_order: 10,
    import_orders: 6,
    change_status: 10,
    reprice: 8,
    discount: 1,
    move_in_time: 4,
    change_channel: 4,
    comment: 3,
    change_key: 2,
    delete: 4,
    reinsert_later: 3,
    delete_and_reinsert: 3,
    several_changes_of_one_order: 4,
    unrelated: 2,
}
TRUNCATES: Changes[ShopSession] = {truncate: 1}
