"""The runbook's procedures, read from its text and carried out as an operator would."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from testkit.commands import LOADER, ROOT, RunningLoader, run
from testkit.databases import paste
from testkit.notify_traffic import Traffic
from testkit.pipeline import Pipeline
from testkit.servers import BIN

RUNBOOK = (ROOT / "docs" / "runbook.md").read_text()

PROGRAMS = ("loader", "psql", "pg_dump", "pg_restore")
"""Run as they stand in the text; whatever else it says, the test must know how to do."""


@dataclass(frozen=True)
class Block:
    """One fenced block: commands of the shell, or SQL for the source or the target."""

    language: str
    text: str

    @property
    def commands(self) -> list[str]:
        """The commands without what is said about them; a comment of its own line stays."""
        lines = [re.sub(r"\s+# .*", "", line) for line in self.text.splitlines()]
        return [line for line in lines if line]


def blocks(title: str) -> list[Block]:
    """Return the blocks of the procedure with this title."""
    _, _, text = RUNBOOK.partition(f"\n### {title}\n")
    section = re.split("^##", text, maxsplit=1, flags=re.MULTILINE)[0]
    fenced = re.findall(r"^```(sh|sql)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert fenced, f"{title} has no commands"
    return [Block(language, text) for language, text in fenced]


@dataclass
class Operator:
    """Carries procedures out on a pipeline, with what a test machine lacks put in its place.

    `instead` says what to do, given the whole command, for one that begins so.
    """

    pipeline: Pipeline
    traffic: Traffic | None = None
    instead: dict[str, Callable[[str], object]] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    """Those of /etc/waltally/environment that differ from the pipeline's, and the text's own."""
    running: RunningLoader | None = None
    said: str = ""
    """What the last program printed on its standard output."""

    def carry_out(self, title: str, *numbers: int, table: str = "notifications") -> None:
        """Do what the procedure says; with `numbers` only these of its blocks, from 0.

        `table` is the one that its SQL is meant for.
        """
        found = blocks(title)
        for number in numbers or range(len(found)):
            block = found[number]
            if block.language == "sql":
                self._sql(block.text.replace("notifications", table))
            else:
                for command in block.commands:
                    self._do(command)

    def write(self, changes: int = 30) -> None:
        """Let the traffic go on until it has committed some more changes."""
        assert self.traffic is not None
        self.traffic.wait(changes)

    def pause(self) -> None:
        """Stop the traffic, if there is any, until `resume`."""
        if self.traffic is not None:
            self.traffic.stop()

    def resume(self) -> None:
        if self.traffic is not None:
            self.traffic.start()

    def ends_exact(self) -> None:
        """Stop the traffic and the loader; what is then staged and built equals a recount."""
        self.pause()
        self.stop()
        self.pipeline.goes_on()

    def start(self) -> None:
        self.stop()
        self.running = self.pipeline.follow(**self.settings)

    def stop(self) -> None:
        """Stop the service; it may have ended by itself, as a refusal does."""
        if self.running is not None and self.running.process.poll() is None:
            self.running.end()
        self.running = None

    def close(self) -> None:
        """Leave nothing behind, whatever went wrong."""
        if self.running is not None:
            self.running.kill()
        self.pause()

    def _do(self, command: str) -> None:
        for beginning, action in self.instead.items():
            if command.startswith(beginning):
                action(command)
                return
        words = command.split()
        if words[0] == "#":
            return
        if words[0] == "systemctl":
            self._systemctl(words[1], words[2:])
        elif command.removesuffix(" --model ft_service_stats") == "spark-submit spark/seed.py":
            self._seed()
        elif command == "dbt build":
            self.pipeline.build()
        else:
            assert words[0] in PROGRAMS, f"no way to do: {command}"
            self._run(command)

    def _systemctl(self, verb: str, units: list[str]) -> None:
        for unit in units:
            if unit == "waltally-loader":
                {"start": self.start, "stop": self.stop, "restart": self.start}[verb]()
            else:
                assert unit.endswith(".timer"), f"no such unit here: {unit}"
                assert (ROOT / "ops" / "systemd" / unit).exists(), unit

    def _seed(self) -> None:
        """Count as the seed does, for which the quick way of the tests wants a quiet source."""
        self.pause()
        self.pipeline.seed()
        self.resume()

    def _sql(self, text: str) -> None:
        place, _, statements = text.partition("\n")
        sides = {"source": self.pipeline.source, "target": self.pipeline.target}
        asked = sides[place.removeprefix("-- at the ")]
        self.said = paste(asked.cluster, asked.name, statements)

    def _run(self, command: str) -> None:
        source, target = self.pipeline.dsns
        environment = {
            **self.pipeline.environment(LOADER_SOURCE_DSN=source, LOADER_TARGET_DSN=target),
            "PATH": f"{LOADER.parent}:{BIN}:{os.environ['PATH']}",
            **self.settings,
        }
        here = command.replace("/var/tmp", str(self.pipeline.home))
        done = run(["bash", "-euc", here], environment, timeout=300)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        self.said = done.stdout
