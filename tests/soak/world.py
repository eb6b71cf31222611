"""What a soak counts besides Notify's fact, some of it in a table whose names are hostile."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

from demo import comparison
from demo.comparison import Difference, Recount
from demo.session import Session
from tests.support.hostile_names import NAMES
from tests.support.project import host_project
from waltally.tables import literal, quoted

NOTIFY, KINDS, ODD, ODD_ROWS = "ft_service_stats", "ft_kinds", "ft_odd", "odd_rows"
MODELS = (NOTIFY, KINDS, ODD, ODD_ROWS)

_KINDS = """
{{ waltally.fact(
    tables={'live': 'public.notifications'},
    dimensions={'notification_type': 'text', 'notification_status': 'text'},
    measures={'row_count': {'count': 'live'}},
) }}
"""
_IDS = 300
"""Few, so that one row changes often."""


class OddTable:
    """A table whose schema, name and columns would be code somewhere, and its changes."""

    def __init__(self, seed: int) -> None:
        names = Random(f"{seed} names").sample(NAMES, 7)
        self.schema, self.name, *texts, self.amount, self.total = (
            # PostgreSQL cuts a name off after 63 bytes.
            name.encode()[:63].decode(errors="ignore")
            for name in names
        )
        self.texts = tuple(texts)
        self.table = f"{quoted(self.schema)}.{quoted(self.name)}"
        self.columns = ("id", *self.texts, self.amount)

    @property
    def logged_name(self) -> str:
        """The table as an option of wal2json has it: what ends a name there escaped."""
        parts = (
            re.sub(r"([\s'\\,.*])", r"\\\1", part, flags=re.ASCII)
            for part in (self.schema, self.name)
        )
        return ".".join(parts)

    def create(self, role: str) -> str:
        """Return the statements that make the table and let a role read it."""
        texts = ", ".join(f"{quoted(text)} text" for text in self.texts)
        return (
            f"create schema {quoted(self.schema)};"
            f"create table {self.table} (id bigint primary key, {texts},"
            f" {quoted(self.amount)} bigint not null);"
            f"alter table {self.table} replica identity full;"
            f"grant usage on schema {quoted(self.schema)} to {role};"
            f"grant select on {self.table} to {role};"
        )

    def insert(self) -> str:
        """Return the statement that adds three rows without values from outside."""
        texts = ", ".join(literal(NAMES[place]) for place, _ in enumerate(self.texts))
        return (
            f"insert into {self.table} select (select least(min(id), 0) from {self.table}) - n,"
            f" {texts}, n from generate_series(1, 3) as n"
        )

    def models(self) -> dict[str, str]:
        """Return the text of each model of it, by name."""
        place = repr(f"{quoted(self.schema)}.{quoted(self.name)}")
        texts = dict.fromkeys(self.texts, "text")
        dimensions = {text: {"type": "text", "nulls": "count"} for text in self.texts}
        measures = {"row_count": {"count": "odd"}, self.total: {"sum": self.amount}}
        columns = {"id": "bigint", **texts, self.amount: "bigint"}
        return {
            ODD: f"{{{{ waltally.fact(tables={{'odd': {place}}}, dimensions={dimensions!r},"
            f" measures={measures!r}) }}}}",
            ODD_ROWS: f"{{{{ waltally.current_rows(table={place}, key=['id'],"
            f" columns={columns!r}) }}}}",
        }

    def recounts(self) -> tuple[Recount, ...]:
        """Return what its models must hold."""
        texts, amount = ", ".join(map(quoted, self.texts)), quoted(self.amount)
        groups = f"select {texts}, count(*), sum({amount}) from {self.table} group by {texts}"
        rows = f"select id, {texts}, {amount} from {self.table}"
        return (
            Recount(ODD, self.texts, ("row_count", self.total), _escaped(groups)),
            Recount(ODD_ROWS, ("id",), self.columns[1:], _escaped(rows), is_rows=True),
        )

    # Kinds of change, as those of demo/live_changes.py.

    def odd_insert(self, session: Session) -> int:
        """Rows come, with values that would be code too."""
        return sum(
            session.run(
                f"insert into {_escaped(self.table)} values (%s, %s, %s, %s, %s)"
                " on conflict do nothing",
                session.rng.randint(1, _IDS),
                *self._values(session),
                session.rng.randint(-5, 100),
            )
            for _ in range(session.rng.randint(1, 8))
        )

    def odd_update(self, session: Session) -> int:
        """Rows get another value, another amount or another key."""
        chosen = session.rng.choice(self.columns[1:])
        is_text = chosen in self.texts
        value = self._values(session)[0] if is_text else session.rng.randint(0, 9)
        done = session.run(
            f"update {_escaped(self.table)} set {_escaped(quoted(chosen))} = %s"
            " where id between %s and %s",
            value,
            *self._some(session),
        )
        if session.rng.random() < 0.2:
            first, _ = self._some(session)
            done += session.run(
                f"update {_escaped(self.table)} set id = id + %s where id = %s", _IDS, first
            )
        return done

    def odd_delete(self, session: Session) -> int:
        """Rows go."""
        first, last = self._some(session)
        return session.run(
            f"delete from {_escaped(self.table)} where id between %s and %s or id > %s",
            first,
            last,
            _IDS + 100,
        )

    def odd_truncate(self, session: Session) -> int:
        """All rows go at once."""
        return session.run(f"truncate {self.table}")

    def _values(self, session: Session) -> list[str | None]:
        return [session.rng.choice((*NAMES[:4], "plain", "", None)) for _ in self.texts]

    def _some(self, session: Session) -> tuple[int, int]:
        first = session.rng.randint(1, _IDS)
        return first, first + session.rng.randint(0, 10)


def make_project(home: Path, odd: OddTable) -> Path:
    """Make the dbt project with all models; return its folder."""
    project = host_project(home, {KINDS: _KINDS, **odd.models()})
    with (project / "dbt_project.yml").open("a") as file:
        file.write("vars: {notify_facts: true}\n")
    return project


def differences(odd: OddTable, slot: str, source: str, target: str) -> list[Difference]:
    """Return where the models differ from a recount, but for Notify's fact."""
    kinds = Recount(
        KINDS,
        ("notification_type", "notification_status"),
        ("row_count",),
        "select notification_type::text, notification_status, count(*) from notifications "
        "where num_nulls(notification_type, notification_status) = 0 group by 1, 2",
    )
    return [
        difference
        for recount in (kinds, *odd.recounts())
        for difference in comparison.differences(recount, {slot: source}, target)
    ]


def _escaped(statement: str) -> str:
    """Return the statement as psycopg2 wants it beside values."""
    return statement.replace("%", "%%")
