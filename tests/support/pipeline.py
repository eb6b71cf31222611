"""What the tests of trouble share: a source, a target, a loader that can be listened to."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import pytest

from demo import recount
from loader.build.builder import Models
from tests.support import LOADER, ROOT, Database, wait_until

SECRET = "hunter2"


class Running:
    """A loader in the background, and what it has logged so far."""

    def __init__(self, environment: dict[str, str], log: Path, *arguments: str) -> None:
        self._log = log
        with log.open("w") as out:
            self.process = subprocess.Popen(
                [str(LOADER), "run", *arguments], env=environment, cwd=ROOT, stderr=out
            )

    def said(self) -> str:
        return self._log.read_text()

    def wait_for(self, words: str, times: int = 1) -> None:
        """Return once it has logged the words so often."""
        wait_until(
            lambda: self.said().count(words) >= times or self.process.poll() is not None, words
        )
        assert self.said().count(words) >= times, self.said()

    def refuses(self) -> tuple[int, str]:
        """Return the exit code and the error of a loader that ends by itself."""
        wait_until(lambda: self.process.poll() is not None, f"it ends: {self.said()}")
        return self.process.returncode, sentence(self.said())

    def end(self) -> None:
        """Stop it cleanly."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=60)
        assert self.process.returncode == 0, self.said()

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Scene:
    """A source and a target, the same by default, with the commands of an operator."""

    def __init__(
        self,
        source: Database,
        home: Path,
        models: Models,
        patch: pytest.MonkeyPatch,
        target: Database | None = None,
    ) -> None:
        self.source = source
        self.target = target or source
        self.home = home
        self._models = models
        self._patch = patch
        self._logs = 0

    @property
    def slot(self) -> str:
        return self.source.slot

    def environment(self, **more: str) -> dict[str, str]:
        target = {"LOADER_TARGET_DSN": self.target.cluster.dsn(self.target.name)}
        return {**self.source.environment(), **target, **more}

    def begin(self, rows: int = 5) -> None:
        """Set up, with a history that only a seed knows and changes that are staged and built."""
        self.source.insert(rows, "delivered")
        self.must("setup")
        self.seed()
        self.source.insert(rows)
        self.must("run", "--once")
        self.build()

    def loader(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(LOADER), *arguments],
            env=self.environment(**more),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def must(self, *arguments: str) -> str:
        done = self.loader(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refused(self, *arguments: str) -> tuple[int, str]:
        """Run the loader, which must refuse, and return its exit code and its error."""
        done = self.loader(*arguments)
        return done.returncode, sentence(done.stderr)

    def start(self, *arguments: str, **more: str) -> Running:
        self._logs += 1
        return Running(self.environment(**more), self.home / f"run{self._logs}.log", *arguments)

    def follow(self, *arguments: str, **more: str) -> Running:
        """Start a loader and return it once it follows the slot."""
        running = self.start(*arguments, **more)
        running.wait_for("following the slot")
        return running

    def staged(self) -> int:
        return self.target.staged()

    def wait_for_staged(self, rows: int) -> None:
        wait_until(lambda: self.staged() == rows, f"{rows} rows are staged")

    def position(self) -> str:
        return str(self.target.value("select position_lsn from cdc.slot_position"))

    def seed(self) -> None:
        """Count the quiet source at its WAL's end, as spark/seed.py does without a pause."""
        counts = recount.expected(self.source.cluster.dsn(self.source.name))
        at = self.source.value("select pg_current_wal_insert_lsn()")
        self.target.execute("delete from cdc.historical_counts where slot_name = %s", self.slot)
        for group, parts in counts.items():
            for table, rows in zip(("notifications", "notification_history"), parts, strict=True):
                if rows:
                    self.target.execute(
                        "insert into cdc.historical_counts values (%s, %s, %s, %s, %s, %s, %s)",
                        self.slot,
                        f"public.{table}",
                        *group,
                        rows,
                    )
        self.target.execute(
            "insert into cdc.historical_snapshot "
            "select slot_name, gen_random_uuid(), %s, system_identifier from cdc.slot_position "
            "where slot_name = %s on conflict (slot_name) do update set seed_id = excluded.seed_id,"
            "snapshot_lsn = excluded.snapshot_lsn, system_identifier = excluded.system_identifier",
            at,
            self.slot,
        )

    def build(self) -> None:
        """Apply the models in this process."""
        for name, value in self.target.environment(LOADER_SLOT=self.slot).items():
            if name.startswith(("PG", "LOADER_")):
                self._patch.setenv(name, value)
        self._models.apply()

    def differences(self) -> list[recount.Difference]:
        """Return where the fact differs from a recount."""
        source, target = (each.cluster.dsn(each.name) for each in (self.source, self.target))
        return recount.differences(source, target, slot=self.slot)

    def carry_out(self, said: str) -> None:
        """Run the commands that an error's `Try:` line names, in their order."""
        commands: dict[str, Callable[[], object]] = {
            "loader setup": lambda: self.must("setup"),
            "loader setup --renew": lambda: self.must("setup", "--renew"),
            "spark-submit spark/seed.py": self.seed,
            "dbt build": self.build,
        }
        named = re.findall(r"`([^`]+)`", said.split("Try: ")[1])
        assert named, said
        for command in named:
            if query := re.fullmatch(r'psql -c "(.*)"', command):
                self.source.execute(query[1])
            else:
                commands[command]()

    def recovers_from(self, said: str) -> None:
        """The remedy makes the counts right, and they stay right when more comes."""
        self.carry_out(said)
        assert self.differences() == []
        self.source.insert(4, "sent")
        self.source.execute("update notifications set notification_status = 'failed'")
        self.goes_on()

    def goes_on(self) -> None:
        """What is committed is staged and built, and equals a recount."""
        self.must("run", "--once")
        self.build()
        assert self.differences() == []


def sentence(said: str) -> str:
    """Return the one error in what a command said, with its remedy and without a password."""
    assert "Traceback" not in said, said
    assert said.count("Error: ") == 1, said
    assert SECRET not in said
    error = said[said.index("Error: ") :]
    message, remedy = error.strip().split("\nTry: ")
    assert "\n" not in message + remedy, said
    return error


def profiles(home: Path) -> dict[str, str]:
    """Give dbt a home of its own, and return the environment that names it."""
    (home / "profiles.yml").write_text((ROOT / "profiles.yml.example").read_text())
    return {
        "DBT_PROFILES_DIR": str(home),
        "DBT_TARGET_PATH": str(home / "target"),
        "DBT_LOG_PATH": str(home / "logs"),
        "PATH": f"{LOADER.parent}{os.pathsep}{os.environ['PATH']}",
    }
