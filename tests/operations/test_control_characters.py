"""Commands forge no line by control characters, and say where their output cannot be written."""

from __future__ import annotations

import subprocess

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
    columns = f"note text, {quoted(name)} text, row_count bigint"
    source.execute(f"drop table analytics.ft_notes; create table analytics.ft_notes ({columns})")
    source.execute(
        "insert into analytics.ft_notes values (%s, 'x', 2), ('b', %s, 3)", FORGED, FORGED
    )

    def stats(*words: str) -> list[str]:
        return harmless(source.must("stats", "ft_notes", *words)).splitlines()

    both = "note," + quoted(name)
    head, _, *rows = stats("--by", both)[2:6]
    assert head.split("  ")[0] == "note" and escaped(name) in head
    first_and_last = [(row.split()[0], row.split()[-1]) for row in rows]
    assert first_and_last == [("a\\nft_service_stats", "2"), ("b", "3")]
    stats(f"note={FORGED}", "--by", both)
    # A percent sign is no parameter, and the sign after it belongs to the name.
    assert stats(f"{name}=x")[4].split() == ["2"]
    stats("note=100%", f"{name}=%s", "--by", "note")
    assert "has no dimension" in harmless(source.refused("stats", "ft_notes", "--by", FORGED)[1])


def test_status_and_setup_show_names_and_reasons_in_their_lines(source: Database) -> None:
    table = f"public.{quoted(FORGED)}"
    source.declare(ft_evil=counting(f"public.{FORGED}"), ft_service_stats=NOTIFY)
    for words in (("setup", "--check"), ("setup",)):
        harmless(source.refused_with(17, escaped(FORGED), *words))
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
    assert escaped(FORGED) in said, "the reason"


def test_where_standard_output_takes_nothing_a_sentence_says_so(pipeline: Pipeline) -> None:
    pipeline.begin(2)

    def shell(command: str, **more: str) -> subprocess.CompletedProcess[str]:
        words = ["sh", "-c", f'"{LOADER}" {command}']
        environment = pipeline.environment(**more)
        return subprocess.run(words, env=environment, capture_output=True, text=True)

    for command in ("status --json", "--help"):
        done = shell(f"{command} >/dev/full")
        said = "Error: The output cannot be written: No space left on device; "
        assert (done.returncode, said in done.stderr) == (1, True), (command, done.stderr)
        assert "\nTry: " in done.stderr and "Traceback" not in done.stderr
        assert shell(f"{command} >&-").returncode == 0, command
    for nowhere in ("2>/dev/full", ">&- 2>&-"):
        assert shell(f"status {nowhere}", LOADER_SOURCE_DSN="host=/nowhere").returncode == 10
