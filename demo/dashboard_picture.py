"""Runs a pipeline under a load with a spike, and draws its dashboard: docs/figures/dashboard.svg.

No Grafana is needed: a private Prometheus scrapes the loader, and answers the expressions of
ops/grafana-dashboard.json.

python -m demo.dashboard_picture --prometheus /usr/bin/prometheus
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from demo import example as examples
from demo import installation, own_environment, run_folder
from demo.cluster import Cluster, ClusterError, free_port
from demo.commands import CommandFailed, Commands
from demo.draw_panels import draw
from demo.example import ROOT
from demo.panels import Panel, Window, read_panels
from demo.prometheus import Prometheus, QueryFailed
from demo.run import cleaned_up, environment

PICTURE = ROOT / "docs" / "figures" / "dashboard.svg"
DRAWN = (
    *("Following", "Source answers", "Target answers", "Lag", "Freshness, p95", "Rejected changes"),
    *("Changes staged", "Freshness", "Build duration"),
    *("Lag in bytes", "WAL written and staged", "Batch duration"),
)
"""The panels in the picture; all the others are asked for too, so that each expression is tried."""
SCRAPED_EVERY = 1
RATES_OVER = 10
"""Both in seconds."""
_ROWS = 20_000
_CALM, _SPIKE = 30, 20
"""Seconds of the load before and after the spike, and of the spike."""


def record(program: Path, stack: ExitStack, console: Console) -> list[Panel]:
    """Run the pipeline and return every panel of the dashboard, and draw."""
    home = run_folder.make()
    stack.callback(shutil.rmtree, home, ignore_errors=True)
    cluster = Cluster({"fsync": "off"})
    stack.callback(cluster.remove)
    cluster.create()
    cluster.start()
    example = examples.load("shop")
    example.create(cluster.dsn())
    example.fill(cluster.dsn(), _ROWS, 1)
    installed = installation.checkout(example)
    shutil.copy(ROOT / "profiles.yml.example", home / "profiles.yml")
    settings = {
        "LOADER_SLOT": "shop",
        "DBT_PROJECT_DIR": str(installed.project),
        "LOADER_METRICS_PORT": str(free_port()),
    }
    commands = Commands(
        ROOT, environment(cluster, installed.commands, home) | settings, home, console
    )
    stack.callback(commands.end_all)
    commands.run("dbt", "deps")
    commands.run("loader", "setup")
    commands.run("spark-submit", "spark/seed.py")
    prometheus = Prometheus(program, home, free_port())
    commands.start(*prometheus.command(int(settings["LOADER_METRICS_PORT"]), SCRAPED_EVERY))
    commands.start("loader", "run", "--build")

    calm = example.traffic(cluster.dsn(), seed=1, rate=10, truncates=False)
    calm.start()
    stack.callback(calm.stop)
    prometheus.wait_for("increase(waltally_build_duration_seconds_count[30s]) > 10", 180)
    time.sleep(RATES_OVER)
    began = time.time()
    time.sleep(_CALM)
    console.print("The load rises")
    spike = example.traffic(cluster.dsn(), seed=2, rate=60, truncates=False)
    spike.start()
    time.sleep(_SPIKE)
    spike.stop()
    console.print("and falls")
    time.sleep(_CALM)
    window = Window(began, time.time(), SCRAPED_EVERY, RATES_OVER)
    panels = read_panels(prometheus, window)
    title = (
        "Panels of ops/grafana-dashboard.json, drawn from a real scrape "
        f"(each {SCRAPED_EVERY} s, rates over {RATES_OVER} s)"
    )
    by_title = {panel.title: panel for panel in panels}
    draw([by_title[each] for each in DRAWN], window, title, PICTURE)
    return panels


def main() -> int:
    """Record and draw; return 0 only if every expression was answered."""
    parser = argparse.ArgumentParser(prog="demo.dashboard_picture", description=__doc__)
    parser.add_argument("--prometheus", type=Path, default=shutil.which("prometheus"))
    program = parser.parse_args().prometheus
    own_environment.forget_settings()
    console = Console(highlight=False)
    if program is None or not os.access(program, os.X_OK):
        console.print("Prometheus is not installed.\nTry: make picture-dashboard", style="red")
        return 1
    try:
        with cleaned_up() as stack:
            panels = record(program, stack, console)
    except KeyboardInterrupt:
        return 130
    except (ClusterError, CommandFailed, QueryFailed) as error:
        console.print(str(error), style="red", markup=False, soft_wrap=True)
        return 1
    for panel in panels:
        console.print(f"{panel.title}: {len(panel.lines)} lines", markup=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
