"""The proof finds wrong rewritings that were made on purpose, and doubts no right one."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from testkit.databases import Database
from tests.proposing.support import split
from tests.proposing.wrong import SHOP, WRONG, copied, query

COUNT = 300


def _with_having(database: Database, asked: str, rng: Random) -> str:
    """Return the query, which leaves out half of its groups at times."""
    if rng.random() < 0.5:
        return asked
    database.execute("set search_path = lab")
    counts = sorted(row[2] for row in database.execute(asked))
    database.execute("set search_path = public")
    return f"{asked} having count(*) > {counts[len(counts) // 2]}"


@pytest.mark.slow
def test_the_proof_finds_wrong_rewritings_and_doubts_no_right_one(database: Database) -> None:
    database.execute(SHOP)
    rng = Random(51)
    made: Counter[str] = Counter()
    missed: list[str] = []
    sampled = 0
    while sum(made.values()) < COUNT:
        asked = _with_having(database, query(rng), rng)
        right = split(database, asked)
        for is_sample in (True, False):
            proof = right.prove(is_sample)
            assert (proof.missing, proof.surplus) == ([], []), asked
            assert proof.rows
        for wrong in WRONG:
            other = copied(right)
            if sum(made.values()) == COUNT or not wrong(other, rng):
                continue
            made[wrong.__name__] += 1
            proof = other.prove()
            if not proof.missing and not proof.surplus:
                missed.append(f"{wrong.__name__}: {asked} | {other.models} | {other.reads}")
            proof = other.prove(is_sample=True)
            sampled += bool(proof.missing or proof.surplus)
    assert missed == []
    assert sampled >= COUNT * 0.9
    assert set(made) == {wrong.__name__ for wrong in WRONG}
