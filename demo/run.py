"""`make demo`: the whole pipeline on live traffic against a private server, and the recount.

python -m demo.run --rows 500000 --seconds 20
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from types import FrameType

from rich.console import Console

from demo import recount, show, source
from demo.cluster import Cluster, ClusterError
from demo.commands import CommandFailed, Commands
from demo.traffic import Traffic

_ROOT = Path(__file__).parent.parent
_SERVER = {"fsync": "off", "shared_buffers": "256MB", "max_wal_size": "4GB"}
_REPLACED = ("PG", "LOADER_", "DBT_")


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="demo.run",
        description="Run the whole pipeline on live traffic, then recount.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
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
    """Run everything; return how many groups of the fact differ from the recount."""
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
    dsn = cluster.dsn()

    began = time.monotonic()
    console.print(f"A private server and {chosen.rows:,} rows of history")
    cluster.create()
    cluster.start()
    source.create(dsn)
    live_rows = chosen.rows * 2 // 5
    source.fill(dsn, live_rows=live_rows, history_rows=chosen.rows - live_rows)
    source.set_identity(dsn, "covering")
    console.print(f"  [dim]{time.monotonic() - began:.1f} s[/dim]")

    shutil.copy(_ROOT / "profiles.yml.example", home / "profiles.yml")
    commands = Commands(_ROOT, environment(cluster, home), home, console)
    stack.callback(commands.end_all)
    traffic = Traffic(dsn, rate=20, identity="covering")
    traffic.start()
    stack.callback(traffic.stop)
    console.print("Four sessions write from here on: inserts, moves, archiving, purges, rollbacks")

    commands.run("loader", "setup")
    commands.run("spark-submit", "spark/seed.py")
    loader = commands.start("loader", "run", "--build")
    watch(dsn, chosen.seconds, commands, loader, console)
    traffic.stop()
    console.print(f"The sessions stop after {traffic.counts.total():,} changes")
    commands.stop(loader)
    commands.run("loader", "run", "--once")
    commands.run("dbt", "build")
    commands.run("dbt", "test", "--vars", "recount: true")

    console.print(show.counts_by_status(dsn))
    wrong = recount.differences(dsn)
    for group, recounted, counted in wrong[:10]:
        console.print(group, counted, "but recounted", recounted, soft_wrap=True)
    console.print(f"[bold]difference from a recount: {len(wrong)}[/bold]", highlight=False)
    return len(wrong)


def watch(
    dsn: str, seconds: int, commands: Commands, loader: Popen[bytes], console: Console
) -> None:
    """Print the counts as they move, for this long after the fact's first build."""
    until = None
    while until is None or time.monotonic() < until:
        try:
            loader.wait(2)
        except TimeoutExpired:
            now = show.pipeline_state(dsn)
        else:
            raise commands.failure(loader, "ended by itself")
        if now is None:
            console.print("  the fact is being built for the first time")
            continue
        until = until or time.monotonic() + seconds
        age = "no change yet" if now.age is None else f"newest change {now.age:.1f} s old"
        console.print(
            f"  {now.rows:,} notifications, {age}, {now.unstaged_bytes / 1000:,.0f} kB not staged",
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
