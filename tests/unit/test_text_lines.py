"""How lines for a person are aligned and broken."""

from __future__ import annotations

from loader.monitoring.text_lines import aligned, broken

SQL = 'Try: alter table "public"."orders" replica identity full; -- ' + "a word " * 20 + "last"


def test_columns_are_aligned_and_end_without_blanks() -> None:
    assert aligned([("fact", "rows", ""), ("ft_ö", "7", "a"), ("数", "1,234", "")], right=[1]) == [
        "fact   rows",
        "ft_ö      7  a",
        "数    1,234",
    ]


def test_prose_is_broken_between_words_and_a_remedy_not_at_all() -> None:
    said = broken("What is wrong is told in a sentence.\n" + SQL, 20).split("\n")
    assert said == ["What is wrong is", "told in a sentence.", SQL]
    assert broken(f"WARNING {SQL}", 20) == f"WARNING {SQL}"
