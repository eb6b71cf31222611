"""What a job prints under spark-submit is ours: nothing of Java's, Spark's or Python's."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.spark.support import ROOT, Source

PROGRESS = r"\s*\d+%, [\d,]+ rows read, [\d,]+ rows/s(, about \d+ s left)?"


def test_standard_error_holds_only_our_lines(source: Source) -> None:
    source.fill()
    code, out, err = source.submit()
    assert code == 0, err
    counting, *progress = err.splitlines()
    assert re.fullmatch(r"counting public\.notifications, .* at [0-9A-F]+/[0-9A-F]+", counting)
    assert progress
    assert [line for line in progress if not re.fullmatch(PROGRESS, line)] == []
    assert out.startswith("1 fact, counted at ")


def test_an_error_of_spark_is_one_sentence(source: Source, tmp_path: Path) -> None:
    for name in ("notifications", "notification_history"):
        (tmp_path / f"{name}.parquet").write_text("no Parquet")
    [(now,)] = source.ask("select pg_current_wal_insert_lsn()::text")
    code, out, err = source.submit("--parquet", str(tmp_path), "--snapshot-lsn", now)
    assert (code, out) == (34, "")
    failed, remedy, intact = err.splitlines()
    assert failed.startswith("Spark failed: ")
    assert remedy == "Try: run the seed again"
    assert intact == "The previous seed, if any, is intact."


def test_spark_submit_hands_on_every_word(tmp_path: Path) -> None:
    script = tmp_path / "words.py"
    script.write_text(
        "import json, os, sys\nprint(json.dumps([sys.argv[1:], os.environ['PGUSER']]))"
    )
    words = ["", "two words", 'a "quote"', "line\nbreak", "$HOME"]
    done = subprocess.run(
        [Path(sys.executable).parent / "spark-submit", script, *words],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "PGUSER": "a b"},
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert done.stdout == '[["", "two words", "a \\"quote\\"", "line\\nbreak", "$HOME"], "a b"]\n'
