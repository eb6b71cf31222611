"""Commands forge no line by control characters, and say where their output cannot be written."""

from __future__ import annotations

import subprocess
from pathlib import Path

from testkit.commands import LOADER
from testkit.databases import Database
from testkit.hostile import FORGED
from testkit.model import NOTIFY, counting
from testkit.pipeline import Pipeline
from waltally.escapes import escaped
from waltally.tables import quoted


def harmless(said: str) -> str:
    """What was printed, of which each line is as it should be."""
    for line in said.split("\n"):
        assert escaped(line) == line
        assert not line.startswith("ft_service_stats  forged"), said
    return said


def test_a_value_is_shown_in_its_place(source: Database) -> None:
    name = '100% ="of\x1b it'
    source.declare(ft_notes=counting("public.unrelated", "note", name))
    source.execute("alter table unrelated replica identity full")
    source.execute(f"alter table unrelated add {quoted(name)} text")
    source.must("setup")
    source.execute(
        f"create schema analytics; create table analytics.ft_notes (note text, {quoted(name)} text,"
        " row_count bigint)"
    )
    source.execute(
        "insert into analytics.ft_notes values (%s, 'x', 2), ('b', %s, 3)", FORGED, FORGED
    )
    both = "note," + quoted(name)
    said = harmless(source.must("stats", "ft_notes", "--by", both))
    head, _, first, second = said.splitlines()[2:6]
    assert head.split("  ")[0] == "note" and escaped(name) in head
    assert (first.split()[0], first.split()[-1]) == ("a\\nft_service_stats", "2")
    assert (second.split()[0], second.split()[-1]) == ("b", "3")
    harmless(source.must("stats", "ft_notes", f"note={FORGED}", "--by", both))
    # A percent sign is no parameter, and the sign after it belongs to the name.
    assert source.must("stats", "ft_notes", f"{name}=x").splitlines()[4].split() == ["2"]
    harmless(source.must("stats", "ft_notes", "note=100%", f"{name}=%s", "--by", "note"))
    done = source.loader("stats", "ft_notes", "--by", FORGED)
    assert "has no dimension" in harmless(done.stderr)


def test_status_and_setup_show_names_and_reasons_in_their_lines(source: Database) -> None:
    table = f"public.{quoted(FORGED)}"
    source.declare(ft_evil=counting(f"public.{FORGED}"), ft_service_stats=NOTIFY)
    for words in (("setup", "--check"), ("setup",)):
        done = source.loader(*words)
        assert done.returncode == 17
        assert escaped(FORGED) in harmless(done.stderr)
    source.execute(f"create table {table} (id int primary key)")
    source.must("setup")
    source.take_baseline()
    source.execute(
        "insert into cdc.baseline_rejection"
        " values (%s, 'ft_service_stats', 'public.notifications', %s, 7, '{}')",
        source.slot,
        FORGED,
    )
    said = harmless(source.loader("status").stdout)
    assert said.count(escaped(FORGED)) == 2, "the model's table, and the reason"


COMMANDS = ("status --json", "stats ft_service_stats", "setup", "wait --lsn 0/1", "--help")


def test_where_standard_output_takes_nothing_a_sentence_says_so(pipeline: Pipeline) -> None:
    pipeline.begin(2)
    for command in COMMANDS:
        with Path("/dev/full").open("w") as full:
            done = subprocess.run(
                [str(LOADER), *command.split()],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                env=pipeline.environment(),
            )
        assert "Traceback" not in done.stderr, (command, done.stderr)
        if command.startswith("wait"):
            assert done.returncode == 0, "it says nothing"
        else:
            said = "Error: The output cannot be written: No space left on device; "
            assert (done.returncode, said in done.stderr) == (1, True), (command, done.stderr)
            assert "\nTry: " in done.stderr
        closed = ["sh", "-c", f'"{LOADER}" {command} >&-']
        assert subprocess.run(closed, env=pipeline.environment()).returncode == 0, command
    away = pipeline.environment(LOADER_SOURCE_DSN="host=/nowhere")
    for nowhere in ("2>/dev/full", ">&- 2>&-"):
        ended = subprocess.run(["sh", "-c", f'"{LOADER}" status {nowhere}'], env=away)
        assert ended.returncode == 10, nowhere
