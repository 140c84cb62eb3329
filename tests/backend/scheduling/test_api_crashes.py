"""Runs that no sweep hands out and that fall silent."""

from __future__ import annotations

import pytest

from deployer.backend.db.accounts import ensure_project
from deployer.backend.db.attempts import create_run
from deployer.backend.db.rows import change
from deployer.backend.scheduling.run_endings import end_silent_runs
from tests.backend.bench import Bench

HOURS = 3600.0


@pytest.fixture
def silent(bench: Bench) -> str:
    """Start a run of nobody's sweep and let hours pass without a word of it."""
    with bench.backend.store.transaction() as db:
        project = ensure_project(db, bench.me, None, "p", bench.seconds)
        run = create_run(db, bench.me, project, "plain", bench.seconds)
        change(db, run, state="running", started_at=bench.seconds)
    bench.send("plain", files={"wandb-history.jsonl": {"offset": 0, "content": ['{"_step": 0}']}})
    bench.seconds += 2 * HOURS
    end_silent_runs(bench.backend)
    return "plain"


def test_a_silent_run_has_crashed(bench: Bench, silent: str) -> None:
    assert (bench.run(silent).state, bench.run(silent).exit_code) == ("crashed", None)


def test_a_laptop_that_slept_goes_on_with_its_run(bench: Bench, silent: str) -> None:
    bench.send(silent)
    assert (bench.run(silent).state, bench.run(silent).ended_at) == ("running", None)
    bench.send(silent, complete=True, exitcode=0)
    assert (bench.run(silent).state, bench.run(silent).exit_code) == ("finished", 0)
    assert bench.causes(silent) == ["finished"]


def test_the_first_word_may_be_the_last(bench: Bench, silent: str) -> None:
    bench.send(silent, complete=True, exitcode=3)
    assert (bench.run(silent).state, bench.run(silent).exit_code) == ("failed", 3)
