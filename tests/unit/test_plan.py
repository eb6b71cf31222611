"""A plan is what two runs of dbt have executed alike."""

from __future__ import annotations

from loader.build.plan import Plans, Statement

ONE = (Statement("select 1", [["1"]]), Statement("COMMIT"))
OTHER = (Statement("select 1", [["2"]]), Statement("COMMIT"))


def test_two_equal_runs_make_a_plan() -> None:
    plans = Plans()
    plans.learn({"a": ONE, "b": ONE})
    assert plans.confirmed == {}
    plans.learn({"a": ONE})
    assert plans.confirmed == {"a": ONE}


def test_a_run_that_found_something_else_is_the_first_of_another_plan() -> None:
    plans = Plans()
    for statements in (ONE, ONE, OTHER):
        plans.learn({"a": statements})
    assert plans.confirmed == {}
    plans.learn({"a": OTHER})
    assert plans.confirmed == {"a": OTHER}


def test_a_forgotten_plan_takes_two_runs_again() -> None:
    plans = Plans()
    for _ in range(2):
        plans.learn({"a": ONE})
    plans.forget("a")
    plans.learn({"a": ONE})
    assert plans.confirmed == {}
    plans.learn({"a": ONE})
    assert plans.confirmed == {"a": ONE}
