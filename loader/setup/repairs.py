"""Sets up, and does at the source what it lacks, where the person agrees: `loader up`."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from contextlib import closing

from loader.setup import setup
from loader.setup.declared import Declared
from waltally.database import connect
from waltally.errors import Interrupted, LoaderError, TableReplaced, combine
from waltally.settings import Settings

log = logging.getLogger("loader")

_LOCK_SECONDS = 2
"""How long writers of a table may have to wait because we wait for its lock."""
_TRIES = 30
_TIMEOUT = 300


def set_up(
    settings: Settings,
    declared: Declared,
    agrees: Callable[[LoaderError], bool],
    with_tables: bool = True,
) -> None:
    """Set up, and run each finding's SQL at the source if `agrees` says so.

    Without `with_tables`, what is wrong with a table of a model that is installed is left: dbt may
    mend it. Raises LoaderError, also with the findings that are left.
    """
    done: Counter[tuple[str, ...]] = Counter()
    while True:
        try:
            found = setup.set_up(settings, declared, _TIMEOUT, renew=False)
            # A seed mends what was replaced, and the loader starts it.
            findings = [one for one in found.problems if not isinstance(one, TableReplaced)]
            is_set_up = True
            for line in (*found.done, *found.notes):
                log.info("%s", line)
        except LoaderError as error:
            findings, is_set_up = [error, *error.others], False
        if not findings or (is_set_up and not with_tables):
            return
        left = []
        for finding in findings:
            # Once more where the server takes the new setting a moment later.
            if finding.sql and (0 < done[finding.sql] < _TRIES or agrees(finding)):
                _run(settings, finding)
                done[finding.sql] += 1
            else:
                left.append(finding)
        if left:
            raise combine(left)


def _run(settings: Settings, finding: LoaderError) -> None:
    """Run a finding's SQL, one statement a transaction; a table's lock is tried for, not awaited.

    Raises LoaderError.
    """
    with closing(connect(settings.source, "source")) as source:
        for statement in finding.sql:
            # Making an index concurrently lets writers go on, and would be left half made.
            waits = "concurrently" in statement
            source.ask(f"set lock_timeout = '{0 if waits else _LOCK_SECONDS}s'")
            log.info("at the source: %s", statement)
            for left in reversed(range(_TRIES)):
                try:
                    source.ask(statement)
                    break
                except Interrupted as error:
                    if not left:
                        raise
                    log.warning("%s; trying again", error)
