"""Make each fault of mutants.toml in a copy of the project, and say which its test does not find.

For a project whose tests pass. Exit code 1: a fault was not found. Exit code 2: an entry no longer
fits the code.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("mutants.toml")
PRODUCT = ("waltally", "loader", "dbt_project/macros", "spark")
SECONDS = 240
"""A test that a fault makes wait for longer has found it."""


@dataclass(frozen=True)
class Mutant:
    """A fault: `old` stands once in the product, and `test` fails where `new` is in its place."""

    fault: str
    old: str
    new: str
    test: str


def read() -> list[Mutant]:
    """Return the list."""
    return [Mutant(**each) for each in tomllib.loads(LIST.read_text())["mutant"]]


def tracked(*folders: str) -> list[str]:
    """Return the project's files in these folders, as they lie here."""
    names = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *folders]
    listed = subprocess.run(names, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def places(mutants: Sequence[Mutant]) -> tuple[dict[Mutant, str], list[str]]:
    """Return the file of each fault, and what no longer fits."""
    texts = {name: (ROOT / name).read_text() for name in tracked(*PRODUCT)}
    found, problems = {}, []
    for mutant in mutants:
        where = [name for name, text in texts.items() for _ in range(text.count(mutant.old))]
        if len(where) != 1:
            problems.append(f"{mutant.fault}: `old` stands {len(where)} times in the product")
        else:
            found[mutant] = where[0]
        file, *names = re.sub(r"\[.*", "", mutant.test).split("::")
        text = (ROOT / file).read_text() if (ROOT / file).is_file() else ""
        if not all(f"def {name}(" in text for name in names) or not text:
            problems.append(f"{mutant.fault}: there is no test {mutant.test}")
    return found, problems


def copy_project(scratch: Path) -> None:
    """Copy the project's files, without what is installed."""
    for name in tracked():
        (scratch / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, scratch / name, follow_symlinks=False)


def judge(mutant: Mutant, name: str) -> str:
    """Return what became of a fault in a file: found, NOT FOUND, or why its test could not run."""
    pytest = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    with tempfile.TemporaryDirectory(prefix="waltally-mutants-") as scratch:
        copy_project(Path(scratch))
        file = Path(scratch, name)
        file.write_text(file.read_text().replace(mutant.old, mutant.new))
        done = subprocess.run(
            [*pytest, "-o", f"timeout={SECONDS}", mutant.test],
            cwd=scratch,
            # The copy's modules hide those that are installed.
            env={**os.environ, "PYTHONPATH": scratch},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    if done.returncode == 1:
        waited = f"waited {SECONDS} s: " if "from pytest-timeout" in done.stdout else ""
        failed = re.findall(r"^FAILED (\S+)", done.stdout, re.MULTILINE)
        return f"found, {waited}{' '.join(failed)}"
    return "COULD NOT RUN\n" + done.stdout[-2000:] if done.returncode else "NOT FOUND"


def main() -> int:
    """Run the list."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="those that have this word")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--check", action="store_true", help="only see that the list fits the code")
    chosen = parser.parse_args()
    mutants = [each for each in read() if chosen.only in f"{each.fault} {each.test}"]
    found, problems = places(mutants)
    if problems or chosen.check:
        print("\n".join(problems) or f"{len(mutants)} faults fit the code")
        return 2 if problems else 0

    def run(mutant: Mutant) -> bool:
        begun = time.monotonic()
        verdict = judge(mutant, found[mutant])
        print(f"{time.monotonic() - begun:4.0f} s  {mutant.fault}: {verdict}", flush=True)
        return verdict.startswith("found")

    with ThreadPoolExecutor(chosen.jobs) as pool:
        count = sum(pool.map(run, mutants))
    print(f"{count} of {len(mutants)} faults were found")
    return 0 if count == len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main())
