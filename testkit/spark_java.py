"""How Java runs what a test starts of Spark; ops/spark-submit does nearly the same for a user."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
    # Java has no other TMPDIR.
    f" -Djava.io.tmpdir={tempfile.gettempdir()}"
    # Where there is no such file, it goes on.
    f' "-XX:SharedArchiveFile={Path(sys.prefix) / "spark-classes.jsa"}" -Xshare:auto -Xlog:disable'
)
