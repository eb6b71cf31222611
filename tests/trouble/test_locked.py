"""A command that only reads does not hang on a lock: it names the session that holds it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from testkit.pipeline import Pipeline
from testkit.waiting import wait_until
from waltally.errors import LoaderError

PRUNE = ("prune", "--dry-run", "--timeout", "1")
READ_BY = {
    "cdc.change_log": (("status",), PRUNE),
    "cdc.slot_position": (("wait", "--lsn", "0/1"), ("setup", "--check")),
    "cdc.model_watermark": (("stats", "ft_service_stats"),),
    "public.notifications": (("status",),),
}
"""By table, commands that wait for its lock."""


def test_a_command_that_only_reads_names_who_holds_the_lock(pipeline: Pipeline) -> None:
    pipeline.begin(2)
    for table, commands in READ_BY.items():
        side = "source" if table == "public.notifications" else "target"
        with closing(pipeline.session("postgres")) as session:
            session.ask("set application_name to 'migration'")
            session.autocommit = False
            session.ask(f"lock table {table} in access exclusive mode")
            pid = session.info.backend_pid
            holder = f"session {pid} (migration, role postgres, idle in transaction)"
            remedy = f"end it on the {side}: select pg_terminate_backend({pid});"
            for command in commands:
                code, said = pipeline.refused(*command)
                assert code == 29, (table, command, said)
                assert f"; the {holder} has locked {table}\nTry: " in said
                assert said.rstrip().endswith(remedy), said
            session.rollback()
        for command in commands:
            pipeline.must(*command)


def test_one_that_waits_for_such_a_lock_keeps_readers_out_too(pipeline: Pipeline) -> None:
    pipeline.begin(2)
    with (
        closing(pipeline.session("postgres")) as reader,
        closing(pipeline.session("postgres")) as session,
        ThreadPoolExecutor(1) as pool,
    ):
        reader.autocommit = False
        reader.ask("select from cdc.change_log limit 1")
        pid = session.info.backend_pid
        waiting = pool.submit(
            session.ask, "alter table cdc.change_log add constraint c check (true)"
        )
        is_waiting = "select exists (select from pg_locks where pid = %s and not granted)"
        wait_until(lambda: pipeline.target.value(is_waiting, pid))
        said = pipeline.refused_with(29, f"session {pid} (", "status")
        assert " waits to lock cdc.change_log" in said
        pipeline.target.execute(said.split("on the target: ")[1])
        with pytest.raises(LoaderError):
            waiting.result()
        pipeline.must("status")
