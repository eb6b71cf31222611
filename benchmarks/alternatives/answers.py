"""A session that asks for the sum of all counts again and again, and notes when it knew what."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import NamedTuple

import psycopg2


class Answer(NamedTuple):
    """What one query found."""

    at: float
    """When the answer was there, on this machine's clock."""
    total: int
    """Rows that were counted."""


@dataclass(frozen=True)
class Question:
    """What is asked, of which server, and how often."""

    dsn: str
    query: str
    """Gives one row with one number, the rows that are counted."""
    every: float
    """Seconds from one question to the next; where one takes longer, the next follows at once."""
    before: str | None = None
    """A statement to run before each question."""


@contextmanager
def asking(question: Question) -> Iterator[list[Answer]]:
    """Ask during the block. Yields the answers so far; its end raises what broke the session."""
    answers: list[Answer] = []
    failures: list[Exception] = []
    stop = Event()

    def ask() -> None:
        try:
            with closing(psycopg2.connect(question.dsn)) as connection:
                connection.autocommit = True
                with connection.cursor() as cursor:
                    due = time.monotonic()
                    while not stop.wait(max(due - time.monotonic(), 0)):
                        due = max(due, time.monotonic()) + question.every
                        if question.before is not None:
                            cursor.execute(question.before)
                        cursor.execute(question.query)
                        ((total,),) = cursor.fetchall()
                        answers.append(Answer(time.time(), int(total)))
        except Exception as failure:
            failures.append(failure)

    thread = Thread(target=ask, name="asking", daemon=True)
    thread.start()
    try:
        yield answers
    finally:
        stop.set()
        thread.join()
    if failures:
        raise failures[0]
