"""The pipeline's commands in the order in which a person types them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from subprocess import Popen
from typing import Any

from rich.console import Console

from demo import show
from demo.commands import Commands
from demo.example import Example
from demo.installation import Installation
from testkit.servers import free_port
from testkit.traffic import Sessions
from waltally.freshness import judge, say
from waltally.settings import DEFAULT_SLOT
from waltally.units import size


def operate(
    example: Example,
    installed: Installation,
    warehouse: str,
    commands: Commands,
    traffic: Sequence[Sessions[Any]],
    seconds: int,
    console: Console,
    page: bool = False,
) -> None:
    """Set up, follow and build, take the baselines under traffic; end it, and apply the rest.

    `warehouse` is the DSN of the models' database; `seconds` is how long the counts are shown, with
    a page of them beside it where `page` says so.
    """
    commands.export("DBT_PROJECT_DIR", str(installed.project))
    sources = choose_sources(example, commands)
    commands.run("dbt", "deps")
    for source in sources:
        commands.run("loader", "setup", **source)
    commands.run("dbt", "build", **sources[0])
    # What is written while the seed counts is staged, so the models are live when it ends.
    loaders = [commands.start("loader", "run", "--build", **source) for source in sources]
    for source in sources:
        commands.run("spark-submit", str(installed.files / "spark" / "seed.py"), **source)
    apply = ("spark-submit", str(installed.files / "spark" / "apply.py"))
    appliers = [commands.start(*apply, **source) for source in sources if example.has_spark_models]
    if page:
        serve_page(commands, console)
    watch(example, warehouse, seconds, commands, loaders, console)
    for sessions in traffic:
        sessions.stop()
    written = sum(sessions.counts.total() for sessions in traffic)
    console.print(f"The sessions stop after {written:,} changes")
    for loader in loaders:
        commands.stop(loader)
    for applier in appliers:
        applier.terminate()
    for source in sources:
        commands.run("loader", "run", "--once", "--build", **source)
        if example.has_spark_models:
            commands.run(*apply, "--once", **source)
    commands.run("dbt", "test")


def serve_page(commands: Commands, console: Console) -> None:
    """Serve examples/dashboard until the demo ends, and print where to look."""
    port = str(free_port())
    app = ["uvicorn", "examples.dashboard.app:app", "--timeout-graceful-shutdown", "1"]
    commands.start(*app, "--port", port)
    console.print(f"  [bold cyan]Look at http://127.0.0.1:{port}/[/]")


def choose_sources(example: Example, commands: Commands) -> list[dict[str, str]]:
    """Return what tells a command which source is meant; nothing where there is one."""
    if not example.has_warehouse:
        if example.slots != (DEFAULT_SLOT,):
            commands.export("LOADER_SLOT", example.slots[0])
        return [{}]
    commands.export("PGDATABASE", example.warehouse)
    commands.export("LOADER_TARGET_DSN", f"dbname={example.warehouse}")
    return [
        {"LOADER_SLOT": slot, "LOADER_SOURCE_DSN": f"dbname={example.database(slot)}"}
        for slot in example.slots
    ]


def watch(
    example: Example,
    warehouse: str,
    seconds: int,
    commands: Commands,
    loaders: Sequence[Popen[bytes]],
    console: Console,
) -> None:
    """Print the counts as they move, for this long after the model's first build."""
    until = None
    while until is None or time.monotonic() < until:
        time.sleep(3)
        for loader in loaders:
            if loader.poll() is not None:
                raise commands.failure(loader, "ended by itself")
        now = show.pipeline_state(
            warehouse, example.recounts[0].model, example.total, len(example.slots)
        )
        if now is None:
            continue
        until = until or time.monotonic() + seconds
        color = {"fresh": "green", "late": "yellow", "stale": "red"}[judge(now.age)]
        console.print(
            f"  [bold cyan]{now.total:,}[/] {example.total_of}, [{color}]{say(now.age)}[/], "
            f"{size(now.unstaged_bytes)} of WAL not staged",
            soft_wrap=True,
        )
