"""What a job prints under spark-submit is ours: nothing of Java's, Spark's or Python's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from waltally_jobs.archiving.manifests import Baseline, Origin
from waltally_jobs.common.compared import Comparison, Difference
from waltally_jobs.common.progress import print_lines, print_status
from waltally_jobs.replaying.result import Replay, ReplayedModel
from waltally_jobs.seeding.archived import Purged
from waltally_jobs.seeding.store import Rejection, StoredBaseline
from waltally_jobs.seeding.summary import ModelSummary, Summary

from loader.staging.records import ModelState
from testkit.commands import ROOT
from testkit.hostile import FORGED
from testkit.model import parsed
from tests.spark.support import Source
from waltally.escapes import escaped


def test_what_came_from_data_stays_in_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    stored = StoredBaseline(
        {"public.orders": (1, 1)},
        [Rejection("public.orders", FORGED, 7, {FORGED: FORGED})],
        Purged("kept"),
    )
    model = parsed("ft_orders", ["channel"], "public.orders")
    state = ModelState(FORGED, FORGED, "waits", FORGED, FORGED, None, "database")
    seeded = ModelSummary(model, stored, state)
    comparison = Comparison(1, (), 1, [Difference(FORGED, "1", "2", {FORGED: FORGED})])
    baseline = Baseline(Origin("1", "app"), model, "id", 7, 0, ())
    replayed = ReplayedModel(model, 7, baseline, 1, {FORGED: "1"}, comparison)
    print_lines(Summary("id", "slot", "0/1", 0.5, [seeded]).lines())
    print_lines(Replay("slot", [replayed], 0.5).lines())
    print_status(FORGED)
    out, err = capsys.readouterr()
    lines = out.splitlines() + err.splitlines()
    assert [line for line in lines if escaped(line) != line or line.startswith("ft_orders  ")] == []
    assert len(lines) == 4 + 4 + 1
    found = json.loads(json.dumps(seeded.as_json()))
    assert found["rejections"][0]["example"] == {FORGED: FORGED}, "a program gets it as it is"


@pytest.mark.slow
def test_an_error_of_spark_is_one_sentence(source: Source) -> None:
    source.fill_many()
    code, out, err = source.submit(conf={"spark.driver.maxResultSize": "1"})
    assert (code, out) == (34, ""), err
    *_, failed, remedy, intact = err.splitlines()
    assert failed.startswith("Error: Spark failed: ")
    assert remedy == "Try: run the seed again"
    assert intact == "The previous seed, if any, is intact."


def test_spark_submit_hands_on_every_word_and_imports_what_is_compiled(tmp_path: Path) -> None:
    script = tmp_path / "words.py"
    script.write_text(
        "import json, os, pyspark, sys\n"
        "print(json.dumps([sys.argv[1:], os.environ['PGUSER'], pyspark.__file__]))"
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
    assert done.stdout == json.dumps([words, "a b", pyspark.__file__]) + "\n"
