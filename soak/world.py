"""What a soak counts besides Notify's fact, some of it in a table whose names are hostile."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

from testkit import comparison
from testkit.comparison import Difference, Recount
from testkit.hostile import NAMES
from testkit.notify_changes import Session
from testkit.project import host_project
from waltally.tables import literal, quoted

NOTIFY, KINDS, ODD, ODD_ROWS = "ft_service_stats", "ft_kinds", "ft_odd", "odd_rows"
ODD_AMOUNTS = "ft_odd_amounts"
ODD_ROLL_UP, ODD_PARENTS = "ft_odd_texts", "ft_odd_parents"
BY_SPARK, BY_SPARK_ROLL_UP = "ft_by_spark", "ft_by_spark_statuses"
MODELS = (NOTIFY, KINDS, ODD, ODD_ROWS, ODD_AMOUNTS, BY_SPARK)
ROLL_UPS = (ODD_ROLL_UP, ODD_PARENTS, BY_SPARK_ROLL_UP)
READ_TOGETHER = {ODD_ROWS, ODD_AMOUNTS}
"""Inputs of one roll-up: a change of one reads the other."""

_KINDS = """
{{ waltally.fact(
    tables={'live': 'public.notifications'},
    dimensions={'notification_type': 'text', 'notification_status': 'text'},
    measures={'row_count': {'count': 'live'}},
) }}
"""
_BY_SPARK = """
{{ waltally.fact(
    tables={
        'live': 'public.notifications',
        'archived': {'table': 'public.notification_history', 'deletes': 'ignore'},
    },
    dimensions={'service_id': 'uuid', 'notification_status': 'text'},
    measures={'live_count': {'count': 'live'}, 'archived_count': {'count': 'archived'}},
    engine=var('engine'),
) }}
"""
_BY_SPARK_ROLL_UP = f"""
{{{{ waltally.roll_up(
    fact=ref('{BY_SPARK}'),
    dimensions={{'notification_status': 'notification_status'}},
    measures={{
        'live_count': {{'sum': 'live_count'}},
        'archived_count': {{'sum': 'archived_count'}},
        'services': {{'distinct': 'service_id'}},
    }},
) }}}}
"""
_BY_SPARK_GROUPS = """
select
    service_id::text,
    notification_status,
    count(*) filter (where part = 'live') as live_count,
    count(*) filter (where part = 'archived') as archived_count
from (
    select 'live' as part, service_id, notification_status from notifications
    union all
    select 'archived', service_id, notification_status from notification_history
    union all
    select 'archived', service_id, notification_status from truth.purged
) as every_row
where num_nulls(service_id, notification_status) = 0
group by 1, 2
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
        first, second, *_ = self.texts
        rolled = {
            "row_count": {"sum": "row_count"},
            self.total: {"sum": self.total},
            "different": {"distinct": second},
            "first": {"min": second},
            "largest": {"max": self.total},
        }
        smallest = {"smallest": {"min": self.total}}
        # The amount of a row is taken for the id of its parent, a row of the same table.
        lookups = {
            name: f"{{'rows': ref({ODD_ROWS!r}), 'by': {{'id': {key!r}}}}}"
            for name, key in (("parent", self.amount), ("grand", f"parent.{self.amount}"))
        }
        parents = {
            "row_count": {"sum": "row_count"},
            "different": {"distinct": f"parent.{second}"},
            "median": {"percentile": 0.5, "of": f"parent.{self.amount}"},
        }
        return {
            ODD: f"{{{{ waltally.fact(tables={{'odd': {place}}}, dimensions={dimensions!r},"
            f" measures={measures!r}) }}}}",
            ODD_ROWS: f"{{{{ waltally.current_rows(table={place}, key=['id'],"
            f" columns={columns!r}) }}}}",
            # A person changes its schema, and whether it has one more measure.
            ODD_ROLL_UP: "{{ config(schema=var('rolled_schema', none)) }}"
            f"{{% set measures = {rolled!r} %}}"
            f"{{% if var('more', none) %}}{{% do measures.update({smallest!r}) %}}{{% endif %}}"
            f"{{{{ waltally.roll_up(fact=ref({ODD!r}),"
            f" dimensions={ {first: first}!r}, measures=measures) }}}}",
            ODD_AMOUNTS: f"{{{{ waltally.fact(tables={{'odd': {place}}},"
            f" dimensions={ {self.amount: 'bigint'}!r},"
            " measures={'row_count': {'count': 'odd'}}) }}",
            ODD_PARENTS: f"{{{{ waltally.roll_up(fact=ref({ODD_AMOUNTS!r}), lookups={{"
            + ", ".join(f"{name!r}: {lookup}" for name, lookup in lookups.items())
            + f"}}, dimensions={ {first: f'grand.{first}'}!r}, measures={parents!r}) }}}}",
        }

    def recounts(self) -> tuple[Recount, ...]:
        """Return what its models must hold."""
        texts, amount = ", ".join(map(quoted, self.texts)), quoted(self.amount)
        groups = f"select {texts}, count(*), sum({amount}) from {self.table} group by {texts}"
        rows = f"select id, {texts}, {amount} from {self.table}"
        first, second, *_ = map(quoted, self.texts)
        rolled = (
            f"select {first}, sum(n), sum(amount), count(distinct {second}),"
            f' min({second} collate "C"), max(amount) from (select {texts}, count(*) as n,'
            f" coalesce(sum({amount}), 0) as amount from {self.table} group by {texts}) as finer"
            f" group by {first}"
        )
        parents = (
            f"select grand.{first}, count(*), count(distinct parent.{second}),"
            f" percentile_disc(0.5) within group (order by parent.{amount})"
            f" from {self.table} as child"
            f" left join {self.table} as parent on parent.id = child.{amount}"
            f" left join {self.table} as grand on grand.id = parent.{amount} group by 1"
        )
        return (
            Recount(ODD, self.texts, ("row_count", self.total), _escaped(groups)),
            Recount(
                ODD_ROLL_UP,
                self.texts[:1],
                ("row_count", self.total, "different", "first", "largest"),
                _escaped(rolled),
            ),
            Recount(
                ODD_AMOUNTS,
                (self.amount,),
                ("row_count",),
                _escaped(f"select {amount}, count(*) from {self.table} group by 1"),
            ),
            Recount(
                ODD_PARENTS,
                self.texts[:1],
                ("row_count", "different", "median"),
                _escaped(parents),
            ),
            Recount(ODD_ROWS, ("id",), self.columns[1:], _escaped(rows), is_rows=True),
        )

    # Kinds of change, as those of testkit/notify_changes.py.

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


def make_project(home: Path, odd: OddTable, engine: str) -> Path:
    """Make the dbt project with all models; return its folder."""
    by_spark = {BY_SPARK: _BY_SPARK, BY_SPARK_ROLL_UP: _BY_SPARK_ROLL_UP}
    project = host_project(home, {KINDS: _KINDS, **by_spark, **odd.models()})
    with (project / "dbt_project.yml").open("a") as file:
        file.write(f"vars: {{notify_facts: true, engine: {engine}}}\n")
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
    counts = ("live_count", "archived_count")
    by_spark = Recount(BY_SPARK, ("service_id", "notification_status"), counts, _BY_SPARK_GROUPS)
    rolled = Recount(
        BY_SPARK_ROLL_UP,
        ("notification_status",),
        (*counts, "services"),
        "select notification_status, sum(live_count), sum(archived_count), "
        "count(distinct service_id) filter (where live_count <> 0) "
        f"from ({_BY_SPARK_GROUPS}) as finer group by 1",
    )
    return [
        difference
        for recount in (kinds, by_spark, rolled, *odd.recounts())
        for difference in comparison.differences(recount, {slot: source}, target)
    ]


def _escaped(statement: str) -> str:
    """Return the statement as psycopg2 wants it beside values."""
    return statement.replace("%", "%%")
