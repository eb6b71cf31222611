"""Checks a job's arguments, or shows its help, before `spark-submit` starts a JVM.

python spark/waltally_jobs/common/check_arguments.py spark/seed.py --model ft_orders
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

SHOWN = 100
"""The exit code where the help was shown, so that nothing is left to do."""

if __name__ == "__main__":
    _, job, *arguments = sys.argv
    sys.path[0] = str(Path(job).resolve().parent)
    sys.argv = [job, *arguments]
    runpy.run_path(job)["app"].check(SHOWN)
