"""Kinds of change to an office's tables; each returns how many rows it changed."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from psycopg2.extras import execute_values

from testkit.traffic import BaseSession, Changes, awkward_time

_PROJECTS = 600
"""New projects have a number up to this one, so that a number is sometimes used again."""


class OfficeSession(BaseSession):
    """A session that books hours; it deletes and inserts entries by their ids."""

    def some_ids(self, table: str, limit: int = 1) -> list[int]:
        """Return up to `limit` neighbouring ids from a random one on; none if no row follows."""
        [(low, high)] = self.rows(f"select min(id), max(id) from {table}")
        if low is None:
            return []
        return self.fetch(
            f"select id from {table} where id >= %s order by id limit %s",
            self.rng.randint(low, high),
            limit,
        )

    def some_project(self) -> int | None:
        """Return a project; rarely none. The row is locked: another session may not delete it."""
        found = self.some_ids("projects")
        if not found or self.rng.random() < 0.1:
            return None
        kept = self.fetch("select id from projects where id = any(%s) for key share", found)
        return kept[0] if kept else None

    def hours(self) -> Decimal | None:
        """Return a duration, a correction, zero, or none while the clock runs."""
        digits = self.rng.randint(0, 3)
        value = Decimal(self.rng.randint(-2 * 10**digits, 9 * 10**digits)).scaleb(-digits)
        return self.rng.choice((value, value, value, Decimal(0), None))

    def insert(self, count: int = 1, ids: Sequence[int] = ()) -> int:
        """Book entries in one statement, with these ids or new ones; an id that exists stays."""
        project = self.some_project()
        rows = [
            (
                row_id,
                project,
                f"person {self.rng.randint(1, 50)}",
                awkward_time(self.rng),
                self.hours(),
            )
            for row_id in ids
            or self.fetch(
                "select nextval(pg_get_serial_sequence('time_entries', 'id'))"
                " from generate_series(1, %s)",
                count,
            )
        ]
        execute_values(
            self.cursor,
            "insert into time_entries (id, project_id, person, started_at, hours) values %s"
            " on conflict do nothing",
            rows,
            page_size=len(rows),
        )
        return self.cursor.rowcount


def book(session: OfficeSession) -> int:
    """Somebody books hours."""
    return session.insert()


def book_a_week(session: OfficeSession) -> int:
    """Many entries come in one statement."""
    return session.insert(session.rng.randint(2, 40))


def stop_the_clock(session: OfficeSession) -> int:
    """Entries get other hours, or none."""
    return session.run(
        "update time_entries set hours = %s where id = any(%s)",
        session.hours(),
        session.some_ids("time_entries", session.rng.randint(1, 10)),
    )


def round_hours(session: OfficeSession) -> int:
    """Hundreds of entries change in one statement."""
    return session.run(
        "update time_entries set hours = round(hours * 4) / 4 where id = any(%s)",
        session.some_ids("time_entries", session.rng.randint(100, 300)),
    )


def rebook(session: OfficeSession) -> int:
    """Entries move to another project, or to none."""
    project = session.some_project()
    return session.run(
        "update time_entries set project_id = %s where id = any(%s)",
        project,
        session.some_ids("time_entries", 4),
    )


def move_in_time(session: OfficeSession) -> int:
    """Entries move to another time, near the turn of a month or a change of clock."""
    return session.run(
        "update time_entries set started_at = %s where id = any(%s)",
        awkward_time(session.rng),
        session.some_ids("time_entries", 3),
    )


def rename_person(session: OfficeSession) -> int:
    """Nothing that is counted changes."""
    return session.run(
        "update time_entries set person = %s where id = any(%s)",
        'O\'Neil "said" \\ \\u0041 $$ %s',
        session.some_ids("time_entries", 5),
    )


def new_id(session: OfficeSession) -> int:
    """An entry gets another id."""
    return session.run(
        "update time_entries set id = nextval(pg_get_serial_sequence('time_entries', 'id'))"
        " where id = any(%s)",
        session.some_ids("time_entries"),
    )


def delete(session: OfficeSession) -> int:
    """Entries are deleted; `reinsert_later` may bring them back."""
    gone = session.fetch(
        "delete from time_entries where id = any(%s) returning id",
        session.some_ids("time_entries", 3),
    )
    session.deleting += gone
    return len(gone)


def reinsert_later(session: OfficeSession) -> int:
    """The id of an entry that an earlier transaction deleted is inserted again."""
    return session.insert(ids=[session.deleted.pop()]) if session.deleted else 0


def delete_and_reinsert(session: OfficeSession) -> int:
    """Entries are deleted and inserted again, with other values, in one transaction."""
    gone = session.fetch(
        "delete from time_entries where id = any(%s) returning id",
        session.some_ids("time_entries", 2),
    )
    return session.insert(ids=gone) if gone else 0


def open_project(session: OfficeSession) -> int:
    """A project begins, some with a brief that is stored out of line."""
    brief = session.rng.choice((None, "short", session.rng.randbytes(10_000).hex()))
    return session.run(
        "insert into projects (id, name, budget, brief) values (%s, %s, %s, %s)"
        " on conflict do nothing",
        session.rng.randint(1, _PROJECTS),
        f"Project {session.rng.randint(1, 999)}",
        session.hours(),
        brief,
    )


def change_project(session: OfficeSession) -> int:
    """A project changes; its brief stays where it is, out of line."""
    assignment, value = session.rng.choice(
        (
            ("budget = %s", session.hours()),
            ("is_open = %s", session.rng.random() < 0.5),
            ("name = %s", f'O\'Neil & "sons" \\ {session.rng.randint(1, 999)}'),
            ("brief = %s", session.rng.randbytes(8_000).hex()),
            ("brief = %s", None),
        )
    )
    return session.run(
        f"update projects set {assignment} where id = any(%s)",
        value,
        session.some_ids("projects", 2),
    )


def renumber_project(session: OfficeSession) -> int:
    """A project gets another number, and its entries follow."""
    number = session.rng.randint(1, _PROJECTS)
    return session.run(
        "update projects set id = %s where id = any(%s)"
        " and not exists (select from projects as other where other.id = %s)",
        number,
        session.some_ids("projects"),
        number,
    )


def swap_projects(session: OfficeSession) -> int:
    """Two projects exchange their numbers, by way of a third."""
    found = session.fetch(
        "select id from projects where id = any(%s) order by id for update",
        session.some_ids("projects", 2),
    )
    if len(found) < 2:
        return 0
    first, second = found
    spare = -session.rng.randint(1, 10**12)
    return sum(
        session.run("update projects set id = %s where id = %s", after, before)
        for before, after in ((first, spare), (second, first), (spare, second))
    )


def close_project(session: OfficeSession) -> int:
    """A project is deleted; its entries belong to none."""
    return session.run("delete from projects where id = any(%s)", session.some_ids("projects"))


def truncate_entries(session: OfficeSession) -> int:
    """The entries are emptied, between two of the same transaction."""
    session.run("set local lock_timeout = '2s'")  # the other sessions wait behind it
    session.insert()
    session.run("truncate time_entries")
    return session.insert()


def truncate_both(session: OfficeSession) -> int:
    """Both tables are emptied in one statement."""
    session.run("set local lock_timeout = '2s'")
    session.run("truncate projects, time_entries")
    return open_project(session) + session.insert()


CHANGES: Changes[OfficeSession] = {
    book: 10,
    book_a_week: 6,
    stop_the_clock: 8,
    round_hours: 1,
    rebook: 5,
    move_in_time: 4,
    rename_person: 3,
    new_id: 2,
    delete: 4,
    reinsert_later: 3,
    delete_and_reinsert: 3,
    open_project: 5,
    change_project: 8,
    renumber_project: 1,
    swap_projects: 1,
    close_project: 1,
}
TRUNCATES: Changes[OfficeSession] = {truncate_entries: 1, truncate_both: 1}
