"""One source with rows and random traffic, and the project's commands on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

from testkit import recount
from testkit import source as notify
from testkit.commands import ROOT, run, wait_until
from testkit.comparison import Difference
from testkit.databases import Database
from testkit.notify_traffic import Traffic
from testkit.servers import Cluster
from testkit.source import Identity

BIN = Path(sys.executable).parent


class Pipeline:
    """A database with rows, its traffic, and the environment of the commands."""

    def __init__(
        self, cluster: Cluster, database: Database, home: Path, identity: Identity, seed: int
    ) -> None:
        self.database = database
        self.dsn = cluster.dsn(database.name)
        self.random = Random(seed)
        notify.create(self.dsn)
        notify.fill(
            self.dsn,
            services=5,
            templates=15,
            live_rows=2000,
            history_rows=3000,
            seed=seed,
            null_share=0.02 if identity == "full" else 0.0,
        )
        notify.set_identity(self.dsn, identity)
        self.traffic = Traffic(self.dsn, seed=seed, rate=60, identity=identity, truncates=True)
        shutil.copy(ROOT / "profiles.yml.example", home / "profiles.yml")
        inherited = database.environment()
        # As a user has it: `loader setup` parses the project that is shipped.
        del inherited["LOADER_MANIFEST"]
        self.environment = {
            **inherited,
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "DBT_PROFILES_DIR": str(home),
            "DBT_TARGET_PATH": str(home / "target"),
            "DBT_LOG_PATH": str(home / "logs"),
        }

    def run(self, *command: str) -> str:
        """Run a command to its end; fail the test where it fails."""
        done = run(list(command), self.environment)
        assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done.stdout

    def start(self, *command: str) -> subprocess.Popen[str]:
        """Start a command in the background."""
        return subprocess.Popen(
            command,
            env=self.environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def write(self) -> None:
        """Wait until the traffic has written some more; it goes on."""
        until = self.traffic.counts.total() + self.random.randint(50, 400)
        wait_until(lambda: self.traffic.counts.total() >= until, "the traffic goes on")

    def differences(self) -> list[Difference]:
        """Return where the fact differs from a recount."""
        return recount.differences(self.dsn, slot=self.database.slot)
