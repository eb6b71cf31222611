"""The kinds of change to Notify's tables; each returns how many rows it changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

from testkit.source import TABLES, Identity, transaction
from testkit.traffic import BaseSession, awkward_time

KEY_TYPES = ("normal", "normal", "normal", "team", "test")
"""The kinds of key that notifications are sent with; a test key's are no real ones."""

NEXT_STATUS = {
    "created": ("sending", "sending", "technical-failure"),
    "sending": ("delivered", "delivered", "pending", "sent", "permanent-failure"),
    "pending": ("delivered", "temporary-failure"),
    "temporary-failure": ("sending",),
}
"""Notify's life cycle; a status that is not a key here is final."""

STATUSES = (*NEXT_STATUS, "sent", "delivered", "permanent-failure", "technical-failure")

LIVE, HISTORY = TABLES


def templates_of(dsn: str) -> list[tuple[str, str, str]]:
    """Read id, service and type of all templates in a stable order."""
    with transaction(dsn) as cursor:
        cursor.execute(
            "select id::text, service_id::text, template_type::text from templates order by id"
        )
        return cursor.fetchall()


@dataclass
class Session(BaseSession):
    """A session that writes notifications; it deletes and inserts by their ids."""

    templates: Sequence[tuple[str, str, str]]
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
        template, service, kind = self.rng.choice(self.templates)
        if self.identity == "full" and self.rng.random() < 0.05:
            return self.rng.choice([(None, template, kind), (service, None, kind)])
        return service, template, kind

    def status(self) -> str | None:
        """Return any status; under 'full' rarely none."""
        is_null = self.identity == "full" and self.rng.random() < 0.05
        return None if is_null else self.rng.choice(STATUSES)

    def insert(self, ids: Sequence[str], status: str = "created") -> int:
        """Insert notifications of a template; rows whose id exists already stay as they are.

        Returns how many were inserted.
        """
        return self.run(
            'insert into notifications (id, "to", service_id, template_id, notification_type, '
            "notification_status, key_type) select id, 'a@example.org', %s::uuid, %s::uuid, "
            "%s::notification_type, %s, %s from unnest(%s::uuid[]) as id on conflict do nothing",
            *(*self.dimensions(), status, self.rng.choice(KEY_TYPES), ids),
        )

    def change(self, table: str, assignments: str, ids: Sequence[str], *values: object) -> int:
        """Update the rows with these ids."""
        return self.run(
            f"update {table} set {assignments} where id = any(%s::uuid[])", *values, ids
        )

    def set_status(self, ids: Sequence[str], status: str | None, table: str = LIVE) -> int:
        """Give these rows a status."""
        return self.change(table, "notification_status = %s, updated_at = now()", ids, status)

    def set_dimensions(self, ids: Sequence[str], table: str = LIVE) -> int:
        """Give these rows another service, template and type."""
        columns = "service_id = %s, template_id = %s, notification_type = %s"
        return self.change(table, columns, ids, *self.dimensions())

    def delete(self, ids: Sequence[str]) -> list[str]:
        """Delete live rows; return the ids of those that were there."""
        return self.fetch(
            "delete from notifications where id = any(%s::uuid[]) returning id::text", ids
        )


def create(session: Session) -> int:
    """A notification is created; or a job creates many in one statement."""
    count = session.rng.choice((1, 1, session.rng.randint(2, 60)))
    return session.insert([session.new_id() for _ in range(count)])


def status_move(session: Session) -> int:
    """One notification gets the next status of its life cycle; or many, live or archived, get any.

    A late callback reports the final status of a letter.
    """
    if session.rng.random() < 0.2:
        table = session.rng.choice(TABLES)
        chosen = session.some_ids(table, session.rng.choice((20, 400)))
        return session.set_status(chosen, session.status(), table)
    status = session.rng.choice(list(NEXT_STATUS))
    found = session.some_ids(LIVE, where=f"notification_status = '{status}'")
    return session.set_status(found, session.rng.choice(NEXT_STATUS[status]))


def change_dimensions(session: Session) -> int:
    """Rows of both tables change service, template and type."""
    size = session.rng.randint(1, 5)
    return sum(session.set_dimensions(session.some_ids(table, size), table) for table in TABLES)


def move_in_time(session: Session) -> int:
    """Rows of both tables get another time of creation and another kind of key."""
    moved = (awkward_time(session.rng), session.rng.choice(KEY_TYPES))
    return sum(
        session.change(table, "created_at = %s, key_type = %s", session.some_ids(table, 3), *moved)
        for table in TABLES
    )


def uninteresting_update(session: Session) -> int:
    """Rows are updated and keep all their dimensions."""
    chosen = session.some_ids(LIVE, session.rng.randint(1, 30))
    kept = "reference = %s, notification_status = notification_status"
    return session.change(LIVE, kept, chosen, session.new_id())


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
    chosen = [session.new_id(), *session.some_ids(LIVE)]
    session.insert(chosen[:1])
    touched = session.change(LIVE, "personalisation = %s, reference = %s", chosen, text, text[:40])
    return touched + session.set_status(chosen[:1], "sending")


def several_changes_of_one_row(session: Session) -> int:
    """A row is inserted, updated, and sometimes deleted or inserted again in one transaction."""
    chosen = [session.new_id()]
    session.insert(chosen)
    for status in ("sending", "pending", "delivered")[: session.rng.randint(1, 3)]:
        session.set_status(chosen, status)
    session.set_dimensions(chosen)
    if session.rng.random() < 0.4:
        session.delete(chosen)
        if session.rng.random() < 0.5:
            session.insert(chosen, "sent")
    return 1


def new_key(session: Session) -> int:
    """A row gets another id."""
    return session.change(LIVE, "id = %s", session.some_ids(LIVE), session.new_id())


def delete(session: Session) -> int:
    """Rows are deleted; `reinsert_later` may bring them back."""
    gone = session.delete(session.some_ids(LIVE, 3))
    session.deleting += gone
    return len(gone)


def reinsert_later(session: Session) -> int:
    """Ids that an earlier transaction deleted are inserted again."""
    return session.insert([session.deleted.pop()]) if session.deleted else 0


def delete_and_reinsert(session: Session) -> int:
    """Rows are deleted and inserted again, with other dimensions, in one transaction."""
    gone = session.delete(session.some_ids(LIVE, 2))
    return session.insert(gone, session.rng.choice(STATUSES)) if gone else 0


_COPIED = (
    "id, service_id, template_id, template_version, job_id, key_type, billable_units, "
    "notification_type, notification_status, created_at, sent_at, updated_at, reference, "
    "international"
)
_COPY = f"insert into {HISTORY} ({_COPIED}) select {_COPIED} from {{}} on conflict do nothing"
_PURGED = "service_id, template_id, notification_type, notification_status, key_type, created_at"
_PURGE = f"""
with gone as (delete from notification_history where id = any(%s::uuid[]) returning {_PURGED})
insert into truth.purged ({_PURGED}) select * from gone
"""


def archive(session: Session) -> int:
    """Notify's move to history: copy aside, insert what is not there yet, delete.

    Statuses may change between the steps: then history keeps the older one.
    """
    chosen = session.some_ids(LIVE, session.rng.randint(1, 80), "key_type <> 'test'")
    session.run(
        "create temporary table aside on commit drop as "
        f"select {_COPIED} from notifications where id = any(%s::uuid[])",
        chosen,
    )
    session.run(_COPY.format("aside"))
    if session.rng.random() < 0.2:
        session.set_status(chosen, session.status())
    moved = session.run("delete from notifications where id in (select id from aside)")
    session.run("drop table aside")
    return moved


def history_purge(session: Session) -> int:
    """Rows are deleted because they are old; they stay counted as archived."""
    return session.run(_PURGE, session.some_ids(HISTORY, session.rng.randint(1, 40)))


def purge_and_archive_again(session: Session) -> int:
    """A notification is archived, purged and archived again in one transaction: counted twice."""
    found = session.some_ids(LIVE)
    copy = _COPY.format(f"{LIVE} where id = any(%s::uuid[])")
    session.run(copy, found)
    session.run(_PURGE, found)
    return session.run(copy, found)


def truncate(session: Session) -> int:
    """One table or both are emptied, between two rows; the archive with the record of purges."""
    tables = session.rng.choice((LIVE, HISTORY, f"{LIVE}, {HISTORY}"))
    session.run("set local lock_timeout = '2s'")  # the other sessions wait behind it
    session.insert([session.new_id()])
    session.run(f"truncate {tables}")
    if HISTORY in tables:
        # After the lock on the table that every purge writes first: no purge is open now.
        session.run("truncate truth.purged")
        archive(session)
    return session.insert([session.new_id()])
