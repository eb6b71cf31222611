"""Random changes of rows and leaves, with loaders that are killed: the model equals a recount."""

from __future__ import annotations

import json
import random
import threading
from functools import partial

import pytest

from testkit.commands import wait_until
from testkit.pipeline import Pipeline
from testkit.spark_jobs import run_job
from tests.partitions.conftest import full

STATUSES = ("created", "sent", "delivered", "a", "b", "c", "d", "e")
SOME = "(select id from notifications order by random() limit 3)"


def insert(kind: str, status: str) -> str:
    return (
        'insert into notifications ("to", service_id, template_id, notification_type, '
        f"notification_status) select 'x', service_id, id, '{kind}', '{status}' from templates;"
    )


class History:
    """What a service does to its rows and partitions, drawn from a seed."""

    def __init__(self, seed: int, has_default: bool = True, truncates: bool = True) -> None:
        self.random = random.Random(seed)
        self._leaves: list[str] = []
        self._truncates = 0.1 if truncates else 0.0
        self._statuses = list(STATUSES if has_default else STATUSES[:3])

    def change(self) -> str:
        """Return one transaction's changes of rows."""
        status, kind = self.random.choice(self._statuses), self.random.choice(("sms", "email"))
        return self.random.choice(
            (
                insert(kind, status),
                f"update notifications set notification_status = '{status}' where id in {SOME};",
                f"update notifications set notification_type = '{kind}' where id in {SOME};",
                f"delete from notifications where id in {SOME};",
                "truncate notifications;" if self.random.random() < self._truncates else "",
            )
        )

    def new_leaf(self) -> str:
        """Return what makes a leaf, with rows in the same transaction; empty at the end."""
        left = [each for each in STATUSES[3:] if each not in self._leaves]
        if not left:
            return ""
        status = self.random.choice(left)
        self._leaves.append(status)
        self._statuses.append(status)
        moved = f"delete from notifications where notification_status = '{status}';"
        made = f"create table leaf_{status} partition of notifications for values in ('{status}');"
        rows = "".join(self.change() for _ in range(self.random.randrange(3)))
        return moved + made + full(f"leaf_{status}") + insert("sms", status) + rows


def is_staged(pipeline: Pipeline, text: str) -> bool:
    found = "select exists (select from cdc.change_log where strpos(payload, %s) > 0)"
    return bool(pipeline.source.value(found, text))


def test_killed_loaders_miss_nothing_of_leaves_that_come(partitioned: Pipeline) -> None:
    history = History(1)
    partitioned.set_up()
    for number in range(6):
        with partitioned.follow() as running:
            for _ in range(history.random.randrange(3, 12)):
                partitioned.source.execute(f"begin; {history.change()}{history.change()} commit")
            if leaf := history.new_leaf():
                partitioned.source.execute(f"begin; {leaf} commit")
            partitioned.source.insert(1, text=f"round {number}")
            if number % 2:
                # A loader that missed the leaf would have stored a position after it.
                wait_until(partial(is_staged, partitioned, f"round {number}"), "it is staged")
            running.kill()
    partitioned.must_be_exact()


def is_built(pipeline: Pipeline) -> bool:
    """Say whether the model is built on its newest baseline."""
    (model,) = json.loads(pipeline.loader("status", "--json").stdout)["models"]
    return model["baseline"] is not None and model["built_on"] == model["baseline"]["id"]


@pytest.mark.slow
def test_a_seed_and_an_audit_under_traffic_are_exact(partitioned: Pipeline) -> None:
    """To truncate, or to make a leaf beside a default one, an application waits for the seed."""
    pipeline = partitioned
    pipeline.source.execute("drop table other_status")
    history = History(7, has_default=False, truncates=False)
    pipeline.source.insert(200)
    pipeline.source.insert(100, "sent")
    pipeline.set_up()
    stop = threading.Event()
    writer = pipeline.source.reconnect()

    def write() -> None:
        while not stop.is_set():
            writer.execute(f"begin; {history.change()} commit")
            if history.random.random() < 0.02 and (leaf := history.new_leaf()):
                writer.execute(f"begin; {leaf} commit")
            stop.wait(0.01)

    thread = threading.Thread(target=write)
    with pipeline.follow("--build"):
        thread.start()
        try:
            run_job("spark-submit spark/seed.py", pipeline.environment())
            wait_until(lambda: is_built(pipeline), "the loader builds on the new baseline")
            # It fails where it finds a difference.
            run_job("spark-submit spark/audit.py", pipeline.environment())
        finally:
            stop.set()
            thread.join()
    writer.connection.close()
    pipeline.must_be_exact()
