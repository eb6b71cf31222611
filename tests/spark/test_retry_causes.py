"""What is printed about rejected changes counts them, whatever their cause, while writers go on."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from testkit.commands import RunningLoader, wait_until
from testkit.databases import paste
from testkit.project import host_project
from testkit.servers import connect
from tests.spark.audited import Audited

ORDERS = """
    create table orders (id bigserial primary key, code text not null, size bigint not null);
    alter table orders replica identity full;
    insert into orders (code, size) select i % 7, i % 5 from generate_series(1, 200) as i
"""
WRITES = (
    "insert into orders (code, size) values (%(n)s % 7, %(n)s % 5)",
    "update orders set code = %(n)s % 7 where id = (select id from orders where size < 9 and code ~"
    " '^[0-9]$' order by random() limit 1)",
    "delete from orders where id = (select id from orders where size < 9 and code ~ '^[0-9]$'"
    " order by random() limit 1)",
)
FACTS = {"ft_codes": ("code", "integer"), "ft_sizes": ("size", "smallint")}


def model(column: str, type_: str) -> str:
    return (
        "{{ waltally.fact(tables={'orders': 'public.orders'}, measures={'row_count': {'count':"
        f" 'orders'}}}}, dimensions={{'{column}': '{type_}'}}) }}}}"
    )


class Shop:
    """Two facts of one table, and a session that writes to it until the block ends."""

    def __init__(self, pipeline: Audited, loader: RunningLoader) -> None:
        self.pipeline = pipeline
        self.loader = loader
        self.written = 0
        self._stop = threading.Event()

    @contextmanager
    def writing(self) -> Iterator[None]:
        thread = threading.Thread(target=self._write)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def _write(self) -> None:
        choice = Random(1)
        with closing(connect(self.pipeline.dsn)) as connection:
            while not self._stop.wait(0.01):
                n = choice.randrange(1000)
                connection.ask(choice.choice(WRITES).replace("%(n)s %", f"{n} %"))
                self.written += 1

    def goes_on(self) -> None:
        until = self.written + 20
        wait_until(lambda: self.written >= until, "the writer goes on")

    def catch_up(self) -> None:
        self.pipeline.stage()
        self.pipeline.build()

    def rejected(self) -> dict[str, set[str]]:
        """Return the reasons of each fact that rejected something."""
        found: dict[str, set[str]] = {}
        for fact, reason in self.pipeline.source.execute(
            "select distinct fact, reason from analytics.rejected_changes"
        ):
            found.setdefault(fact.removeprefix("analytics."), set()).add(reason)
        return found

    def state(self, fact: str) -> tuple[Any, ...]:
        """What a seed of another fact leaves alone: the baseline that it is built on, its list."""
        return (
            self.pipeline.source.execute(
                "select baseline_id from cdc.model_watermark where model_name = %s",
                f"analytics.{fact}",
            ),
            self.pipeline.source.execute(
                "select commit_lsn, ordinal, reason from analytics.rejected_changes"
                " where fact = %s order by 1, 2",
                f"analytics.{fact}",
            ),
            self.pipeline.source.execute(
                "select baseline_id, snapshot_lsn from cdc.baseline where fact_name = %s", fact
            ),
        )

    def follow_remedy(self, fact: str) -> list[str]:
        """Run what `loader status` prints about a fact's rejected changes, in that order."""
        said = self.pipeline.loader("status").stdout
        assert f"{fact} could not count " in said
        found = re.search(rf"^ *Try: (.* --fact {fact}`.*)$", said, re.M)
        assert found, said
        commands = re.findall(r"`([^`]+)`", found[1])
        for command in commands:
            self._run(command)
        return commands

    def _run(self, command: str) -> None:
        program, *words = command.split()
        if command == "loader setup --check":
            done = self.pipeline.loader(*words)
            assert done.returncode == 18, done.stderr
            for sql in re.findall(r"^Try: (.*)", done.stderr, re.M):
                paste(self.pipeline.source.cluster, self.pipeline.source.name, sql)
        elif program == "loader":
            self.pipeline.must(*words)
        elif command == "dbt build":
            self.catch_up()
        else:
            assert (program, words[0]) == ("spark-submit", "spark/seed.py"), command
            code, _, err = self.pipeline.run(*words[1:], job="seed")
            assert code == 0, err

    def declare(self, **models: tuple[str, str]) -> None:
        folder = self.pipeline.home / "host" / "models"
        for name, columns in models.items():
            (folder / f"{name}.sql").write_text(model(*columns))
        self.pipeline.use_project(self.pipeline.home / "host")

    def is_exact(self, fact: str, column: str) -> bool:
        """Whether the fact equals a recount; nobody may write."""
        counted = "select {0}::text, {1} from {2}"
        mine = counted.format(column, "row_count", f"analytics.{fact} where row_count <> 0")
        theirs = counted.format(column, "count(*)", "orders group by 1")
        return self.pipeline.source.execute(f"{mine} order by 1") == (
            self.pipeline.source.execute(f"{theirs} order by 1")
        )


@pytest.fixture
def shop(audited: Audited, tmp_path: Path) -> Iterator[Shop]:
    audited.source.execute(ORDERS)
    audited.use_project(host_project(tmp_path, {k: model(*v) for k, v in FACTS.items()}))
    audited.must("setup")
    with audited.follow() as loader:
        made = Shop(audited, loader)
        code, _, err = audited.run(job="seed")
        assert code == 0, err
        made.catch_up()
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("identity", ["default", "nothing"])
def test_a_replica_identity_that_carried_too_little(shop: Shop, identity: str) -> None:
    source = shop.pipeline.source
    with shop.writing():
        source.execute(f"alter table orders replica identity {identity}")
        source.execute("update orders set code = 8 where id < 4; delete from orders where id = 5")
        shop.goes_on()
        shop.catch_up()
        assert shop.rejected().keys() == {"ft_codes", "ft_sizes"}
        commands = shop.follow_remedy("ft_codes")
        assert commands[:1] == ["loader setup --check"]
        assert shop.rejected().keys() == {"ft_sizes"}
        other = shop.state("ft_codes")
        shop.goes_on()
        for command in commands[1:]:  # the table is mended
            shop._run(command.replace("ft_codes", "ft_sizes"))
        assert shop.state("ft_codes") == other
        shop.goes_on()
    shop.catch_up()
    assert shop.rejected() == {}
    assert shop.is_exact("ft_codes", "code") and shop.is_exact("ft_sizes", "size")


def test_a_value_that_the_declared_type_does_not_take(shop: Shop) -> None:
    source = shop.pipeline.source
    with shop.writing():
        source.execute("insert into orders (code, size) values ('A-6', 1), ('7', 70000)")
        source.execute("update orders set code = 'A-4' where id = 7")
        shop.goes_on()
        shop.catch_up()
        assert shop.rejected() == {
            "ft_codes": {"the value of code is not of type integer"},
            "ft_sizes": {"the value of size is not of type smallint"},
        }
        other = shop.state("ft_sizes")
        # One is corrected in the table, the other in the declaration.
        source.execute("update orders set code = replace(code, 'A-', '') where code ~ '^A-'")
        shop.follow_remedy("ft_codes")
        assert shop.rejected().keys() == {"ft_sizes"}
        assert shop.state("ft_sizes") == other
        shop.declare(ft_sizes=("size", "integer"))
        other = shop.state("ft_codes")
        shop.follow_remedy("ft_sizes")
        assert shop.state("ft_codes") == other
        shop.goes_on()
    shop.catch_up()
    assert shop.rejected() == {}
    assert shop.is_exact("ft_codes", "code") and shop.is_exact("ft_sizes", "size")
