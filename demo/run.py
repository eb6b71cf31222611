"""`make demo`: the whole pipeline on live traffic against a private server, and the recount.

python -m demo.run --example shop --rows 500000 --seconds 20
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

from rich.console import Console

from demo import example as examples
from demo import installation, show
from demo.commands import CommandFailed, Commands
from demo.example import Example
from demo.operate import operate
from demo.progress import timed
from testkit import run_folder
from testkit.comparison import differences
from testkit.servers import Cluster, ClusterError, administer

_SERVER = {"fsync": "off", "shared_buffers": "256MB", "max_wal_size": "4GB"}


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
        "--wheel", type=Path, metavar="FOLDER", help="run the commands of an installed wheel"
    )
    parser.add_argument(
        "--page", action="store_true", help="serve examples/dashboard while the counts move"
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep the server and the log files at the end"
    )
    chosen = parser.parse_args(arguments)
    if chosen.page and (chosen.example != "notify" or chosen.wheel):
        parser.error("--page is Notify's, from the checkout")
    return chosen


def environment(cluster: Cluster, commands: Path, home: Path) -> dict[str, str]:
    """Return the tools' environment.

    `commands` is the folder that the tools are in; they write their files to `home`.
    """
    return (
        dict(os.environ)
        | cluster.environment()
        | {
            "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
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
    """Run everything; return how many groups of the models differ from the recounts."""
    example = examples.load(chosen.example)
    home = run_folder.make()
    if not chosen.keep:
        stack.callback(shutil.rmtree, home, ignore_errors=True)
    cluster = Cluster(_SERVER)
    if chosen.keep:
        stack.callback(
            console.print,
            f"Kept: {home}, and a server: psql '{cluster.dsn()}'\n"
            f"Remove it: kill $(head -1 {cluster.data}/postmaster.pid); rm -r {home}",
            soft_wrap=True,
        )
        stack.callback(run_folder.keep, home)
    else:
        stack.callback(cluster.remove)
    sources = {slot: cluster.dsn(example.database(slot)) for slot in example.slots}
    warehouse = cluster.dsn(example.warehouse)

    console.print(f"A private server and {chosen.rows:,} rows of history", end="")
    with timed(console):
        cluster.create()
        cluster.start()
        make_databases(example, cluster, chosen.rows)

    if chosen.wheel is None:
        installed = installation.checkout(example)
    else:
        installed = installation.wheel(example, chosen.wheel, home)
    cwd = installed.cwd
    shutil.copy(cwd / installed.files / "profiles.yml.example", home / "profiles.yml")
    commands = Commands(cwd, environment(cluster, installed.commands, home), home, console)
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

    operate(
        example, installed, warehouse, commands, traffic, chosen.seconds, console, page=chosen.page
    )

    console.print(show.pivot(warehouse, example.corner, example.table))
    console.print("A recount of the tables", end="")
    with timed(console):
        wrong = [
            each
            for recount in example.recounts
            for each in differences(recount, sources, warehouse)
        ]
    for each_wrong in wrong[:10]:
        console.print(str(each_wrong), markup=False, soft_wrap=True)
    console.print(
        f"difference from a recount: {len(wrong)}", style="bold red" if wrong else "bold green"
    )
    return len(wrong)


def make_databases(example: Example, cluster: Cluster, rows: int) -> None:
    """Make the databases that the server lacks, and fill the sources with as many rows in all."""
    for name in {example.warehouse, *map(example.database, example.slots)} - {"postgres"}:
        administer(cluster, f"create database {name}")
    for number, slot in enumerate(example.slots, start=1):
        dsn = cluster.dsn(example.database(slot))
        example.create(dsn)
        example.fill(dsn, rows // len(example.slots), number)


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; return 0 only if every command succeeded and nothing differs."""
    chosen = options(arguments)
    run_folder.forget_settings()
    console = Console(highlight=False)
    began = time.monotonic()
    try:
        with cleaned_up() as stack:
            wrong = demo(chosen, stack, console)
    except KeyboardInterrupt:
        console.print("Stopped; nothing is left behind")
        return 130
    except (CommandFailed, ClusterError) as error:
        console.print(str(error), style="red", markup=False, soft_wrap=True)
        return 1
    console.print(f"{time.monotonic() - began:.0f} s in all", style="dim")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
