"""Kinds of change to the shop's orders, and the mix; each returns how many rows it changed."""

from __future__ import annotations

from examples.shop import parcel_changes as parcels
from examples.shop.session import CHANNELS, SHOPS, STATUSES, ShopSession
from testkit.traffic import Changes, awkward_time


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
    """Orders get another total, or none; or another quantity and price."""
    chosen = session.some_keys(session.rng.randint(1, 5))
    if session.rng.random() < 0.5:
        return session.update('"Total, gross" = %s', chosen, session.amount())
    quantity = session.rng.randint(0, 12)
    return session.update('"Quantity" = %s, "Unit price" = %s', chosen, quantity, session.price())


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
    """A write to a table that no model counts."""
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
    parcels.send: 8,
    parcels.deliver: 8,
    parcels.redirect: 3,
    parcels.lose: 3,
    parcels.register: 6,
    parcels.move_house: 6,
    parcels.marry: 2,
    parcels.forget: 3,
    parcels.renumber: 1,
    unrelated: 2,
}
TRUNCATES: Changes[ShopSession] = {
    truncate: 1,
    parcels.truncate_parcels: 1,
    parcels.truncate_customers: 1,
}
