"""The first sentence of `loader status`: how it is, as of when, and what to do."""

from __future__ import annotations

from typing import Any

import pytest

from loader.monitoring.findings import Summary, Thresholds, passed, summarize
from loader.monitoring.status_text import render, watch
from waltally.errors import CannotConnect
from waltally.units import duration, plural, size

MOMENT = "2026-01-01T00:00:00+00:00"
LIMITS = Thresholds(300, 2**33)
SQL = 'alter table "public"."notifications" replica identity full; -- ' + "a word " * 40 + "last"


def fact(**other: Any) -> dict[str, Any]:
    return {
        "name": "ft_orders",
        "relation": "analytics.ft_orders",
        "is_registered": True,
        "rows": 1234,
        "state": "follows",
        "reason": None,
        "remedy": None,
        "is_finding": False,
        "applied_lsn": "0/20",
        "lag_bytes": 0,
        "lag_seconds": 0.0,
        "exact_age_seconds": 0.2,
        "left_out": {},
        "baseline": None,
        **other,
    }


def body(
    *facts: dict[str, Any],
    pid: int | None = 7,
    age: float | None = 0.2,
    lag: tuple[int, float] = (100, 0.0),
    findings: tuple[tuple[str, str], ...] = (),
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "source": {"in_recovery": False},
        "slot": {
            "name": "s", "exists": True, "active_pid": pid, "wal_status": "reserved",
            "wal_held_bytes": 5000, "safe_wal_bytes": None, "invalidation_reason": None,
            "inactive_seconds": None, "idle_timeout_seconds": None, "failover": False,
        },
        "position": {
            "lsn": "0/20", "moved_at": MOMENT, "lag_bytes": lag[0], "lag_seconds": lag[1],
            "stored_changes": 1, "newest_commit_at": MOMENT,
        },
        "facts": list(facts or (fact(exact_age_seconds=age),)),
        "exact_age_seconds": age,
        "findings": [{"message": message, "remedy": remedy} for message, remedy in findings],
    }  # fmt: skip
    return found


def judged(found: dict[str, Any]) -> dict[str, Any]:
    """The report with what its thresholds and its summary say, as `status.report` makes it."""
    said = [{"message": str(each), "remedy": each.remedy} for each in passed(found, LIMITS)]
    found["findings"] += said
    found["healthy"] = not found["findings"]
    summary = summarize(found)
    found["summary"] = {"sentence": summary.sentence, "remedy": summary.remedy}
    return found


NEXT_APPLY = {"state": "waits", "reason": "it was not built yet", "remedy": "`dbt build`"}
FAILED = {"state": "failed", "reason": "no", "remedy": "`dbt build`", "is_finding": True}
SENTENCES: dict[str, tuple[dict[str, Any], str, str]] = {
    "fresh": (body(), "healthy, exact as of 0.2 s ago", ""),
    "a quiet source": (body(age=7200), "healthy, exact as of the newest change, 2.0 h ago", ""),
    "nothing to count": (
        body(age=None),
        "healthy, exact: the change log is empty, so nothing is left to count",
        "",
    ),
    "catching up": (
        body(age=480, lag=(310_000_000, 0.1)),
        "healthy, exact as of 8.0 min ago, and 310.0 MB of the source's WAL are still to be read",
        "",
    ),
    "not built yet": (
        body(fact(**NEXT_APPLY), fact(name="ft_b", **NEXT_APPLY), age=None),
        "healthy, but ft_orders waits: it was not built yet; ft_b waits: it was not built yet",
        "`dbt build`",
    ),
    "no loader": (
        body(pid=None, age=90),
        "no loader is running: exact as of the newest change, 1.5 min ago",
        "start `loader run --build`",
    ),
    "no loader for long": (
        body(pid=None, lag=(50_000, 400)),
        "not healthy: The loader does not run: nothing was stored for 6.7 min, while the source "
        "went on",
        "start `loader run --build`",
    ),
    "the loader hangs": (
        body(age=45, lag=(50_000, 42)),
        "behind: the loader has stored nothing for 42 s; exact as of the newest change, 45 s ago",
        "see what `loader run` logs",
    ),
    "the builds are late": (
        body(fact(lag_seconds=40.0, lag_bytes=9), age=41),
        "behind: ft_orders was not built for 40 s, and more is staged; exact as of 41 s ago",
        "see that `loader run --build` or a scheduled `dbt build` runs",
    ),
    "the builds have stopped": (
        body(fact(lag_seconds=301.0, lag_bytes=9), age=301),
        "not healthy: The builds have stopped: the fact ft_orders was not built for 5.0 min, and "
        "more is staged",
        "see that `loader run --build`",
    ),
    "a fact that has failed": (
        # Why it is late is a finding already.
        body(
            fact(lag_seconds=301.0, lag_bytes=9, **FAILED),
            findings=(("The fact ft_orders failed: no", "`dbt build`"),),
        ),
        "not healthy: The fact ft_orders failed: no",
        "`dbt build`",
    ),
    "a table": (
        body(findings=(("No key", SQL), ("B", "c"))),
        "not healthy (2 findings): No key",
        SQL,
    ),
}


@pytest.mark.parametrize("case", SENTENCES)
def test_the_first_sentence_says_how_it_is_and_what_to_do(case: str) -> None:
    found, sentence, remedy = SENTENCES[case]
    lines = render(judged(found))
    assert lines[0] == sentence
    assert lines[1].removeprefix("Try: ").startswith(remedy)
    assert lines[1].startswith("Try: ") == bool(remedy)


def test_the_facts_come_next_and_positions_last() -> None:
    lines = render(judged(body()))
    places = [next(n for n, line in enumerate(lines) if line.startswith(word)) for word in (
        "healthy", "fact", "ft_orders", "slot", "position", "applied"
    )]  # fmt: skip
    assert places == sorted(places)
    assert lines[places[2]].split() == ["ft_orders", "1,234", "0.2", "s", "ago", "no", "none"]


def test_sql_in_a_remedy_is_one_line_whoever_reads_it() -> None:
    """A comment that goes on in the next line would be a statement there."""
    for findings in ((("No key", SQL),), (("A", "b"), ("No key", SQL))):
        assert f"Try: {SQL}" in render(judged(body(findings=findings)))


def test_a_slot_that_is_gone_is_not_answered_with_starting_the_loader() -> None:
    found = body(pid=None, lag=(50_000, 400))
    assert len(passed(found, LIMITS)) == 1
    assert passed(found, LIMITS, is_followable=False) == []


def test_a_row_is_one_line_and_no_value_is_cut() -> None:
    name = "ft_" + "x" * 120
    lines = render(judged(body(fact(name=name, lag_bytes=10**12, lag_seconds=1.0))))
    (row,) = [line for line in lines if line.startswith(name)]
    assert row.split() == [name, "1,234", "0.2", "s", "ago", "1.0", "s", "none"]


def test_numbers_have_units_and_plurals() -> None:
    assert [plural(n, "change") for n in (0, 1, 1234)] == [
        "0 changes",
        "1 change",
        "1,234 changes",
    ]
    assert [duration(s) for s in (-1, 0.24, 9.96, 59.7, 90, 86_400)] == [
        "0.0 s", "0.2 s", "10 s", "1.0 min", "1.5 min", "1.0 d",
    ]  # fmt: skip
    assert [size(n) for n in (1, 999, 999_960, 8 * 2**30)] == [
        "1 byte",
        "999 bytes",
        "1.0 MB",
        "8.6 GB",
    ]


def test_a_summary_without_a_remedy_asks_for_nothing() -> None:
    assert summarize(body()) == Summary("healthy, exact as of 0.2 s ago", "")


def test_a_watch_goes_on_while_a_server_is_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers: list[Any] = [judged(body()), CannotConnect("The source cannot be reached"), None]

    def report() -> dict[str, Any]:
        answer = answers.pop(0)
        if answer is None:
            raise KeyboardInterrupt
        if isinstance(answer, CannotConnect):
            raise answer
        found: dict[str, Any] = answer
        return found

    monkeypatch.setattr("loader.monitoring.status_text._REFRESH_SECONDS", 0.0)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    watch(report)
    well, away = capsys.readouterr().out.split("\x1b[2J\x1b[H")[1:]
    assert "healthy, exact as of" in well
    assert "Error: The source cannot be reached" in away
