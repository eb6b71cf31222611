"""Kinds of change to `notifications`; each returns how many rows it changed."""

from __future__ import annotations

from demo.clock import awkward_time
from demo.session import KEY_TYPES, NEXT_STATUS, STATUSES, Session

_SET_STATUS = (
    "update notifications set notification_status = %s, updated_at = now() "
    "where id = any(%s::uuid[])"
)
_CHANGE_DIMENSIONS = (
    "update notifications set service_id = %s, template_id = %s, notification_type = %s "
    "where id = any(%s::uuid[])"
)
_DELETE = "delete from notifications where id = any(%s::uuid[])"


def insert_one(session: Session) -> int:
    """A notification is created."""
    return session.insert([session.new_id()])


def insert_many(session: Session) -> int:
    """A job creates many in one statement."""
    return session.insert([session.new_id() for _ in range(session.rng.randint(2, 60))])


def status_move(session: Session) -> int:
    """One notification gets the next status of its life cycle."""
    found = session.some_ids(
        "notifications",
        where="notification_status in ('created', 'sending', 'pending', 'temporary-failure')",
    )
    if not found:
        return 0
    [status] = session.fetch(
        "select notification_status from notifications where id = %s", found[0]
    ) or ["created"]
    following = session.rng.choice(NEXT_STATUS.get(status, ("delivered",)))
    return session.run(_SET_STATUS, following, found)


def bulk_update(session: Session) -> int:
    """Hundreds of rows, of any status, get one status in one statement."""
    chosen = session.some_ids("notifications", session.rng.randint(100, 400))
    return session.run(_SET_STATUS, session.rng.choice(STATUSES), chosen)


def change_dimensions(session: Session) -> int:
    """Rows change service, template and type."""
    chosen = session.some_ids("notifications", session.rng.randint(1, 5))
    return session.run(_CHANGE_DIMENSIONS, *session.dimensions(), chosen)


def null_dimension(session: Session) -> int:
    """A dimension becomes null, or a null gets a value again; only under identity 'full'."""
    lacking = "service_id is null or template_id is null or notification_status is null"
    if session.rng.random() < 0.5:
        found = session.some_ids("notifications", 3, where=f"({lacking})")
        session.run(_SET_STATUS, "created", found)
        return session.run(_CHANGE_DIMENSIONS, *session.dimensions(), found)
    lost = session.rng.choice(["service_id", "template_id", "notification_status"])
    return session.run(
        f"update notifications set {lost} = null where id = any(%s::uuid[])",
        session.some_ids("notifications", 2),
    )


def move_in_time(session: Session) -> int:
    """Rows get another time of creation and another kind of key."""
    return session.run(
        "update notifications set created_at = %s, key_type = %s where id = any(%s::uuid[])",
        awkward_time(session.rng),
        session.rng.choice(KEY_TYPES),
        session.some_ids("notifications", session.rng.randint(1, 5)),
    )


def uninteresting_update(session: Session) -> int:
    """Rows are updated and keep all their dimensions."""
    return session.run(
        "update notifications set reference = %s, notification_status = notification_status "
        "where id = any(%s::uuid[])",
        session.new_id(),
        session.some_ids("notifications", session.rng.randint(1, 30)),
    )


def odd_text(session: Session) -> int:
    """Text that breaks careless quoting, and values too large to be logged again when unchanged."""
    text = session.rng.choice(
        [
            'O\'Neil "said" \\ \\\\ \\u0041 {"action":"D"} $$ %s',
            "\x01\x08\t\n\r\f\x1b\x7f\u2028",
            "soft\u00adhyphen \U0001f469\u200d\U0001f467 \u1e3c\u01a1 \U0010ffff",
            session.rng.randbytes(50_000).hex(),
        ]
    )
    fresh = session.new_id()
    found = session.some_ids("notifications")
    touched = session.insert([fresh], odd=text)
    session.run(_SET_STATUS, "sending", [fresh])
    return touched + session.run(
        "update notifications set personalisation = %s, reference = %s where id = any(%s::uuid[])",
        text,
        text[:40],
        found,
    )


def rename_service(session: Session) -> int:
    """A service gets another name, sometimes that of another service."""
    return session.run(
        "update services set name = %s where id = %s",
        f"service {session.rng.randint(1, 60)}",
        session.rng.choice(session.templates).service_id,
    )


def several_changes_of_one_row(session: Session) -> int:
    """A row is inserted, updated, and sometimes deleted or inserted again in one transaction."""
    chosen = [session.new_id()]
    session.insert(chosen)
    for status in ("sending", "pending", "delivered")[: session.rng.randint(1, 3)]:
        session.run(_SET_STATUS, status, chosen)
    session.run(_CHANGE_DIMENSIONS, *session.dimensions(), chosen)
    if session.rng.random() < 0.4:
        session.run(_DELETE, chosen)
        if session.rng.random() < 0.5:
            session.insert(chosen, "sent")
    return 1


def new_key(session: Session) -> int:
    """A row gets another id."""
    return session.run(
        "update notifications set id = %s where id = any(%s::uuid[])",
        session.new_id(),
        session.some_ids("notifications"),
    )


def test_key_delete(session: Session) -> int:
    """Rows sent with a test key are deleted and never archived."""
    chosen = session.some_ids("notifications", 10, where="key_type = 'test'")
    return session.run(_DELETE, chosen)


def delete(session: Session) -> int:
    """Rows are deleted; `reinsert_later` may bring them back."""
    gone = session.fetch(f"{_DELETE} returning id::text", session.some_ids("notifications", 3))
    session.deleting += gone
    return len(gone)


def reinsert_later(session: Session) -> int:
    """Ids that an earlier transaction deleted are inserted again."""
    return session.insert([session.deleted.pop()]) if session.deleted else 0


def delete_and_reinsert(session: Session) -> int:
    """Rows are deleted and inserted again, with other dimensions, in one transaction."""
    gone = session.fetch(f"{_DELETE} returning id::text", session.some_ids("notifications", 2))
    return session.insert(gone, session.rng.choice(STATUSES)) if gone else 0


def truncate_live(session: Session) -> int:
    """The table is emptied, between two rows of the same transaction."""
    session.run("set local lock_timeout = '2s'")  # the other sessions wait behind it
    session.insert([session.new_id()])
    session.run("truncate notifications")
    return session.insert([session.new_id()])
