"""`make soak`: random kills under load, with recounts.

python -m tests.soak --minutes 20 --seed 1
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat

from tests.soak.failure import SoakFailed
from tests.soak.hand import Hand, Plan


def options() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="tests.soak",
        description="Kill, cut and restart everything at random under load; recount now and then.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="how long")
    parser.add_argument("--faults", type=int, help="stop after this many faults in both worlds")
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        help="order of faults, traffic; of two worlds: this and the next, odd: identity full",
    )
    parser.add_argument("--every", type=int, default=10, help="faults between two stops")
    parser.add_argument(
        "--rate", type=float, default=10.0, help="transactions a second in each of four sessions"
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument("--keep", action="store_true", help="leave the server and the log files")
    return parser.parse_args()


def main() -> int:
    """Run the soak in a world of each identity, side by side; return 1 where a promise broke."""
    chosen = options()
    faults = chosen.faults
    shares = (None, None) if faults is None else (faults - faults // 2, faults // 2)
    seeds = (chosen.seed, chosen.seed + 1)
    with ProcessPoolExecutor(len(seeds)) as worlds:
        return max(worlds.map(_one_world, repeat(chosen), seeds, shares))


def _one_world(chosen: argparse.Namespace, seed: int, faults: int | None) -> int:
    plan = Plan(seed, chosen.minutes, faults, chosen.every, chosen.rate, chosen.keep)
    hand = Hand(plan, lambda line: print(f"seed {seed} {line}", file=sys.stderr, flush=True))
    failure = ""
    try:
        hand.run()
    except SoakFailed as error:
        failure = str(error)
        print(failure, file=sys.stderr)
    done = hand.summary()
    if chosen.json:
        print(json.dumps(done | {"failure": failure or None}, indent=2))
    else:
        kinds = ", ".join(f"{count} {kind}" for kind, count in done["faults_by_kind"].items())
        print(
            f"seed {seed}: {done['faults']} faults in {done['seconds']:.0f} s ({kinds}); "
            f"{done['stops']} stops; {done['changes_compared']:,} changes staged; "
            f"{done['positions_observed']:,} positions observed; longest of "
            f"{done['commits_timed']:,} commits {done['longest_commit_seconds']:.2f} s; "
            f"{'FAILED' if failure else 'violations 0, differences 0'}"
        )
    return 1 if failure else 0


if __name__ == "__main__":
    sys.exit(main())
