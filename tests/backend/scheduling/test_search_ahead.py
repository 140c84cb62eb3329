"""Suggestions that are made before they are asked for, and when they are good enough."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from deployer.backend.db.sweeps import update_sweep
from deployer.backend.scheduling.search import SearchRun
from deployer.backend.scheduling.suggestions import Question
from tests.backend.bench import Bench

SETTINGS: dict[str, Any] = {
    "method": "bayes",
    "metric": {"name": "loss", "goal": "minimize"},
    "parameters": {"x": {"min": 0.0, "max": 1.0}},
}


def question(ended: int, running: int) -> Question:
    states = ["finished"] * ended + ["running"] * running
    runs = [SearchRun({"x": n}, state, None) for n, state in enumerate(states)]
    return Question(SETTINGS, "s", tuple(runs), ended + running)


def with_outcomes(asked: Question, count: int) -> Question:
    """Return the same question after so many more runs have ended."""
    place = next(n for n, run in enumerate(asked.runs) if not run.ended)
    ended = [replace(run, state="finished", value=1.0) for run in asked.runs[place:][:count]]
    runs = (*asked.runs[:place], *ended, *asked.runs[place + count :])
    return replace(asked, runs=runs)


def test_few_late_outcomes_among_many_do_not_matter() -> None:
    early = question(ended=300, running=8)
    assert with_outcomes(early, 3).answered_by(early)
    assert not with_outcomes(early, 4).answered_by(early)


def test_among_few_outcomes_each_one_matters() -> None:
    early = question(ended=20, running=8)
    assert early.answered_by(early)
    assert not with_outcomes(early, 1).answered_by(early)


def test_no_outcome_may_be_missing_when_nothing_is_at_work() -> None:
    early = question(ended=300, running=1)
    assert not with_outcomes(early, 1).answered_by(early)


def test_every_configuration_that_was_handed_out_must_be_known() -> None:
    early = question(ended=300, running=3)
    assert not question(ended=300, running=4).answered_by(early)
    other = replace(early, runs=(*early.runs[:-1], SearchRun({"x": 7}, "running")))
    assert not other.answered_by(early)
    assert not replace(early, settings={**SETTINGS, "method": "random"}).answered_by(early)
    assert not replace(early, ordinal=9).answered_by(early)


def test_of_many_runs_the_newest_outcome_is_left_out_whenever_it_is_asked(bench: Bench) -> None:
    sweep = bench.sweep(**{**SETTINGS, "method": "random"})
    agent = bench.agent(sweep)
    for _ in range(101):
        bench.send(bench.take(agent), complete=True, exitcode=0)
    last = bench.take(agent)
    with bench.backend.store.transaction() as db:
        at_work = bench.backend.suggestions.ask_question(db, sweep, 102)
    bench.send(last, complete=True, exitcode=0)
    with bench.backend.store.transaction() as db:
        ended = bench.backend.suggestions.ask_question(db, sweep, 102)
    assert at_work == ended
    assert [run.state for run in ended.runs[-2:]] == ["finished", "running"]


@pytest.mark.slow
def test_nothing_is_kept_of_a_sweep_that_has_ended(bench: Bench) -> None:
    suggestions = bench.backend.suggestions
    sweep = bench.sweep(**SETTINGS)
    name = bench.take(bench.agent(sweep))
    suggestions.prepare(sweep)
    while not suggestions._prepared:
        time.sleep(0.01)
    with bench.backend.store.transaction() as db:
        update_sweep(db, sweep, bench.seconds, state="FINISHED")
    bench.send(name, complete=True, exitcode=0)
    assert not suggestions._prepared


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "known"),
    [("best", ("finished", 0.5)), ("latest", ("finished", 0.5)), (False, ("running", None))],
)
def test_a_run_at_work_counts_if_the_sweep_says_so(
    bench: Bench, word: object, known: tuple[str, float | None]
) -> None:
    metric = {**SETTINGS["metric"], "impute_while_running": word}
    sweep = bench.sweep(**{**SETTINGS, "metric": metric})
    agents = [bench.agent(sweep) for _ in range(2)]
    name, _ = (bench.take(agent) for agent in agents)
    bench.send(name, files={"wandb-summary.json": {"offset": 0, "content": ['{"loss": 0.5}']}})
    with bench.backend.store.transaction() as db:
        runs = bench.backend.suggestions.ask_question(db, sweep, 2).runs
    assert [(run.state, run.value) for run in runs] == [known, ("running", None)]


@pytest.mark.slow
def test_what_was_prepared_is_what_would_have_been_suggested(bench: Bench) -> None:
    sweep = bench.sweep(**SETTINGS)
    agent = bench.agent(sweep)
    for _ in range(11):
        name = bench.take(agent)
        summary = {"offset": 0, "content": ['{"loss": 0.5}']}
        bench.send(name, files={"wandb-summary.json": summary}, complete=True, exitcode=0)
    with bench.backend.store.transaction() as db:
        wanted = bench.backend.suggestions.ask_question(db, sweep, 11)
    answer = bench.backend.suggestions._suggest(wanted)
    assert answer == bench.backend.search.suggest(wanted.settings, sweep.seed, wanted.runs, 11)
    assert bench.run(bench.take(agent)).assigned_args == answer
