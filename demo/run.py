"""`make demo`: the whole pipeline on live traffic against a private server, and the recount.

python -m demo.run --example shop --rows 500000 --seconds 20
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import Popen
from types import FrameType

import psycopg2
from psycopg2 import sql
from rich.console import Console

from demo import example as examples
from demo import show
from demo.cluster import Cluster, ClusterError
from demo.commands import CommandFailed, Commands
from demo.comparison import differences
from demo.example import ROOT, Example
from waltally.settings import DEFAULT_SLOT

_SERVER = {"fsync": "off", "shared_buffers": "256MB", "max_wal_size": "4GB"}
_REPLACED = ("PG", "LOADER_", "DBT_")


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="demo.run",
        description="Run the whole pipeline on live traffic, then recount.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--example", choices=examples.names(), default="notify", help="a folder of examples/"
    )
    parser.add_argument("--rows", type=int, default=500_000, help="rows before the slot is made")
    parser.add_argument("--seconds", type=int, default=20, help="how long live counts are shown")
    parser.add_argument(
        "--keep", action="store_true", help="keep the server and the log files at the end"
    )
    return parser.parse_args(arguments)


def environment(cluster: Cluster, home: Path) -> dict[str, str]:
    """Return the tools' environment: the caller's, without its settings of other databases.

    The tools write their files to `home`.
    """
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(_REPLACED)
    }
    return (
        inherited
        | cluster.environment()
        | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "DBT_PROFILES_DIR": str(home),
            "DBT_TARGET_PATH": str(home / "target"),
            "DBT_LOG_PATH": str(home / "logs"),
            "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
            "SPARK_LOCAL_DIRS": str(home / "spark"),
            "TMPDIR": str(home),
        }
    )


@contextmanager
def cleaned_up() -> Iterator[ExitStack]:
    """Yield a stack of clean-up steps; they also run after Ctrl-C, SIGTERM and failure."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    with ExitStack() as stack:
        try:
            yield stack
        finally:
            # A second Ctrl-C must not stop the cleaning.
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)


def demo(chosen: argparse.Namespace, stack: ExitStack, console: Console) -> int:
    """Run everything; return how many groups of the facts differ from the recounts."""
    example = examples.load(chosen.example)
    home = Path(tempfile.mkdtemp(prefix="waltally-demo-"))
    cluster = Cluster(_SERVER)
    if chosen.keep:
        stack.callback(
            console.print,
            f"Kept: {home}, and a server: psql '{cluster.dsn()}'\n"
            f"Remove it: kill $(head -1 {cluster.data}/postmaster.pid); "
            f"rm -r {cluster.home} {home}",
            highlight=False,
            soft_wrap=True,
        )
    else:
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        stack.callback(cluster.remove)
    sources, warehouse = examples.databases(example, cluster.dsn, "postgres")

    began = time.monotonic()
    console.print(f"A private server and {chosen.rows:,} rows of history")
    cluster.create()
    cluster.start()
    make_sources(example, cluster, chosen.rows)
    console.print(f"  [dim]{time.monotonic() - began:.1f} s[/dim]")

    shutil.copy(ROOT / "profiles.yml.example", home / "profiles.yml")
    commands = Commands(ROOT, environment(cluster, home), home, console)
    stack.callback(commands.end_all)
    traffic = [
        example.traffic(dsn, seed=number, rate=20, truncates=False)
        for number, dsn in enumerate(sources.values(), start=1)
    ]
    for each in traffic:
        each.start()
        stack.callback(each.stop)
    console.print(
        f"{len(traffic) * 4} sessions write from here on: {example.about}", soft_wrap=True
    )

    commands.export("DBT_PROJECT_DIR", str(example.project.relative_to(ROOT)))
    # What tells the commands which source is meant, where there are several.
    chosen_source: dict[str, dict[str, str]] = {slot: {} for slot in example.slots}
    if example.has_warehouse:
        commands.export("PGDATABASE", "warehouse")
        commands.export("LOADER_TARGET_DSN", "dbname=warehouse")
        for slot in example.slots:
            chosen_source[slot] = {"LOADER_SLOT": slot, "LOADER_SOURCE_DSN": f"dbname={slot}"}
    elif example.slots[0] != DEFAULT_SLOT:
        commands.export("LOADER_SLOT", example.slots[0])

    commands.run("dbt", "deps")
    for each_source in chosen_source.values():
        commands.run("loader", "setup", **each_source)
        commands.run("spark-submit", "spark/seed.py", **each_source)
    loaders = [
        commands.start("loader", "run", "--build", **each_source)
        for each_source in chosen_source.values()
    ]
    watch(example, warehouse, chosen.seconds, commands, loaders, console)
    for each in traffic:
        each.stop()
    written = sum(each.counts.total() for each in traffic)
    console.print(f"The sessions stop after {written:,} changes")
    for loader in loaders:
        commands.stop(loader)
    for each_source in chosen_source.values():
        commands.run("loader", "run", "--once", **each_source)
        commands.run("dbt", "build", **each_source)
    if not example.has_warehouse:  # elsewhere dbt does not see the source's tables
        commands.run("dbt", "test", "--vars", "recount: true")

    console.print(show.pivot(warehouse, example.corner, example.table))
    wrong = [
        each for recount in example.recounts for each in differences(recount, sources, warehouse)
    ]
    for each_wrong in wrong[:10]:
        console.print(str(each_wrong), markup=False, highlight=False, soft_wrap=True)
    console.print(f"[bold]difference from a recount: {len(wrong)}[/bold]", highlight=False)
    return len(wrong)


def make_sources(example: Example, cluster: Cluster, rows: int) -> None:
    """Make and fill the sources, with as many rows in all, and the warehouse's database."""
    sources, _ = examples.databases(example, cluster.dsn, "postgres")
    if example.has_warehouse:
        for name in (*sources, "warehouse"):
            create_database(cluster, name)
    for number, dsn in enumerate(sources.values(), start=1):
        example.create(dsn)
        example.fill(dsn, rows // len(sources), number)


def create_database(cluster: Cluster, name: str) -> None:
    """Make an empty database."""
    connection = psycopg2.connect(cluster.dsn())
    try:
        connection.autocommit = True  # it refuses a transaction
        with connection.cursor() as cursor:
            cursor.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    finally:
        connection.close()


def watch(
    example: Example,
    warehouse: str,
    seconds: int,
    commands: Commands,
    loaders: Sequence[Popen[bytes]],
    console: Console,
) -> None:
    """Print the counts as they move, for this long after the fact's first build."""
    until = None
    while until is None or time.monotonic() < until:
        time.sleep(2)
        for loader in loaders:
            if loader.poll() is not None:
                raise commands.failure(loader, "ended by itself")
        now = show.pipeline_state(
            warehouse, example.recounts[0].fact, example.total, len(example.slots)
        )
        if now is None:
            console.print("  the fact is being built for the first time")
            continue
        until = until or time.monotonic() + seconds
        age = "no change yet" if now.age is None else f"newest change {now.age:.1f} s old"
        console.print(
            f"  {now.total:,} {example.total_of}, {age}, "
            f"{now.unstaged_bytes / 1000:,.0f} kB not staged",
            highlight=False,
            soft_wrap=True,
        )


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; return 0 only if every command succeeded and nothing differs."""
    chosen = options(arguments)
    console = Console()
    began = time.monotonic()
    try:
        with cleaned_up() as stack:
            wrong = demo(chosen, stack, console)
    except KeyboardInterrupt:
        console.print("Stopped; nothing is left behind")
        return 130
    except (CommandFailed, ClusterError) as error:
        console.print(str(error), style="red", markup=False, highlight=False, soft_wrap=True)
        return 1
    console.print(f"{time.monotonic() - began:.0f} s in all", highlight=False)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
