"""What a change of the shop's traffic works with: a session, its keys and its random values."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from psycopg2.extras import execute_values

from testkit.traffic import BaseSession, awkward_time

Key = tuple[int, int]

SHOPS = 5
CUSTOMERS = 500
"""A customer's number is at most this, so that a number is sometimes used again."""
CHANNELS = ("web", "web", "app", "phone", 'odd "channel", \\ %s', None)
STATUSES = ("draft", "placed", "paid", "sent", "returned")
REGIONS = ("north", "south", "east", "west", None)


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

    def customer(self) -> int | None:
        """Return a customer's number, which need not have a row any more; rarely none."""
        return self.rng.randint(1, CUSTOMERS) if self.rng.random() < 0.9 else None

    def price(self) -> Decimal | None:
        """Return a unit price, zero or none."""
        return self.rng.choice((Decimal(self.rng.randint(1, 9999)).scaleb(-2), Decimal(0), None))

    def days(self) -> int | None:
        """Return how long a parcel took, or none."""
        return self.rng.choice((0, 1, 1, 2, 2, 3, 5, self.rng.randint(6, 40), None))

    def some_parcels(self, limit: int = 1) -> list[int]:
        """Return up to `limit` neighbouring numbers of parcels from a random one on."""
        [(low, high)] = self.rows(
            'select min("Parcel no"), max("Parcel no") from "Web Shop"."Parcels"'
        )
        if low is None:
            return []
        return self.fetch(
            'select "Parcel no" from "Web Shop"."Parcels"'
            ' where "Parcel no" >= %s order by 1 limit %s',
            self.rng.randint(low, high),
            limit,
        )

    def insert(self, keys: Sequence[Key]) -> int:
        """Insert orders in one statement; rows whose key exists already stay as they are."""
        rows = [
            (
                *key,
                self.rng.choice(CHANNELS),
                self.rng.choice(STATUSES),
                awkward_time(self.rng).isoformat() + "Z",
                self.rng.randint(0, 12),
                self.price(),
                self.amount(),
            )
            for key in keys
        ]
        execute_values(
            self.cursor,
            'insert into "Web Shop"."Orders" ("Shop id", "Order no", "Channel", "Status", '
            '"placedAt", "Quantity", "Unit price", "Total, gross") values %s '
            "on conflict do nothing",
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
