"""Whether capture, apply and freshness got worse since a revision: ratios, each with its bound.

python -m benchmarks.gate --base v1.0.0 --rounds 5

The revision's files go into a temporary folder, with a server of its own and the packages of this
environment. The two sides take turns within each round; the first round is not counted.
*Capture* is the CPU of `loader run --once` and of the server while a backlog is staged, *apply* the
server's while it is applied, both less that of the same command with nothing to do; *freshness* is
the median time from commit to visible at a steady rate. The least of all rounds is compared, of the
command with and without a backlog each, because whatever disturbs a round makes it worse. The exit
code is 1 where a ratio is beyond its bound.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks import report, workload
from benchmarks.freshness.__main__ import OTHERS, SERVER
from benchmarks.freshness.delays import commit_to_visible
from benchmarks.freshness.load import Load
from benchmarks.freshness.poller import TargetPoller
from benchmarks.freshness.writer import PacedWriter
from benchmarks.loader_process import running
from benchmarks.measure import ROOT, run, say
from testkit.servers import Cluster

BOUNDS = {"capture, CPU s": 1.15, "apply, CPU s": 1.15, "freshness, s": 1.3}
"""What each ratio may be at most."""
SLOT = "gate"

_EACH = 5_000
_IDLE = "idle: "


class Side:
    """One of the two revisions: its loader, its models and its server."""

    def __init__(self, name: str, checkout: Path, cluster: Cluster) -> None:
        self.name, self._cluster = name, cluster
        # -P: the folder in which it is started has a loader too.
        self._loader = [sys.executable, "-P", "-c", "from loader.cli import main; main()"]
        self._environment = {
            **workload.environment(cluster, cluster, SLOT, checkout),
            "DBT_TARGET_PATH": str(checkout / "target"),
            "PYTHONPATH": str(checkout),
        }
        workload.create(cluster)
        run([*self._loader, "setup"], self._environment, {})
        run([workload.BIN / "dbt", "run", "--select", *workload.MODELS], self._environment, {})
        if (checkout / "spark/waltally_jobs").exists():  # before, a model waited for no seed
            workload.seed(self._environment, checkout)
        self._writer = PacedWriter(cluster.dsn() + OTHERS)

    def measure(self, changes: int, rate: int, seconds: float) -> dict[str, float]:
        """Return what a backlog of so many changes costs, and how fresh the model then is.

        What the commands cost with nothing to do has the names with `_IDLE` before them.
        """
        for _ in range(changes // _EACH):
            self._writer.write(_EACH)
        capture, idle_capture = (sum(self._cpu_seconds("run", "--once")) for _ in range(2))
        apply, idle_apply = (self._cpu_seconds("run", "--once", "--build")[0] for _ in range(2))
        follow = [*self._loader, "run", "--build", "--verbose"]
        with (
            running(follow, self._environment) as loader,
            TargetPoller(self._cluster.dsn() + OTHERS, SLOT) as poller,
        ):
            load = Load(self._writer, poller, loader, self._cluster)
            load.settle()
            written = self._writer.committed[load.steady(rate, seconds, 10)]
        found = commit_to_visible(written, poller.observations)
        with_backlog = dict(zip(BOUNDS, (capture, apply, median(found)), strict=True))
        idle = zip(BOUNDS, (idle_capture, idle_apply, 0.0), strict=True)
        return with_backlog | {_IDLE + what: seconds for what, seconds in idle}

    def _cpu_seconds(self, *words: str) -> tuple[float, float]:
        """Return what the loader's command spends at the server and itself."""
        cost = run([*self._loader, *words], self._environment, {"server": self._cluster})
        return cost.servers["server"], cost.program


def check_out(revision: str, home: Path) -> Path:
    """Return a folder below `home` with the files of the revision."""
    _git("archive", f"--output={home / 'base.tar'}", revision)
    shutil.unpack_archive(home / "base.tar", home / "base", filter="data")
    return home / "base"


def last_release() -> str:
    """Return the last tag. Raises SystemExit where there is none."""
    tag = _git("tag", "--sort=-creatordate").partition("\n")[0]
    if not tag:
        raise SystemExit("There is no release to compare with\nTry: make bench-gate BASE=REVISION")
    return tag


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"git {' '.join(words)} failed: {done.stderr}")
    return done.stdout


def measure(
    base: str, rounds: int, changes: int, rate: int, seconds: float
) -> Iterator[report.Table]:
    """Compare the least of both sides per quantity. Raises SystemExit where it is beyond its bound.

    The rows are printed before.
    """
    base = base or last_release()
    taken: dict[str, list[dict[str, float]]] = {base: [], "here": []}
    with tempfile.TemporaryDirectory() as home, Cluster(SERVER) as one, Cluster(SERVER) as other:
        checkout = check_out(base, Path(home))
        sides = [Side(base, checkout, one), Side("here", ROOT, other)]
        for number in range(rounds + 1):
            for side in sides if number % 2 else reversed(sides):
                taken[side.name].append(side.measure(changes, rate, seconds))
            say(f"round {number} of {rounds}")
    rows: list[report.Row] = []
    for what, bound in BOUNDS.items():
        before, now = (
            [cost[what] - min(c[_IDLE + what] for c in costs) for cost in costs]
            for costs in (taken[name][1:] for name in (base, "here"))
        )
        ratio = min(now) / min(before)
        rows.append(
            {
                "": what,
                base: min(before),
                "here": min(now),
                "ratio": f"{ratio:.2f}",
                "of the rounds": report.spread([n / b for n, b in zip(now, before, strict=True)]),
                "bound": bound,
                "kept": "yes" if ratio <= bound else "no",
            }
        )
    yield report.Table("", rows)
    if any(row["kept"] == "no" for row in rows):
        raise SystemExit(1)


if __name__ == "__main__":
    report.main(
        __doc__,
        measure,
        base=("", "a git revision; the last tag where it is empty"),
        rounds=(5, "rounds that count"),
        changes=(100_000, "a backlog"),
        rate=(1_000, "changes/s"),
        seconds=(5.0, "of that rate"),
    )
