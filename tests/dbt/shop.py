"""A shop's dbt project whose models are queries, over a slot of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import psycopg2

from testkit import source as notify
from testkit.commands import run_dbt
from testkit.comparison import apart
from testkit.databases import Database
from testkit.notify_changes import Session, templates_of
from testkit.notify_traffic import mix
from testkit.project import host_project
from testkit.servers import connect
from testkit.system import System

MODELS = Path(__file__).parent / "shop" / "models"
TABLES = """
create type order_status as enum ('new', 'paid', 'draft');
create type stock_kind as enum ('wood', 'stone');
create table orders (
    id bigint generated always as identity primary key, placed_at timestamptz not null default now(),
    channel text, status order_status not null default 'new', amount numeric(12, 2),
    discount numeric(12, 2), note text
);
create table old_orders (like orders including all);
create table stock (id int primary key, place text, kind stock_kind, pieces int, unused text);
create table "Größen; it's 100 %s" (id int primary key, "Größe ""m"" cm" text, n int);
alter table orders replica identity full;
alter table old_orders replica identity full;
alter table stock replica identity full;
alter table "Größen; it's 100 %s" replica identity full;
create table hook_call (moment text, is_there boolean);
create view truth.history as
select service_id, template_id, notification_type, notification_status, key_type from notification_history
union all
select service_id, template_id, notification_type, notification_status, key_type from truth.purged;
insert into stock select n, 'p' || n % 3, 'wood', n from generate_series(1, 9) as n;
insert into "Größen; it's 100 %s" select n, 'size ' || n % 3, n from generate_series(1, 9) as n;
"""
ORDER = """
insert into {} (placed_at, channel, status, amount, discount, note)
select
    timestamptz '2026-03-28 20:00+00' + n * interval '17 minutes',
    (array['web', 'shop', null])[1 + n % 3], (array['new', 'paid', 'draft'])[1 + n % 5 % 3]::order_status,
    case when n % 7 > 0 then n * 1.01 end, n % 4, n
from generate_series({}, {}) as n
"""


DOWNSTREAM = ("channel_days", "busy_channels", "idle_places", "order_lists")
"""The models over models."""


def above_differs(target: Database, home: Path, name: str) -> list[tuple[Any, ...]]:
    """Compare a model over models with the query that dbt has compiled, over its inputs."""
    (path,) = home.glob(f"**/compiled/**/{name}.sql")
    columns = target.value(
        "select string_agg(format('%%I::%%s as %%1$I', one.name, one.type), ', ' order by place)"
        " from cdc.downstream_model as own cross join cdc.list_columns(own.declaration) as one"
        " where own.name = %s and one.is_shown and one.kind <> 'id'",
        name,
    )
    stored = f"select {columns} from analytics.{name}"
    asked = f"select {columns} from (\n{path.read_text()}\n) as asked"
    return target.execute(apart(stored, asked))


class Shop(System):
    """A source that is its own target, and the project."""

    def __init__(self, database: Database, home: Path) -> None:
        super().__init__(database, home)
        dsn = database.cluster.dsn(database.name)
        notify.create(dsn)
        notify.fill(dsn, services=3, templates=6, live_rows=300, history_rows=300, null_share=0.05)
        notify.set_identity(dsn, "full")
        self.source.execute(TABLES)
        self.source.execute(ORDER.format("orders", 1, 90))
        self.source.execute(ORDER.format("old_orders", 1, 20))
        self.project = host_project(home, {})
        shutil.copytree(MODELS, self.project / "models", dirs_exist_ok=True)
        # It is none of the commands' business what other tests declare.
        self.given["LOADER_MANIFEST"] = ""
        self.built = ""
        """What the first `dbt build` said."""
        self.waited: dict[str, tuple[str, str | None]] = {}
        """The states of the models before the seed."""
        self.seen: set[tuple[tuple[str | None, int], ...]] = set()
        """What a reader saw in the table of nightly while the seed took its place."""

    @property
    def folder(self) -> Path:
        """The folder of the project."""
        assert self.project is not None
        return self.project

    def dbt(self, *arguments: str) -> str:
        """Run dbt to its end; fail the test where it fails."""
        code, said = self.tried(*arguments)
        assert code == 0, said
        return said

    def tried(self, *arguments: str) -> tuple[int, str]:
        """Run dbt; return its exit code and what it said."""
        place = ("--project-dir", str(self.project), "--no-use-colors")
        done = run_dbt((*arguments, *place), self.dbt_environment())
        return done.returncode, done.stdout + done.stderr

    def seed(self, *models: str) -> None:
        flags = " ".join(f"--model {name}" for name in models)
        self.spark_job(f"spark-submit spark/seed.py {flags}")

    def write_model(self, name: str, text: str) -> None:
        (self.folder / "models" / f"{name}.sql").write_text(text)

    @contextmanager
    def read_all_along(self) -> Iterator[None]:
        """Read nightly again and again, in a session of its own, while the block runs."""
        ended = Event()

        def read() -> None:
            query = "select channel, order_count from analytics.nightly order by 1"
            with closing(connect(self.dsns[1])) as session:
                while not ended.is_set():
                    self.seen.add(tuple(session.ask(query)))

        with ThreadPoolExecutor() as pool:
            reader = pool.submit(read)
            try:
                yield
            finally:
                ended.set()
            reader.result()

    def stage(self) -> None:
        self.must("run", "--once")

    def catch_up(self) -> None:
        self.stage()
        self.apply()

    def states(self) -> dict[str, tuple[str, str | None]]:
        return {
            name: (state, reason)
            for name, state, reason in self.target.execute(
                "select model_name, state, reason from cdc.model_state where slot_name = %s",
                self.slot,
            )
        }

    def compare(self, *models: str) -> dict[str, list[tuple[Any, ...]]]:
        """Return, of models that are not equal to their queries, the rows in which they differ."""
        found = {name: self._differences(name) for name in models}
        return {name: rows for name, rows in found.items() if rows}

    def _differences(self, name: str) -> list[tuple[Any, ...]]:
        if name in DOWNSTREAM:
            return above_differs(self.target, self.home, name)
        ((query, timezone, columns),) = self.target.execute(
            "select reading ->> 'text', declaration ->> 'timezone', (select string_agg("
            "format('%%I::%%s as %%1$I', name, type), ', ' order by place) from cdc.list_columns(declaration)"
            " where is_shown and kind <> 'id') from cdc.registered_model where declared_name = %s",
            name,
        )
        query = query.replace('"public"."notification_history"', '"truth"."history"')
        self.source.execute("select set_config('timezone', %s, false)", timezone or "UTC")
        stored = f"select {columns} from analytics.{name}"
        asked = f"select {columns} from (\n{query}\n) as asked"
        return self.source.execute(apart(stored, asked))

    def write(self, dice: Random) -> None:
        """Change all tables in some transactions, of which some roll back to a savepoint."""
        for _ in range(dice.randint(1, 6)):
            statements = [self._statement(dice) for _ in range(dice.randint(1, 4))]
            if dice.random() < 0.3:
                undone = self._statement(dice)
                statements += ["savepoint before", undone, "rollback to savepoint before"]
            self.source.execute("begin; " + "; ".join(statements) + "; commit")
        dsn = self.source.cluster.dsn(self.source.name)
        changes = mix(truncates=True)
        with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
            session = Session(cursor, dice, templates_of(dsn), "full")
            for kind in dice.choices(list(changes), list(changes.values()), k=12):
                kind(session)
                if dice.random() < 0.7:
                    connection.commit()
            connection.commit()

    def apply_in_batches(self, dice: Random) -> None:
        """Stage all, and apply it in batches of a few changes and up to random positions."""
        self.stage()
        size = (
            "create or replace function cdc.batch_size() returns bigint language sql immutable"
            " as 'select {}::bigint'"
        )
        self.target.execute(size.format(dice.choice((1, 3, 20, 200_000))))
        positions = self.target.execute(
            "select distinct commit_lsn::text from cdc.change_log where slot_name = %s"
            " and commit_lsn > (select min(applied_lsn) from cdc.model_watermark)",
            self.slot,
        )
        if positions:
            self.target.execute(
                "select from cdc.apply(%s, %s)", self.slot, dice.choice(positions)[0]
            )
        self.apply()
        self.target.execute(size.format(200_000))

    @staticmethod
    def _statement(dice: Random) -> str:
        table = dice.choice(("orders", "orders", "old_orders"))
        some = f"where id % {dice.randint(2, 9)} = {dice.randint(0, 3)}"
        start = dice.randint(1, 400)
        return dice.choice(
            (
                ORDER.format(table, start, start + dice.randint(0, 12)),
                ORDER.format(table, start, start + dice.randint(0, 12)),
                f"update {table} set status = 'paid', amount = {dice.choice(('null', '1.50', '-3'))} {some}",
                f"update {table} set channel = {dice.choice(('null', repr('web'), repr('Ümläut')))} {some}",
                f"update {table} set placed_at = placed_at + interval '5 hours', note = {dice.choice(('null', repr('x'), repr('12')))} {some}",
                f"delete from {table} {some}",
                f'update "Größen; it\'s 100 %s" set n = n + 1 {some}',
                f"truncate {table}"
                if dice.random() < 0.2
                else f"update {table} set discount = 1 {some}",
            )
        )
