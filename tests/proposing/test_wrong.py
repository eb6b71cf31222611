"""The proof finds wrong rewritings that were made on purpose, and doubts no right one."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from testkit.databases import Database
from tests.proposing.support import split
from tests.proposing.wrong import SHOP, WRONG, made_wrong, query

COUNT = 300


@pytest.mark.slow
def test_the_proof_finds_wrong_rewritings_and_doubts_no_right_one(database: Database) -> None:
    database.execute(SHOP)
    rng = Random(51)
    made: Counter[str] = Counter()
    missed: list[str] = []
    sampled = 0
    while sum(made.values()) < COUNT:
        asked = query(rng)
        right = split(database, asked)
        for is_sample in (True, False):
            proof = right.prove(is_sample)
            assert (proof.missing, proof.surplus) == ([], []), asked
            assert proof.rows
        for kind in WRONG:
            other = made_wrong(right, kind, rng)
            if sum(made.values()) == COUNT or other is None:
                continue
            made[kind] += 1
            proof = other.prove()
            if not proof.missing and not proof.surplus:
                missed.append(f"{kind}: {asked} | {other.models} | {other.reads}")
            proof = other.prove(is_sample=True)
            sampled += bool(proof.missing or proof.surplus)
    assert missed == []
    assert sampled >= COUNT * 0.9
    assert set(made) == {*WRONG}
