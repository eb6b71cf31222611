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

from testkit.comparison import apart
from testkit.databases import Database
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
create table "Größen; it's 100 %s" (
    id int primary key, "Größe ""m"" cm" text, kind stock_kind, pieces int, unused text
);
alter table orders replica identity full;
alter table old_orders replica identity full;
alter table "Größen; it's 100 %s" replica identity full;
create table hook_call (moment text, is_there boolean);
insert into "Größen; it's 100 %s" select n, 'p' || n % 3, 'wood', n from generate_series(1, 9) as n;
"""
ORDER = """
insert into {} (placed_at, channel, status, amount, discount, note)
select
    timestamptz '2026-03-28 20:00+00' + n * interval '17 minutes',
    (array['web', 'shop', null])[1 + n % 3], (array['new', 'paid', 'draft'])[1 + n % 5 % 3]::order_status,
    case when n % 7 > 0 then n * 1.01 end, n % 4, n
from generate_series({}, {}) as n
"""
STOCK = '"Größen; it\'s 100 %s"'
CHANGES = (
    ORDER.format("{table}", "{start}", "{start} + 4 * {n}"),
    ORDER.format("{table}", "{start}", "{start} + {n}"),
    "update {table} set status = 'paid', amount = (array[null, 1.50, -3])[{n}] {some}",
    "update {table} set channel = (array[null, 'web', 'Ümläut'])[{n}] {some}",
    "update {table} set placed_at = placed_at + interval '5 hours', note = (array[null, 'x', '12'])[{n}] {some}",
    "update {table} set discount = 1 {some}",
    "delete from {table} {some}",
    "truncate {table}",
    f"update {STOCK} set pieces = pieces + {{n}} {{some}}",
)


def differences(target: Database, home: Path, name: str) -> list[tuple[Any, ...]]:
    """Compare a model with the query that dbt has compiled: return the rows that differ."""
    (path,) = home.glob(f"**/compiled/**/{name}.sql")
    ((columns, timezone),) = target.execute(
        "select string_agg(format('%%I::%%s as %%1$I', one.name, one.type), ', ' order by ordinal),"
        " declaration ->> 'timezone' from (select declaration from cdc.dependent_model where model_name = %s"
        " union all select declaration from cdc.registered_model where model_name = %s) as own"
        " cross join cdc.list_columns(declaration) as one where one.is_shown and one.kind <> 'id' group by 2",
        *(name, name),
    )
    target.execute("select set_config('timezone', %s, false)", timezone or "UTC")
    stored = f"select {columns} from analytics.{name}"
    asked = f"select {columns} from (\n{path.read_text()}\n) as asked"
    return target.execute(apart(stored, asked))


class Shop(System):
    """A source that is its own target, and the project."""

    def __init__(self, database: Database, home: Path) -> None:
        super().__init__(database, home)
        self.source.execute(TABLES)
        self.source.execute(ORDER.format("orders", 1, 90))
        self.source.execute(ORDER.format("old_orders", 1, 20))
        self.project = host_project(home, {})
        self.models = self.project / "models"
        shutil.copytree(MODELS, self.models, dirs_exist_ok=True)
        # It is none of the commands' business what other tests declare.
        self.given |= {"LOADER_MANIFEST": "", "DBT_USE_COLORS": "false"}
        self.built = ""
        """What the first `dbt build` said."""
        self.waited: dict[str, str] = {}
        """The states of the models before the seed."""
        self.seen: set[tuple[tuple[str | None, int], ...]] = set()
        """What a reader saw in the table of nightly while the seed took its place."""

    def seed(self, *models: str) -> None:
        flags = " ".join(f"--model {name}" for name in models)
        self.spark_job(f"spark-submit spark/seed.py {flags}")

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

    def compare(self, *models: str) -> dict[str, list[tuple[Any, ...]]]:
        """Return, of models that are not equal to their queries, the rows in which they differ."""
        found = {name: differences(self.target, self.home, name) for name in models}
        return {name: rows for name, rows in found.items() if rows}

    def write(self, dice: Random) -> None:
        """Change all tables in some transactions, of which each rolls back to a savepoint."""
        for _ in range(dice.randint(3, 9)):
            one, undone, other = (
                dice.choice(CHANGES).format(
                    table=dice.choice(("orders", "orders", "old_orders")),
                    some=f"where id % {dice.randint(2, 9)} = {dice.randint(0, 3)}",
                    **{"start": dice.randint(1, 400), "n": dice.randint(1, 3)},
                )
                for _ in range(3)
            )
            self.source.execute(
                f"begin; {one}; savepoint before; {undone}; rollback to before; {other}; commit"
            )
