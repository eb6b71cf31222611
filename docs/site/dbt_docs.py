"""Makes dbt's own docs of the example notify and of the package, as one file of the site.

python -m docs.site.dbt_docs target/dbt-docs

The models are built on a private server, with empty tables of the application: so the docs have
every table with its types, and the code as the server gets it.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from rich.console import Console

from demo import example, installation
from demo.commands import Commands
from demo.run import cleaned_up, environment
from testkit import run_folder
from testkit.servers import Cluster


def make(folder: Path, console: Console) -> None:
    """Write index.html into the folder: pages, manifest and catalog in one file.

    Raises testkit.servers.ClusterError, demo.commands.CommandFailed.
    """
    notify = example.load("notify")
    installed = installation.checkout(notify)
    with cleaned_up() as stack:
        home = run_folder.make()
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        cluster = stack.enter_context(Cluster({"fsync": "off"}))
        notify.create(cluster.dsn())
        shutil.copy(example.ROOT / "profiles.yml.example", home / "profiles.yml")
        commands = Commands(
            installed.cwd, environment(cluster, installed.commands, home), home, console
        )
        stack.callback(commands.end_all)
        commands.export("DBT_PROJECT_DIR", str(installed.project))
        commands.run("dbt", "deps")
        commands.run("loader", "setup")
        commands.run("loader", "run", "--once")
        commands.run("dbt", "run")
        commands.run("dbt", "docs", "generate", "--static")
        folder.mkdir(parents=True, exist_ok=True)
        made = (home / "target" / "static_index.html").read_text()
        (folder / "index.html").write_text(made.replace(f"{home}/", ""))


if __name__ == "__main__":
    run_folder.forget_settings()
    make(Path(sys.argv[1]), Console())
