"""Ways to read the slot and store or count its changes: the loader and its competitors."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import psycopg2

from benchmarks import decoding, workload
from benchmarks.measure import ROOT, Cost, run
from testkit.servers import BIN, Cluster
from testkit.source import transaction

_LOADER_SLOT = "loader"
"""The one slot that feeds the fact: each run follows a copy of the slot that waited for it."""
_COLUMNS = "slot_name, commit_lsn, ordinal, xid, committed_at, action, payload"
_DEBEZIUM = ROOT / ".venv-debezium" / "bin" / "python"


class Backlog(NamedTuple):
    """Changes that wait in the source's WAL, and the servers that they lie between."""

    source: Cluster
    target: Cluster
    rows: int
    end: str

    @property
    def rows_file(self) -> Path:
        """Where the loader's rows wait to be copied again."""
        return self.target.home / "rows"

    @property
    def clusters(self) -> dict[str, Cluster]:
        """The servers by the names that their costs go by."""
        return {"source": self.source, "target": self.target}


class Result(NamedTuple):
    """A contender's run."""

    seconds: float
    cost: Cost
    over_idle: int = 0
    """Bytes that the program held more than with nothing to do."""


Contender = Callable[[Backlog, str], Result]


def decode_alone(backlog: Backlog, slot: str) -> Result:
    """Read the slot with PostgreSQL's own program, into nothing."""
    program, *words = decoding.command(backlog.source, slot, backlog.end)
    cost = run([BIN / program, *words], {}, backlog.clusters)
    return Result(cost.seconds, cost)


def loader(backlog: Backlog, slot: str, *more: str) -> Result:
    """Follow a copy of the slot with `loader run --once`, then once more with nothing to do."""
    with transaction(backlog.source.dsn()) as cursor:
        cursor.execute("select pg_drop_replication_slot(%s)", (_LOADER_SLOT,))
        cursor.execute("select pg_copy_logical_replication_slot(%s, %s)", (slot, _LOADER_SLOT))
    with transaction(backlog.target.dsn()) as cursor:
        cursor.execute("update cdc.slot_position set position_lsn = start_lsn")
    environment = _environment(backlog, _LOADER_SLOT)
    command = [str(workload.LOADER), "run", "--once", *more]
    cost = run(command, environment, backlog.clusters)
    idle = run(command, environment, backlog.clusters)
    check(backlog, "select count(*) from cdc.change_log")
    rows = f"(select {_COLUMNS} from cdc.change_log) to '{backlog.rows_file}' (format binary)"
    _psql(backlog, f"\\copy {rows}")
    return Result(cost.seconds - idle.seconds, _less(cost, idle), cost.peak_bytes - idle.peak_bytes)


def loader_and_dbt(backlog: Backlog, slot: str) -> Result:
    """Follow the slot and build the fact."""
    empty_warehouse(backlog)
    result = loader(backlog, slot, "--build")
    check(backlog, "select sum(live_count) from analytics.ft_service_stats")
    return result


def debezium(backlog: Backlog, slot: str) -> Result:
    """Stage with Debezium's embedded engine."""
    cost = run(_debezium(backlog, slot), _environment(backlog), backlog.clusters)
    return Result(float(json.loads(cost.output.splitlines()[-1])["seconds_streaming"]), cost)


def contenders() -> dict[str, Contender]:
    """Return who takes part, by the name in the table."""
    found: dict[str, Contender] = {
        "decoding alone": decode_alone,
        "loader": loader,
        "loader and dbt, to the fact": loader_and_dbt,
    }
    if _DEBEZIUM.exists():
        found["Debezium"] = debezium
    return found


def set_up(backlog: Backlog) -> None:
    """Make the staging schema and the loader's slot, before any contender's slot."""
    workload.set_up(backlog.source, backlog.target, _LOADER_SLOT)


def prepare(backlog: Backlog, name: str, slot: str) -> None:
    """Make the contender's slot before anything is written."""
    if name.startswith("loader"):
        with transaction(backlog.source.dsn()) as cursor:
            cursor.execute("select pg_copy_logical_replication_slot(%s, %s)", (_LOADER_SLOT, slot))
    elif name == "Debezium":
        run([*_debezium(backlog, slot), "--prepare"], _environment(backlog), {})
    else:
        decoding.make_slot(backlog.source, slot)


def empty_warehouse(backlog: Backlog) -> None:
    """Empty the warehouse's own tables, so that each run finds the same."""
    with closing(psycopg2.connect(backlog.target.dsn())) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("drop schema if exists analytics cascade")
            cursor.execute("truncate cdc.change_log, cdc.model_watermark")
            cursor.execute("checkpoint")


def warm_up(backlog: Backlog) -> None:
    """Let the target write what a run writes, so that every contender finds the same memory.

    A virtual machine returns unused memory to its host within seconds, and writing into new memory
    takes ten times as long.
    """
    empty_warehouse(backlog)
    _psql(backlog, f"\\copy cdc.change_log ({_COLUMNS}) from '{backlog.rows_file}' (format binary)")


def check(backlog: Backlog, query: str) -> None:
    """Compare a number in the target with the number of changes. Raises RuntimeError."""
    with transaction(backlog.target.dsn()) as cursor:
        cursor.execute(query)
        ((found,),) = cursor.fetchall()
    if found != backlog.rows:
        raise RuntimeError(f"{query}: {found}, not {backlog.rows}")


def _less(cost: Cost, idle: Cost) -> Cost:
    return Cost(
        seconds=cost.seconds - idle.seconds,
        program=cost.program - idle.program,
        servers={name: spent - idle.servers[name] for name, spent in cost.servers.items()},
        peak_bytes=cost.peak_bytes,
        output=cost.output,
    )


def _psql(backlog: Backlog, words: str) -> Cost:
    command = [str(BIN / "psql"), "--no-psqlrc", f"--command={words}", backlog.target.dsn()]
    return run(command, {}, backlog.clusters)


def _debezium(backlog: Backlog, slot: str) -> list[str | Path]:
    words = ["--source", backlog.source.dsn(), "--target", backlog.target.dsn(), "--slot", slot]
    return [_DEBEZIUM, "-m", "benchmarks.capture.debezium", *words, "--rows", str(backlog.rows)]


def _environment(backlog: Backlog, slot: str = "") -> dict[str, str]:
    return workload.environment(backlog.source, backlog.target, slot)
