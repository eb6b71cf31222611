"""What a person reads: the first sentence, remedies, units, and lines that stay lines."""

from __future__ import annotations

import ast
import io
import logging
from typing import Any

import pytest

from loader.monitoring.findings import Thresholds, passed, summarize
from loader.monitoring.status_text import render
from loader.monitoring.text_lines import LogFormatter
from waltally.errors import SettingError, combine
from waltally.escapes import escaped

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
        "engine": "database",
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
        "healthy, but ft_orders, ft_b wait: it was not built yet",
        "`dbt build`; where `loader run --build` runs, it does that by itself",
    ),
    "not built yet by Spark": (
        body(fact(**{**NEXT_APPLY, "engine": "spark", "remedy": "`spark-submit spark/apply.py`"})),
        "healthy, but ft_orders waits: it was not built yet",
        "`spark-submit spark/apply.py`",
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
    "Spark's builds are late": (
        body(fact(lag_seconds=40.0, lag_bytes=9, engine="spark"), age=41),
        "behind: ft_orders was not built for 40 s, and more is staged; exact as of 41 s ago",
        "see that `spark-submit spark/apply.py` runs",
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


def test_sql_in_a_remedy_is_one_line_whoever_reads_it() -> None:
    """A comment that goes on in the next line would be a statement there."""
    for findings in ((("No key", SQL),), (("A", "b"), ("No key", SQL))):
        assert f"Try: {SQL}" in render(judged(body(findings=findings)))


def test_a_slot_that_is_gone_is_not_answered_with_starting_the_loader() -> None:
    found = body(pid=None, lag=(50_000, 400))
    assert len(passed(found, LIMITS)) == 1
    assert passed(found, LIMITS, is_followable=False) == []


HARMFUL = [
    *map(chr, (*range(0x20), *range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A))),
    "\ud800",
    "\udfff",
]
NAME = "a\n2026-01-01 INFO forged\r\x1b]0;title\x07\x9b31m\u202egpj\u2028"


@pytest.mark.parametrize("each", HARMFUL, ids=ascii)
def test_a_character_that_does_more_than_stand_there_is_shown_as_python_writes_it(
    each: str,
) -> None:
    shown = escaped(f"a{each}b")
    assert shown.isprintable() and shown.encode()
    assert shown[0] == "a" and shown[-1] == "b"
    assert ast.literal_eval(f"'{shown}'") == f"a{each}b"
    assert escaped(shown) == shown


@pytest.mark.parametrize("text", ["", "plain", "Größe 数量 🙂", "a\\nb", "e\u0301", "نص", "\u00a0"])
def test_any_other_text_stays_as_it_is(text: str) -> None:
    assert escaped(text) == text


def test_an_error_has_the_lines_that_it_should_have() -> None:
    error = combine([SettingError(NAME, f"drop {NAME}"), SettingError("other")])
    assert error.sentence.split("\n") == [
        escaped(NAME),
        f"Try: drop {escaped(NAME)}",
        "Error: other",
    ]
    assert str(error) == NAME, "a program gets it as it is"


def test_a_record_of_the_log_has_the_lines_that_its_message_has() -> None:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(LogFormatter("%(levelname)s %(message)s"))
    logger = logging.Logger("test")
    logger.addHandler(handler)
    logger.error("%s of %d; %.1f\nTry: %s", SettingError(NAME), 7, 0.5, NAME)
    logger.warning(NAME.replace("\n", " "))
    try:
        raise ValueError(NAME)
    except ValueError as error:
        logger.info("it broke", exc_info=error)
    first, remedy, second, broke, *trace = out.getvalue().splitlines()
    assert first == f"ERROR {escaped(NAME)} of 7; 0.5"
    assert remedy == f"Try: {escaped(NAME)}"
    assert second == f"WARNING {escaped(NAME.replace(chr(10), ' '))}"
    assert broke == "INFO it broke"
    assert trace and all(line.startswith("  ") and escaped(line) == line for line in trace)
