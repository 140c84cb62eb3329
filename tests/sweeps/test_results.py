"""Ranking, coverage and failures from runs as a server gives them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from deployer.analysis.ranking import Reduction, rank_by_history
from deployer.cli.ranking import name_other_metric
from deployer.model import Attempt, Run, Sweep, SweepPath
from deployer.sweeps.doubts import find_near, list_doubts, list_metric_doubts
from deployer.sweeps.results import Results, build_results, is_healed

NESTED: dict[str, Any] = {
    "method": "grid",
    "metric": {"name": "loss"},
    "parameters": {
        "epochs": {"value": 3},
        "optimizer": {"parameters": {"lr": {"values": [9, 0.1]}, "name": {"value": "sgd"}}},
    },
}


def sweep(
    config: dict[str, Any] = NESTED, state: str = "FINISHED", expected: int | None = None
) -> Sweep:
    return Sweep(SweepPath("e", "p", "s"), "node", "t", state, config, 0, expected, None)


def run(run_id: str, state: str = "finished", loss: Any = None, lr: Any = 9, **more: Any) -> Run:
    config = {"epochs": 3, "optimizer": {"lr": lr, "name": "sgd"}, "own": "kept out"}
    summary = {} if loss is None else {"loss": loss}
    return Run(run_id, "", state, config, {**summary, **more}, None, 0.0, 5.0)


def order(results: Results) -> list[str]:
    return [row.run_id for row in results.rows]


def test_ranking_puts_nan_and_missing_last_and_follows_the_goal() -> None:
    runs = [
        run("nan", loss=math.nan),
        run("two", loss=2),
        run("none"),
        run("one", loss=1.0),
        run("inf", loss=math.inf),
    ]
    results = build_results(sweep(), runs)
    assert order(results)[:2] == ["one", "two"]
    assert [row.rank for row in results.rows] == [1, 2, None, None, None]
    assert results.best is not None
    assert results.best.run_id == "one"
    upward = {**NESTED, "metric": {"name": "loss", "goal": "maximize"}}
    assert order(build_results(sweep(upward), runs))[:2] == ["two", "one"]


def test_the_exit_code_is_that_of_the_process_where_somebody_saw_it() -> None:
    told = replace(run("told", "failed"), exit_code=1)
    seen = replace(told, run_id="seen", attempts=(Attempt(1, "a", 0.0, 1.0, "own failure", 3),))
    unseen = replace(told, run_id="unseen", attempts=(Attempt(1, "a", 0.0, 1.0, "LOST", None),))
    codes = {r.run_id: r.exit_code for r in build_results(sweep(), [told, seen, unseen]).rows}
    assert codes == {"told": 1, "seen": 3, "unseen": 1}


def test_runs_that_have_not_finished_come_after_those_that_have() -> None:
    results = build_results(sweep(), [run("live", "running", 0.0), run("done", loss=5.0)])
    assert order(results) == ["done", "live"]
    assert results.best is not None
    assert results.best.run_id == "done"


def test_a_summary_that_define_metric_made_is_looked_into() -> None:
    results = build_results(sweep(), [run("a", loss={"min": 0.5})])
    assert results.rows[0].value == 0.5


def test_rows_have_only_the_sweeps_parameters_flat() -> None:
    row = build_results(sweep(), [run("a", loss=1.0, lr=0.1)]).rows[0]
    assert row.parameters == {"epochs": 3, "optimizer.lr": 0.1, "optimizer.name": "sgd"}


def test_a_list_of_configurations_reads_like_any_sweep() -> None:
    config = {
        "method": "grid",
        "parameters": {"configuration": {"values": [{"lr": 1, "opt": {"m": 2}}]}},
    }
    one = Run("a", "", "finished", {"configuration": {"lr": 1, "opt": {"m": 2}}}, {}, 0, 0, 1)
    row = build_results(sweep(config), [one]).rows[0]
    assert row.parameters == {"lr": 1, "opt.m": 2}


def test_duplicates_of_a_grid_see_9_and_9_0_as_equal() -> None:
    coverage = build_results(sweep(expected=2), [run("a", lr=9), run("b", lr=9.0)]).coverage
    assert (coverage.finished, coverage.duplicates, coverage.lost) == (1, 1, 1)
    assert coverage.sentence() == "1/2 configurations finished, 1 duplicates, 1 lost"
    assert not coverage.complete


def test_true_is_not_1() -> None:
    coverage = build_results(sweep(expected=2), [run("a", lr=True), run("b", lr=1)]).coverage
    assert (coverage.finished, coverage.duplicates) == (2, 0)


def test_a_complete_grid() -> None:
    coverage = build_results(sweep(expected=2), [run("a", lr=9), run("b", lr=0.1)]).coverage
    assert coverage.complete
    assert coverage.sentence() == "2/2 configurations finished, 0 duplicates, 0 lost"


def test_a_random_sweep_may_draw_a_configuration_twice() -> None:
    config = {**NESTED, "method": "random"}
    coverage = build_results(sweep(config, expected=2), [run("a"), run("b")]).coverage
    assert (coverage.finished, coverage.duplicates) == (2, 0)
    assert coverage.complete
    assert coverage.sentence() == "2/2 runs of 1 configuration finished, 0 lost"
    different = build_results(sweep(config, expected=2), [run("a"), run("b", lr=1)]).coverage
    assert different.sentence().startswith("2/2 configurations finished, 0 duplicates")
    bare = [replace(run(name), config={}) for name in "ab"]
    assert build_results(sweep(config, expected=2), bare).coverage.repeated == 0


def test_what_became_of_each_configuration_is_the_best_of_its_runs() -> None:
    runs = [
        run("crashed", "crashed", lr=1),
        run("again", lr=1),
        run("failed", "failed", lr=2),
        run("live", "running", lr=3),
        run("gone", "crashed", lr=4),
    ]
    coverage = build_results(sweep(state="RUNNING", expected=6), runs).coverage
    counts = (coverage.finished, coverage.failed, coverage.running, coverage.lost)
    assert counts == (1, 1, 1, 1)
    assert coverage.healed == 1
    assert coverage.waiting == 2
    assert coverage.sentence() == (
        "1/6 configurations finished, 0 duplicates, 1 lost, 1 healed, 1 failed, 1 running, 2 queued"
    )


def attempts(*causes: str | None) -> tuple[Attempt, ...]:
    return tuple(Attempt(n, "agent", 0.0, 1.0, c, None) for n, c in enumerate(causes, start=1))


def test_a_configuration_of_which_an_attempt_was_lost_is_healed() -> None:
    runs = [
        replace(run("a", lr=1), attempts=attempts("signal", "node", "finished")),
        replace(run("b", lr=2), attempts=attempts("finished")),
        replace(run("c", "failed", lr=3), attempts=attempts("own failure", "own failure")),
        replace(run("d", lr=4), attempts=attempts("own failure", "finished")),
    ]
    results = build_results(sweep(expected=4), runs)
    assert results.coverage.sentence() == (
        "3/4 configurations finished, 0 duplicates, 0 lost, 1 healed, 1 failed"
    )
    told = {row.run_id: (len(row.attempts), is_healed(row)) for row in results.rows}
    assert told == {"a": (3, True), "b": (1, False), "c": (2, False), "d": (2, False)}


def test_a_run_that_waits_to_be_handed_out_again_is_not_lost() -> None:
    runs = [run("a", lr=1), run("b", "preempted", lr=2)]
    open_ = build_results(sweep(state="RUNNING", expected=3), runs).coverage
    assert (open_.finished, open_.waiting, open_.lost) == (1, 2, 0)
    ended = build_results(sweep(expected=3), runs).coverage
    assert (ended.finished, ended.waiting, ended.lost) == (1, 0, 2)


def test_a_twin_that_was_stopped_heals_nothing() -> None:
    coverage = build_results(sweep(expected=1), [run("a"), run("twin", "killed")]).coverage
    assert coverage.sentence() == "1/1 configurations finished, 0 duplicates, 0 lost"


def test_expected_from_the_file_counts_where_the_server_does_not_say() -> None:
    assert build_results(sweep(), [run("a")], expected=4).coverage.lost == 3
    assert build_results(sweep(), [run("a")]).coverage.expected is None


def test_a_sweep_that_reached_its_target_has_lost_nothing() -> None:
    config = {**NESTED, "metric": {"name": "loss", "target": 0.5}}
    coverage = build_results(sweep(config, expected=100), [run("a", loss=0.4)]).coverage
    assert coverage.complete
    assert coverage.expected == 1


def test_early_stopped_runs_have_finished() -> None:
    config = {**NESTED, "early_terminate": {"type": "hyperband", "min_iter": 1}}
    coverage = build_results(sweep(config, expected=1), [run("a", "killed", 1.0)]).coverage
    assert coverage.complete
    assert coverage.sentence() == (
        "1/1 configurations finished, 0 duplicates, 0 lost, 1 stopped early"
    )
    assert not build_results(sweep(expected=1), [run("a", "killed", 1.0)]).coverage.complete


def test_failures_and_durations() -> None:
    runs = [run("bad", "failed"), run("good", loss=1.0, _runtime=12.5)]
    results = build_results(sweep(), runs)
    assert [row.run_id for row in results.failures] == ["bad"]
    assert [row.duration_seconds for row in results.rows] == [12.5, 5.0]


def test_a_sweep_without_a_metric_is_listed_unranked() -> None:
    config = {"method": "grid", "parameters": {}}
    results = build_results(sweep(config), [run("a")])
    assert results.best is None
    assert results.rows[0].rank is None


def test_a_metric_that_no_run_logs_is_said_with_what_was_logged() -> None:
    other = {**NESTED, "metric": {"name": "val_accuracy", "goal": "maximize"}}
    runs = [run("two", val_acc=0.5, loss=2.0, _step=3, note="text"), run("live", "running")]
    results = build_results(sweep(other), runs)
    assert results.metric_missing
    assert list_metric_doubts(results) == (
        "no finished run logged val_accuracy: the first of them logged loss, val_acc;"
        " did you mean val_acc?",
    )
    assert not build_results(sweep(other), [run("live", "running")]).metric_missing
    assert not build_results(sweep({**NESTED, "metric": {}}), runs).metric_missing
    silent = build_results(sweep(), [run("none")])
    assert list_metric_doubts(silent)[0].endswith(": the first of them did not log any number")


def test_a_metric_that_is_no_number_is_said() -> None:
    runs = [run("a", loss="5.00"), run("b", loss="5.10", val=1), run("c", loss=1.0)]
    assert list_metric_doubts(build_results(sweep(), runs)) == (
        "loss is text ('5.00') in 2 of 3 runs: log a number",
    )
    mixed = build_results(sweep(), [run("a", loss=[1, 2]), run("b")])
    assert list_metric_doubts(mixed) == (
        "loss is no number ([1, 2]) in 1 of 2 runs: log a number",
        "1 of 2 finished runs did not log loss",
    )
    early = sweep({**NESTED, "early_terminate": {"type": "hyperband"}})
    stopped = build_results(early, [run("a", "killed", loss="1"), run("b", loss="2")])
    assert list_metric_doubts(stopped) == ("loss is text ('1') in 2 of 2 runs: log a number",)
    by_best = rank_by_history(sweep(), stopped, {"a": [1.0], "b": [2.0]}, Reduction("best"))
    assert list_metric_doubts(by_best) == ()


@pytest.mark.parametrize(
    ("asked", "logged", "near"),
    [
        ("loss", "eval/loss", "eval/loss"),
        ("val_loss", "loss/val", "loss/val"),
        ("val_err", "test_error", "test_error"),
        ("cross_validation_acc", "cross_validation_loss", ""),
        ("acc/val", "loss/val", ""),
        ("val_loss", "train_loss", ""),
        ("val", "test", ""),
        ("val_map", "val_mape", ""),
        ("val_acc", "epoch", ""),
    ],
)
def test_only_a_metric_with_the_same_goal_is_named_in_its_place(
    asked: str, logged: str, near: str
) -> None:
    config = {**NESTED, "metric": {"name": asked, "goal": "maximize"}}
    results = build_results(sweep(config), [run("a", **{logged: 1.0})])
    assert find_near(results) == near
    assert ("did you mean" in list_metric_doubts(results)[0]) == bool(near)
    assert ("--goal maximize" in name_other_metric(results)) == bool(near)


def test_what_cannot_be_ranked_is_counted() -> None:
    lost = [run("nan", loss="NaN"), run("inf", loss=-math.inf)]
    results = build_results(sweep(), [*lost, run("one", loss=1.0), run("none")])
    assert [row.run_id for row in results.rows if row.rank is not None] == ["one"]
    assert list_metric_doubts(results) == (
        "1 of 4 finished runs did not log loss",
        "loss is NaN or infinite in 2 of 4 finished runs, which rank last",
    )
    assert build_results(sweep(), lost).metric_missing


def test_a_finished_run_whose_process_failed_is_doubted() -> None:
    codes = {"good": 0, "bad": 3, "killed": 137, "unseen": None}
    runs = [
        replace(run(name, loss=1.0), attempts=(Attempt(1, "a", 1.0, 2.0, "delivered", code),))
        for name, code in codes.items()
    ]
    [said] = list_doubts(build_results(sweep(), runs))
    assert said.startswith("1 of 4 finished runs exited with an error, first bad with 3: wandb")
    assert list_doubts(build_results(sweep(), runs[:1])) == ()


def test_what_a_cancelled_sweep_did_not_run_is_not_lost() -> None:
    cancelled = replace(sweep(expected=4), state="CANCELED")
    coverage = build_results(cancelled, [run("a", loss=1.0), run("b", "killed")]).coverage
    assert coverage.sentence() == ("1/4 configurations finished, 0 duplicates, 0 lost, 3 cancelled")
    assert not coverage.complete
