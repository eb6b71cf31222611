"""The models of a soak besides Notify's, some of them over a table whose names are hostile."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import psycopg2

from testkit.hostile import NAMES
from testkit.notify_changes import Session
from testkit.project import host_project
from waltally.tables import literal, quoted

NOTIFY, KINDS, BY_SPARK = "ft_service_stats", "ft_kinds", "ft_by_spark"
ODD, ODD_ROWS, ODD_AMOUNTS = "ft_odd", "odd_rows", "ft_odd_amounts"
ODD_ROLL_UP, ODD_CHILDREN = "ft_odd_texts", "ft_odd_children"
BY_SPARK_ROLL_UP = "ft_by_spark_statuses"
MODELS = (NOTIFY, KINDS, ODD, ODD_ROWS, ODD_AMOUNTS, BY_SPARK)
OVER_MODELS = (ODD_ROLL_UP, ODD_CHILDREN, BY_SPARK_ROLL_UP)
READ_TOGETHER = {ODD_ROWS, ODD_AMOUNTS}
"""Inputs of one model: a change of one reads the other."""


@dataclass(frozen=True)
class Model:
    """A query that names what it reads as <<model or table>>, and the model's config."""

    query: str
    config: str = ""

    @property
    def text(self) -> str:
        """The model's file. What is hostile in the query would be Jinja there."""
        config = f"materialized='waltally', {self.config}"
        query = self._with(_reference, lambda text: f"{{{{ {text!r} }}}}")
        return f"{{{{ config({config}) }}}}{query}"

    def over(self, places: Mapping[str, str]) -> str:
        """Return the query with these in place of what it reads, else the model's tables."""
        return self._with(lambda name: places.get(name, f"analytics.{name}"), lambda text: text)

    def _with(self, place: Callable[[str], str], other: Callable[[str], str]) -> str:
        parts = re.split(r"<<(\w+)>>", self.query)
        return "".join(
            place(part) if number % 2 else other(part) for number, part in enumerate(parts)
        )


_TABLES = ("notifications", "notification_history", "odd")
_MORE = "more"
"""A person changes whether a roll-up has one more column."""


def _reference(name: str) -> str:
    if name == _MORE:
        return "{{ ', min(row_count) as smallest' if var('more', none) }}"
    if name in _TABLES:
        return f"{{{{ source({('odd' if name == 'odd' else 'app')!r}, {name!r}) }}}}"
    return f"{{{{ ref({name!r}) }}}}"


_PURGED_TOO = """(
    select service_id, notification_status from notification_history
    union all select service_id, notification_status from truth.purged
)"""
_PLAIN = {
    KINDS: Model(
        """
        select notification_type, coalesce(notification_status, 'none') as status,
            count(*) as row_count, count(template_id) as with_template,
            count(*) filter (where notification_status = 'delivered') as delivered
        from <<notifications>> group by 1, 2
        """
    ),
    BY_SPARK: Model(
        """
        select service_id, notification_status, count(*) filter (where is_live) as live_count,
            count(*) filter (where not is_live) as archived_count
        from (
            select service_id, notification_status, true as is_live from <<notifications>>
            union all
            select service_id, notification_status, false from <<notification_history>> as history
        ) as every_row
        group by 1, 2
        """,
        "ignore_deletes=['public.notification_history'], engine=var('engine')",
    ),
    BY_SPARK_ROLL_UP: Model(
        f"""
        select notification_status, sum(live_count) as live_count,
            sum(archived_count) as archived_count,
            count(distinct service_id) filter (where live_count <> 0) as services
        from <<{BY_SPARK}>> group by notification_status
        """
    ),
}
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

    def models(self) -> dict[str, Model]:
        """Return the models of it, by name."""
        texts, amount, total = map(quoted, self.texts), quoted(self.amount), quoted(self.total)
        first, second, third = texts
        every = f"{first}, {second}, {third}"
        return {
            ODD: Model(
                f"select {every}, count(*) as row_count, sum({amount}) as {total}"
                f" from <<odd>> group by {every}"
            ),
            ODD_ROWS: Model(f"select id, {every}, {amount}, length({first}) as len from <<odd>>"),
            ODD_AMOUNTS: Model(
                f"select {amount}, count(*) as row_count from <<odd>> where id > 2 group by 1"
            ),
            ODD_ROLL_UP: Model(
                f"""
                select {first}, sum(row_count) as row_count, sum({total}) as {total},
                    count(distinct {second}) as different, min({second}) as least,
                    max({total}) as largest<<{_MORE}>>
                from <<{ODD}>> group by {first}
                """,
            ),
            # The amount of a row is taken for the id of its parent, a row of the same table.
            ODD_CHILDREN: Model(
                f"""
                select parent.{first}, child.{amount} is null as has_none, count(*) as row_count
                from <<{ODD_ROWS}>> as parent
                left join <<{ODD_AMOUNTS}>> as child on child.{amount} = parent.id group by 1, 2
                """
            ),
        }

    # Kinds of change, as those of testkit/notify_changes.py.

    def odd_insert(self, session: Session) -> int:
        """Rows come, with values that would be code too."""
        rng = session.rng
        rows = [
            f"({rng.randint(1, _IDS)}, {', '.join(_value(rng) for _ in self.texts)},"
            f" {rng.randint(-5, 100)})"
            for _ in range(rng.randint(1, 8))
        ]
        return session.run(
            f"insert into {self.table} values {', '.join(rows)} on conflict do nothing"
        )

    def odd_update(self, session: Session) -> int:
        """Rows get another value, another amount or another key."""
        rng = session.rng
        chosen = rng.choice(self.columns[1:])
        value = _value(rng) if chosen in self.texts else rng.randint(0, 9)
        done = session.run(f"update {self.table} set {quoted(chosen)} = {value} {_some(rng)}")
        if rng.random() < 0.2:
            one = f"where id = {rng.randint(1, _IDS)}"
            done += session.run(f"update {self.table} set id = id + {_IDS} {one}")
        return done

    def odd_delete(self, session: Session) -> int:
        """Rows go."""
        return session.run(f"delete from {self.table} {_some(session.rng)} or id > {_IDS + 100}")

    def odd_truncate(self, session: Session) -> int:
        """All rows go at once."""
        return session.run(f"truncate {self.table}")


def _value(rng: Random) -> str:
    return rng.choice((*map(literal, (*NAMES[:4], "plain", "")), "null"))


def _some(rng: Random) -> str:
    first = rng.randint(1, _IDS)
    return f"where id between {first} and {first + rng.randint(0, 10)}"


def make_project(home: Path, odd: OddTable, engine: str) -> Path:
    """Make the dbt project with all models; return its folder."""
    models = _PLAIN | odd.models()
    project = host_project(home, {name: model.text for name, model in models.items()})
    (project / "models" / "sources.yml").write_text(json.dumps({"sources": _sources(odd)}))
    with (project / "dbt_project.yml").open("a") as file:
        file.write(f"vars: {{notify_models: true, engine: {engine}}}\n")
    return project


def differences(odd: OddTable, source: str, target: str) -> list[tuple[str, tuple[Any, ...], int]]:
    """Return the rows that a model, but for Notify's, has more often than its query, or less."""
    tables = {"odd": odd.table, "notifications": "notifications"}
    tables |= {"notification_history": _PURGED_TOO, _MORE: ""}
    found = []
    for name, model in (_PLAIN | odd.models()).items():
        dsn = target if name in OVER_MODELS else source
        with closing(psycopg2.connect(dsn)) as session, session.cursor() as cursor:
            cursor.execute(model.over(tables))
            columns = ", ".join(quoted(column.name) for column in cursor.description or ())
            asked = Counter(cursor.fetchall())
        with closing(psycopg2.connect(target)) as session, session.cursor() as cursor:
            cursor.execute(f"select {columns} from analytics.{name}")
            stored = Counter(cursor.fetchall())
        stored.subtract(asked)
        found += [(name, row, count) for row, count in stored.items() if count]
    return found


def _sources(odd: OddTable) -> list[dict[str, object]]:
    """Return the application's tables, whose names would be Jinja, and end in a quotation mark."""
    doubled = (part.replace('"', '""') for part in (odd.schema, odd.name))
    schema, identifier = (f"{{{{ {part!r} }}}}" for part in doubled)
    return [
        {"name": "app", "schema": "public", "tables": [{"name": name} for name in _TABLES[:2]]},
        {"name": "odd", "schema": schema, "tables": [{"name": "odd", "identifier": identifier}]},
    ]
