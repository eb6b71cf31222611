"""Kinds of change to `notification_history`; each returns how many rows it changed.

The statement that deletes rows also writes them to `truth.purged`: so each row is recorded once, by
the session that deleted it, as it was then.
"""

from __future__ import annotations

from demo.clock import awkward_time
from demo.session import STATUSES, Session

_COPIED = (
    "id, service_id, template_id, template_version, job_id, key_type, billable_units, "
    "notification_type, notification_status, created_at, sent_at, updated_at, reference, "
    "international"
)
_PURGE = """
with gone as (
    delete from notification_history where id = any(%s::uuid[])
    returning
        service_id, template_id, notification_type, notification_status, key_type, created_at
)
insert into truth.purged (
    service_id, template_id, notification_type, notification_status, key_type, created_at
)
select * from gone
"""


def archive(session: Session) -> int:
    """Notify's move to history: copy aside, insert what is not there yet, delete.

    Statuses may change between the steps: then history keeps the older one.
    """
    chosen = session.some_ids("notifications", session.rng.randint(1, 80), "key_type <> 'test'")
    session.run(
        "create temporary table notification_archive on commit drop as "
        f"select {_COPIED} from notifications where id = any(%s::uuid[])",
        chosen,
    )
    session.run(
        f"insert into notification_history ({_COPIED}) select {_COPIED} from notification_archive "
        "on conflict do nothing"
    )
    if session.rng.random() < 0.2:
        session.run(
            "update notifications set notification_status = %s where id = any(%s::uuid[])",
            session.rng.choice(STATUSES),
            chosen,
        )
    moved = session.run(
        "delete from notifications where id in (select id from notification_archive)"
    )
    session.run("drop table notification_archive")
    return moved


def history_update(session: Session) -> int:
    """A late callback reports the final status of a letter."""
    return session.run(
        "update notification_history set notification_status = %s, updated_at = now() "
        "where id = any(%s::uuid[])",
        session.rng.choice(STATUSES),
        session.some_ids("notification_history", session.rng.randint(1, 20)),
    )


def history_change_dimensions(session: Session) -> int:
    """Archived rows change service, template and type."""
    return session.run(
        "update notification_history set service_id = %s, template_id = %s, notification_type = %s "
        "where id = any(%s::uuid[])",
        *session.dimensions(),
        session.some_ids("notification_history", 3),
    )


def history_move_in_time(session: Session) -> int:
    """Archived rows get another time of creation and another kind of key."""
    return session.run(
        "update notification_history set created_at = %s, key_type = %s where id = any(%s::uuid[])",
        awkward_time(session.rng),
        session.rng.choice(["normal", "team", "test"]),
        session.some_ids("notification_history", 3),
    )


def history_null_dimension(session: Session) -> int:
    """A dimension of an archived row becomes null; only under identity 'full'."""
    lost = session.rng.choice(["service_id", "template_id", "notification_status"])
    return session.run(
        f"update notification_history set {lost} = null where id = any(%s::uuid[])",
        session.some_ids("notification_history"),
    )


def history_purge(session: Session) -> int:
    """Rows are deleted because they are old; they stay counted as archived."""
    chosen = session.some_ids("notification_history", session.rng.randint(1, 40))
    return session.run(_PURGE, chosen)


def purge_and_archive_again(session: Session) -> int:
    """A notification is archived, purged and archived again in one transaction: counted twice."""
    found = session.some_ids("notifications")
    copy = (
        f"insert into notification_history ({_COPIED}) select {_COPIED} from notifications "
        "where id = any(%s::uuid[]) on conflict do nothing"
    )
    session.run(copy, found)
    session.run(_PURGE, found)
    return session.run(copy, found)


def truncate_history(session: Session) -> int:
    """The archive is emptied, and so is the record of what was purged from it."""
    session.run("set local lock_timeout = '2s'")  # the other sessions wait behind it
    session.run("truncate notification_history")
    # After the lock on the table that every purge writes first: no purge is open now.
    session.run("truncate truth.purged")
    return archive(session)


def truncate_both(session: Session) -> int:
    """Both tables are emptied in one statement."""
    session.run("set local lock_timeout = '2s'")
    session.run("truncate notifications, notification_history")
    session.run("truncate truth.purged")
    return session.insert([session.new_id()])
