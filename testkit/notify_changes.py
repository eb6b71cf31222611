"""The kinds of change to Notify's tables; each returns how many rows it changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID, uuid4

from psycopg2.extras import execute_values

from testkit.source import TABLES, Identity, transaction
from testkit.traffic import BaseSession, awkward_time

STATUSES = (
    "created",
    "sending",
    "pending",
    "sent",
    "delivered",
    "temporary-failure",
    "permanent-failure",
    "technical-failure",
)

KEY_TYPES = ("normal", "normal", "normal", "team", "test")
"""The kinds of key that notifications are sent with; a test key's are no real ones."""

NEXT_STATUS: dict[str | None, tuple[str, ...]] = {
    "created": ("sending", "sending", "technical-failure"),
    "sending": ("delivered", "delivered", "pending", "sent", "permanent-failure"),
    "pending": ("delivered", "temporary-failure"),
    "temporary-failure": ("sending",),
}
"""Notify's life cycle; a status that is not a key here is final."""


LIVE, HISTORY = TABLES


class Template(NamedTuple):
    """A template with what its notifications take from it."""

    template_id: str
    service_id: str
    notification_type: str


def templates_of(dsn: str) -> list[Template]:
    """Read all templates in a stable order."""
    with transaction(dsn) as cursor:
        cursor.execute(
            "select id::text, service_id::text, template_type::text from templates order by id"
        )
        return [Template(*row) for row in cursor]


@dataclass
class Session(BaseSession):
    """A session that writes notifications; it deletes and inserts by their ids."""

    templates: Sequence[Template]
    identity: Identity

    def new_id(self) -> str:
        """Return an id that no row has, even where the same seed has run before."""
        return str(uuid4())

    def some_ids(self, table: str, limit: int = 1, where: str = "true") -> list[str]:
        """Return up to `limit` neighbouring ids from a random one on; none if no row follows."""
        place = str(UUID(int=self.rng.getrandbits(128)))
        return self.fetch(
            # Qualified: a bare id would be the output's text, for which there is no index.
            f"select id::text from {table} where id >= %s and {where} order by {table}.id limit %s",
            place,
            limit,
        )

    def dimensions(self) -> tuple[str | None, str | None, str]:
        """Return a service, a template and a type; under 'full' one is rarely null."""
        template = self.rng.choice(self.templates)
        kind = template.notification_type
        if self.identity == "full" and self.rng.random() < 0.05:
            return self.rng.choice(
                [(None, template.template_id, kind), (template.service_id, None, kind)]
            )
        return template.service_id, template.template_id, kind

    def insert(self, ids: Sequence[str], status: str = "created", odd: str | None = None) -> int:
        """Insert notifications in one statement; rows whose id exists already stay as they are.

        Returns how many were inserted.
        """
        rows = [
            (
                row_id,
                f"{row_id[:8]}@example.gov.uk",
                *self.dimensions(),
                status,
                self.rng.choice(KEY_TYPES),
                odd,
            )
            for row_id in ids
        ]
        execute_values(
            self.cursor,
            'insert into notifications (id, "to", service_id, template_id, notification_type, '
            "notification_status, key_type, personalisation) values %s on conflict do nothing",
            rows,
            page_size=len(rows),
        )
        return self.cursor.rowcount


_SET_STATUS = (
    "update notifications set notification_status = %s, updated_at = now() "
    "where id = any(%s::uuid[])"
)
_CHANGE_DIMENSIONS = (
    "update {} set service_id = %s, template_id = %s, notification_type = %s "
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


def change_dimensions(session: Session, table: str = LIVE) -> int:
    """Rows change service, template and type."""
    chosen = session.some_ids(table, session.rng.randint(1, 5))
    return session.run(_CHANGE_DIMENSIONS.format(table), *session.dimensions(), chosen)


def null_dimension(session: Session) -> int:
    """A dimension becomes null, or a null gets a value again; only under identity 'full'."""
    lacking = "service_id is null or template_id is null or notification_status is null"
    if session.rng.random() < 0.5:
        found = session.some_ids("notifications", 3, where=f"({lacking})")
        session.run(_SET_STATUS, "created", found)
        return session.run(_CHANGE_DIMENSIONS.format(LIVE), *session.dimensions(), found)
    return _lose_dimension(session, LIVE)


def _lose_dimension(session: Session, table: str) -> int:
    lost = session.rng.choice(["service_id", "template_id", "notification_status"])
    query = f"update {table} set {lost} = null where id = any(%s::uuid[])"
    return session.run(query, session.some_ids(table, 2))


def move_in_time(session: Session, table: str = LIVE) -> int:
    """Rows get another time of creation and another kind of key."""
    return session.run(
        f"update {table} set created_at = %s, key_type = %s where id = any(%s::uuid[])",
        awkward_time(session.rng),
        session.rng.choice(KEY_TYPES),
        session.some_ids(table, session.rng.randint(1, 5)),
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
        f"service {session.rng.randint(1, 400)}",
        session.rng.choice(session.templates).service_id,
    )


def several_changes_of_one_row(session: Session) -> int:
    """A row is inserted, updated, and sometimes deleted or inserted again in one transaction."""
    chosen = [session.new_id()]
    session.insert(chosen)
    for status in ("sending", "pending", "delivered")[: session.rng.randint(1, 3)]:
        session.run(_SET_STATUS, status, chosen)
    session.run(_CHANGE_DIMENSIONS.format(LIVE), *session.dimensions(), chosen)
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
    return change_dimensions(session, HISTORY)


def history_move_in_time(session: Session) -> int:
    """Archived rows get another time of creation and another kind of key."""
    return move_in_time(session, HISTORY)


def history_null_dimension(session: Session) -> int:
    """A dimension of an archived row becomes null; only under identity 'full'."""
    return _lose_dimension(session, HISTORY)


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
