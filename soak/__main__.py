"""`make soak`: random faults under load, with checks of all results in between.

python -m soak --minutes 20 --seed 1
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat

from soak.programs import SoakFailed
from soak.soak import Soak
from testkit import run_folder


def options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="soak",
        description="Kill, cut and restart the parts of two systems at random under load, and "
        "check their results. One has replica identity full, the other a covering index.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--minutes", type=float, default=10.0, help="how long")
    add("--faults", type=int, help="stop after this many faults in both systems")
    order = "decides the order of faults and the traffic; the other system gets the next number, "
    add("--seed", type=int, default=1, help=f"{order}and the odd one has identity full")
    add("--every", type=int, default=10, help="faults between two checks")
    add("--rate", type=float, default=10.0, help="transactions per second in each of four sessions")
    add("--keep", action="store_true", help="leave the servers and the log files")
    return parser.parse_args()


def main() -> int:
    """Run one system of each identity, side by side; return 1 where a promise was broken."""
    chosen = options()
    run_folder.forget_settings()
    faults = chosen.faults
    shares = (None, None) if faults is None else (faults - faults // 2, faults // 2)
    with ProcessPoolExecutor(2) as systems:
        return max(systems.map(_one_system, repeat(chosen), (0, 1), shares))


def _one_system(chosen: argparse.Namespace, number: int, faults: int | None) -> int:
    home = run_folder.make()
    seed = chosen.seed + number
    soak = Soak(seed, chosen.minutes, faults, chosen.every, chosen.rate, chosen.keep)
    result = "violations 0, differences 0"
    try:
        soak.run()
    except SoakFailed as error:
        result = "FAILED"
        print(error, file=sys.stderr)
    finally:
        run_folder.keep(home) if chosen.keep else shutil.rmtree(home, ignore_errors=True)
    print(json.dumps({"result": result, **soak.summary()}))
    return int(result == "FAILED")


if __name__ == "__main__":
    sys.exit(main())
